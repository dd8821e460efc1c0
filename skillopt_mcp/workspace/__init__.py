"""Where things are, who answers in which role, lint of skills, and work for hosts."""
