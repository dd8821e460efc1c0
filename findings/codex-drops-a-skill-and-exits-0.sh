#!/bin/sh
# Codex 0.171.0: a skill whose front matter it cannot read is missing, and the run ends with exit code 0.
#
# A key that stands twice, a tab as indent, a value that begins with * and a missing description each drop the skill. One
# line on standard error names it; --json says nothing. An unquoted colon, a missing name and disable-model-invocation are
# accepted, the last without effect.
#
# Seen:
#     exit 0; listed plain colon nameless hidden; only named on stderr twice tabbed starred silent; in --json none
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit --prefix . @openai/codex@0.171.0
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 - <<'PYTHON'
import json
from fake_model import run_codex, write_skill

SHAPES = {"plain": "name: plain\ndescription: Plain.", "colon": "name: colon\ndescription: Use it: always.",
          "nameless": "description: Nameless.",
          "hidden": "name: hidden\ndescription: Hidden.\ndisable-model-invocation: true",
          "twice": "name: twice\ndescription: One.\ndescription: Two.",
          "tabbed": "name: tabbed\ndescription: Tabbed.\nmetadata:\n\towner: me",
          "starred": "name: starred\ndescription: *always* use it.", "silent": "name: silent"}
for name, front in SHAPES.items():
    write_skill(".agents", name, front, f"Body of {name}.")
done, bodies = run_codex("Hello")
read = json.dumps(bodies[0]["input"])
listed = [name for name in SHAPES if f"- {name}:" in read]
dropped = [name for name in SHAPES if f"/{name}/SKILL.md" in done.stderr]
in_json = [name for name in SHAPES if name in done.stdout]
print(f"exit {done.returncode}; listed", *listed, "; only named on stderr", *dropped, "; in --json", *(in_json or ["none"]))
assert done.returncode == 0 and not in_json
assert listed == ["plain", "colon", "nameless", "hidden"] and dropped == ["twice", "tabbed", "starred", "silent"]
PYTHON
