#!/bin/sh
# promptfoo 0.123.1: `contains-json` passes an answer that has no JSON, if anything in it stands in braces.
#
# What it finds between braces is read as YAML, where {name} is an object with an empty value. A template that was not
# filled in and a line of code so pass; `is-json` of the same text fails.
#
# Seen, contains-json / is-json:
#     Dear {name}, hello.  True / False      def f() { return x }  True / False
#     {name}               True / False      no braces             False / False
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 - <<'PYTHON'
from promptfoo import evaluate

answers = ["Dear {name}, hello.", "def f() { return x }", "{name}", "no braces"]
tests = [{"vars": {"answer": answer}, "assert": [{"type": kind}]} for answer in answers for kind in ("contains-json", "is-json")]
_, wrote, results = evaluate("{{answer}}", *tests)
passed = [each["success"] for each in results]
for at, answer in enumerate(answers):
    print(f"{answer:24}", *passed[2 * at:2 * at + 2])
assert passed == [True, False] * 3 + [False, False], wrote
PYTHON
