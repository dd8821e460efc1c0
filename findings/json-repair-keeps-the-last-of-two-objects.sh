#!/bin/sh
# json_repair 0.64.4: of two JSON objects with the same keys in a reply, the first is dropped.
#
# Many programs read a model's verdict with it. A judge that writes an example first, or corrects itself, gives two objects:
# objects with other keys come back as a list, with the same keys only the last. Prose with braces is a list of numbers, and
# a reply without JSON is the empty text, no error.
#
# Seen:
#     'First: {"score": 1} Then: {"score": 0}' -> {'score': 0}
#     'First: {"score": 1} Then: {"why": "x"}' -> [{'score': 1}, {'why': 'x'}]
#     'The set {1, 2} is closed.' -> [1, 2]
#     'I cannot judge this.' -> ''
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile json_repair==0.64.4
venv/bin/python - <<'PYTHON'
import json_repair

CASES = {'First: {"score": 1} Then: {"score": 0}': {"score": 0},
         'First: {"score": 1} Then: {"why": "x"}': [{"score": 1}, {"why": "x"}],
         "The set {1, 2} is closed.": [1, 2],
         "I cannot judge this.": ""}
for text, expected in CASES.items():
    found = json_repair.loads(text)
    print(repr(text), "->", repr(found))
    assert found == expected, (text, found)
PYTHON
