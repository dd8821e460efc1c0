"""Packaging: the server as a plugin of Claude Code, as a bundle for Claude Desktop, and as an entry of the registry."""

from pathlib import Path

HERE = Path(__file__).resolve().parent
