#!/bin/sh
# Claude Code 2.1.332: with -p, "/cost" and "/help" are answered without the model, and the init event lists neither.
#
# slash_commands in the init event of stream-json looks like the list of what is not a prompt. /cost and /help are missing
# there, yet a task that begins with one of them never reaches the model: the result is a "success" of zero turns.
#
# Seen (command, in slash_commands, requests to the model, subtype, turns):
#     /cost False 0 success 0
#     /help False 0 success 0
#     /price True 1 success 1
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit --prefix . @anthropic-ai/claude-code@2.1.332
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 - <<'PYTHON'
from fake_model import events_of, run_claude, write_skill

write_skill(".claude", "price", "description: How to price.", "Body.")
rows = []
for command in ("cost", "help", "price"):
    done, bodies = run_claude(f"/{command}")
    events = events_of(done)
    listed = next(each for each in events if each.get("subtype") == "init")["slash_commands"]
    result = next(each for each in events if each["type"] == "result")
    rows.append((command in listed, len(bodies), result["subtype"], result["num_turns"]))
    print(f"/{command}", *rows[-1])
assert rows == [(False, 0, "success", 0), (False, 0, "success", 0), (True, 1, "success", 1)], rows
PYTHON
