#!/bin/sh
# Claude Code 2.1.332: `$0`, `$1`, ... in the prose of a skill are replaced by the words of the call.
#
# They count from zero, and only those are replaced that the call has words for: in a skill that says "the deposit is $1",
# "/price north south" makes it "the deposit is south". A backslash keeps the text and is removed. The file on disk and what
# the model reads so differ from call to call.
#
# Seen, for "/price north south east":
#     The fee is $5, the deposit $1, the rest $0, tax \$2.
#     The fee is $5, the deposit south, the rest north, tax $2.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit --prefix . @anthropic-ai/claude-code@2.1.332
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 - <<'PYTHON'
import json
from fake_model import run_claude, write_skill

TEXT = "The fee is $5, the deposit $1, the rest $0, tax \\$2."
write_skill(".claude", "price", "description: How to price.", TEXT)
_, bodies = run_claude("/price north south east")
read = json.dumps(bodies[0]["messages"])
read = read[read.index("The fee") :].partition("tax $2.")[0] + "tax $2."
print(TEXT)
print(read)
assert read == "The fee is $5, the deposit south, the rest north, tax $2.", read
PYTHON
