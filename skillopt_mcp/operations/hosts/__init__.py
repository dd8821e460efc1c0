"""Hosts: the server, its hooks and its skill in the files of Claude Code, Codex and others."""
