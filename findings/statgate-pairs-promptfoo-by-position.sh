#!/bin/sh
# statgate 0.1.1 with exports of promptfoo: tests are paired by their position, not by what they are.
#
# Its reader names a case test-INDEX. One test put on top of the suite moves all others down by one: each is then compared
# with its neighbour, and every old case finds a partner. Here every question passed or failed as before.
#
# Seen:
#     one test added on top: pairs 6, pairs that compare different questions 6
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile statgate==0.1.1
venv/bin/python - <<'PYTHON'
import json, pathlib
from statgate.adapters.promptfoo import parse_promptfoo
from statgate.core.pairing import build_paired

def export(name, questions):
    rows = [{"testIdx": at, "promptIdx": 0, "vars": {"q": q}, "success": q % 2 == 0, "score": float(q % 2 == 0)}
            for at, q in enumerate(questions)]
    path = pathlib.Path(name)
    path.write_text(json.dumps({"results": {"results": rows}}))
    return parse_promptfoo(path), {f"test-{row['testIdx']}-prompt-0": row["vars"]["q"] for row in rows}

before, asked_before = export("before.json", [1, 2, 3, 4, 5, 6])
after, asked_after = export("after.json", [0, 1, 2, 3, 4, 5, 6])
pairs = build_paired(before, after, "score")
n_other = sum(asked_before[case] != asked_after[case] for case in pairs.case_ids)
print(f"one test added on top: pairs {pairs.n_pairs}, pairs that compare different questions {n_other}")
assert pairs.n_pairs == n_other == 6 and set(pairs.diffs) == {1.0, -1.0}
PYTHON
