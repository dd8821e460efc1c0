#!/bin/sh
# Claude Code 2.1.332: `claude mcp add-json` does not replace a server, and drops keys that it does not know.
#
# A second add-json of the same name exits 1 and keeps the first entry, so an installer has to remove before it adds, and a
# failure between the two loses the entry. An unknown key is dropped with exit code 0. `mcp remove` of the only server of a
# project leaves .mcp.json with an empty mcpServers behind, a file that was not there before.
#
# Seen:
#     add 0, add again 1, args kept ['first'], keys ['args', 'command', 'type']
#     remove 0, .mcp.json left: {'mcpServers': {}}
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit --prefix . @anthropic-ai/claude-code@2.1.332
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 - <<'PYTHON'
import json, pathlib
from fake_model import claude

def add(*args):
    entry = {"type": "stdio", "command": "true", "args": list(args), "myNote": "kept?"}
    return claude("mcp", "add-json", "--scope", "project", "mine", json.dumps(entry)).returncode

config = pathlib.Path("project/.mcp.json")
codes = add("first"), add("second")
entry = json.loads(config.read_text())["mcpServers"]["mine"]
print(f"add {codes[0]}, add again {codes[1]}, args kept {entry['args']}, keys {sorted(entry)}")
removed, left = claude("mcp", "remove", "--scope", "project", "mine").returncode, json.loads(config.read_text())
print(f"remove {removed}, .mcp.json left: {left}")
assert codes == (0, 1) and entry["args"] == ["first"] and "myNote" not in entry
assert (removed, left) == (0, {"mcpServers": {}})
PYTHON
