#!/bin/sh
# tomlkit 0.15.2: the comment above a table belongs to the table before it.
#
# Removing [mcp_servers.a] from a config takes the comment that explains [mcp_servers.b] with it; removing b leaves its
# comment behind, under a. A program that takes its own entry out so deletes a note that a person wrote on another one.
#
# Seen:
#     without a: '[mcp_servers.b]\ncommand = "b"\n'
#     without b: '[mcp_servers.a]\ncommand = "a"\n\n# b needs a login\n'
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile tomlkit==0.15.2
venv/bin/python - <<'PYTHON'
import tomlkit

TEXT = '[mcp_servers.a]\ncommand = "a"\n\n# b needs a login\n[mcp_servers.b]\ncommand = "b"\n'
left = {}
for name in ("a", "b"):
    document = tomlkit.parse(TEXT)
    del document["mcp_servers"][name]
    left[name] = tomlkit.dumps(document)
    print(f"without {name}: {left[name]!r}")
assert "# b needs a login" not in left["a"] and "# b needs a login" in left["b"]
PYTHON
