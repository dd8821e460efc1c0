"""Tasks: how they come in, what is wrong with them, and how they go out of use."""
