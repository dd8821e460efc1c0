#!/bin/sh
# Claude Code 2.1.332: beyond a budget for all skills together, the model sees the name of a skill without its description.
#
# Twelve skills with descriptions of about 580 characters, each well below the limit of the specification: three
# descriptions are listed, nine skills by their name alone. Nothing on stderr says so, and the model has nothing but the name
# to choose these skills by.
#
# Seen:
#     skills 12, listed by name 12, with their description 3, stderr empty
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit --prefix . @anthropic-ai/claude-code@2.1.332
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 - <<'PYTHON'
import json
from fake_model import run_claude, write_skill

SENTENCE = "Use it when the ledger of a month is closed and a person asks for the sum of it. "
for number in range(12):
    write_skill(".claude", f"rule-{number:02}", f"description: Rule {number}. {SENTENCE * 7}", "Body.")
done, bodies = run_claude("Hello")
read = json.dumps(bodies)
n_names = sum(f"- rule-{number:02}" in read for number in range(12))
n_described = sum(f"Rule {number}. Use it" in read for number in range(12))
print(f"skills 12, listed by name {n_names}, with their description {n_described}, stderr {done.stderr or 'empty'}")
assert (n_names, n_described, done.stderr) == (12, 3, "")
PYTHON
