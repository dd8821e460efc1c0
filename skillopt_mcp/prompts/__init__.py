"""Prompts: the instructions an optimizer is given, one Markdown file each."""
