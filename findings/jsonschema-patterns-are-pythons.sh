#!/bin/sh
# jsonschema 4.26.0 (Python): patterns are Python's, so valid schemas of other tools are refused, or read otherwise.
#
# JSON Schema asks for ECMA-262. Property classes and named groups of it make the *schema* invalid here; `$` accepts a final
# newline and \d accepts every script's digits, which ECMA-262 does not. An MCP tool's inputSchema that hosts in JavaScript
# accept may fail in a Python client.
#
# Seen:
#     ^\p{L}+$ SchemaError;  (?<year>[0-9]{4}) SchemaError;  ^a$ accepts 'a\n': True;  ^\d$ accepts U+0664: True
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile jsonschema==4.26.0
venv/bin/python - <<'PYTHON'
import jsonschema

def state(pattern, text):
    try:
        jsonschema.validate(text, {"type": "string", "pattern": pattern})
    except jsonschema.SchemaError:
        return "SchemaError"
    except jsonschema.ValidationError:
        return False
    return True

cases = [(r"^\p{L}+$", "a"), ("(?<year>[0-9]{4})", "2026"), ("^a$", "a\n"), (r"^\d$", "\u0664")]
seen = [state(*case) for case in cases]
for (pattern, text), found in zip(cases, seen):
    print(pattern, ascii(text), found)
assert seen == ["SchemaError", "SchemaError", True, True], seen
PYTHON
