#!/bin/sh
# promptfoo 0.123.1: weight 0 takes the vote from an assertion, but not from an `assert-set`.
#
# A failed assertion of weight 0 leaves its test passed, as a metric that is watched alone should. A failed set of weight 0
# counts nothing in the score and fails the test all the same: score 1, and failed.
#
# Seen, beside an assertion that holds:
#     equals, weight 0: passed True, score 1      assert-set, weight 0: passed False, score 1
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 - <<'PYTHON'
from promptfoo import evaluate

holds, wrong = {"type": "equals", "value": "no"}, {"type": "equals", "value": "yes"}
seen = {}
for name, item in {"equals": wrong, "assert-set": {"type": "assert-set", "assert": [wrong]}}.items():
    _, wrote, [result] = evaluate("{{answer}}", {"vars": {"answer": "no"}, "assert": [holds, {**item, "weight": 0}]})
    seen[name] = result["success"], result["score"]
    print(f"{name}, weight 0: passed {result['success']}, score {result['score']}")
assert seen == {"equals": (True, 1), "assert-set": (False, 1)}, wrote
PYTHON
