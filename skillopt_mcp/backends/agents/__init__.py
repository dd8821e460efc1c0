"""Agents: the command lines of coding agents as backends, each call in a private place with nothing of the user's."""
