#!/bin/sh
# skills-ref 0.1.1, the reference validator of Agent Skills: front matter ends at the first --- anywhere, even in a sentence.
#
# Its reader splits the text at three dashes, not at a line of them. A description with a dash of that kind is cut, every
# field below it is part of the body, and the skill is valid. Its to-prompt offers the short text too.
#
# Seen, for "description: Use it for tables --- never for prose." and a line "license: MIT":
#     validate 0    read-properties {'name': 'tables', 'description': 'Use it for tables'}
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile skills-ref==0.1.1
venv/bin/python - <<'PYTHON'
import json, pathlib, subprocess

pathlib.Path("tables").mkdir()
text = "---\nname: tables\ndescription: Use it for tables --- never for prose.\nlicense: MIT\n---\nBody\n"
pathlib.Path("tables/SKILL.md").write_text(text)
code = subprocess.run(["venv/bin/agentskills", "validate", "tables"], capture_output=True).returncode
done = subprocess.run(["venv/bin/agentskills", "read-properties", "tables"], capture_output=True, text=True, check=True)
properties = json.loads(done.stdout)
print("validate", code, "  read-properties", properties)
assert (code, properties) == (0, {"name": "tables", "description": "Use it for tables"})
PYTHON
