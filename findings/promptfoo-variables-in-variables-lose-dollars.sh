#!/bin/sh
# promptfoo 0.123.1: a variable that goes into another variable loses dollar signs, or brings in text around it.
#
# Its text is the replacement of a JavaScript replace(): $$ becomes $, and $' the rest of the text. TeX is not what the file
# says. In the prompt itself, and in what an assertion compares with, the same variable stays whole.
#
# Seen, {{question}} is "Solve {{x}} now":
#     x = $$a+b$$   asked: Solve $a+b$ now | $$a+b$$          contains {{x}} now: False
#     x = cost $'   asked: Solve cost  now now | cost $'      contains {{x}} now: False
#     x = a+b       asked: Solve a+b now | a+b                contains {{x}} now: True
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 - <<'PYTHON'
from promptfoo import evaluate

values = ["$$a+b$$", "cost $'", "a+b"]
wants = [{"type": "contains", "value": "{{x}} now"}]
_, wrote, results = evaluate("{{question}} | {{x}}",
                             *({"vars": {"question": "Solve {{x}} now", "x": x}, "assert": wants} for x in values))
seen = [(each["response"]["output"], each["success"]) for each in results]
for x, (asked, passed) in zip(values, seen):
    print(f"x = {x}   asked: {asked}   contains {{{{x}}}} now: {passed}")
assert seen == [("Solve $a+b$ now | $$a+b$$", False), ("Solve cost  now now | cost $'", False), ("Solve a+b now | a+b", True)], wrote
PYTHON
