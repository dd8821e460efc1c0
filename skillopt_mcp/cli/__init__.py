"""Command line: the operations as commands for a terminal."""
