"""Fake Claude: what `claude mcp add-json` and `remove` do to the files of Claude Code 2.1."""

from __future__ import annotations

import sys
from pathlib import Path

_SOURCE = """#!{python}
import json, os, pathlib, sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("2.1.332 (Claude Code)"))
verb, scope, name = sys.argv[2], sys.argv[4], sys.argv[5]
home = os.environ.get("CLAUDE_CONFIG_DIR") or {home!r}
path = pathlib.Path(".mcp.json") if scope == "project" else pathlib.Path(home, ".claude.json")
value = json.loads(path.read_text() or "{{}}") if path.exists() else {{}}
servers = value.setdefault("mcpServers", {{}})
if (name in servers) == (verb == "add-json"):
    sys.exit(f"MCP server {{name}} already exists, or does not")
if verb == "add-json":
    servers[name] = {{"type": "stdio", **json.loads(sys.argv[6])}}
else:
    del servers[name]
path.write_text(json.dumps(value | {{"numStartups": 1}} if scope == "user" else value, indent=2))
"""


def put_claude(folder: Path, home: Path) -> None:
    """Put the program into a folder, for the user of a home."""
    folder.mkdir(exist_ok=True)
    (folder / "claude").write_text(_SOURCE.format(python=sys.executable, home=str(home)))
    (folder / "claude").chmod(0o755)
