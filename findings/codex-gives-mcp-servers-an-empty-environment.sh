#!/bin/sh
# Codex 0.171.0: an MCP server gets HOME, PATH and a locale, and nothing that says which program it serves.
#
# Variables of the person's shell (keys, proxies, a tool's own settings) do not arrive unless env or env_vars in config.toml
# names them, and there is no CODEX_ variable, so a server that looks for one to learn its host finds none.
#
# Seen, of a shell with HOME, PATH, LOCAL_KEY, NO_PROXY, MY_TOOL_STORE:
#     the server has HOME PATH (and LC_ or LANG)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit --prefix . @openai/codex@0.171.0
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 - <<'PYTHON'
import os, pathlib
from fake_model import run_codex

server = pathlib.Path("server.py").resolve()
found = pathlib.Path("found.txt").resolve()
server.write_text(f"import os, pathlib, sys\npathlib.Path({str(found)!r}).write_text(' '.join(os.environ))\nsys.stdin.read()\n")
config = f'[mcp_servers.mine]\ncommand = "python3"\nargs = ["{server}"]\n'
run_codex("Hello", config, MY_TOOL_STORE="/tmp/mine")
names = [name for name in found.read_text().split() if not name.startswith(("LC_", "LANG"))]
print("the server has", *sorted(names))
assert sorted(names) == ["HOME", "PATH"], names
PYTHON
