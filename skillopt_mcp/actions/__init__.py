"""What a person or an agent can do, a verb a file."""
