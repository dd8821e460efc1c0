"""Packaging: the server as a plugin of Claude Code, as a bundle for Claude Desktop, and as an entry of the registry."""
