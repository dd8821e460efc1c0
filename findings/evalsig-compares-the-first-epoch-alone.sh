#!/bin/sh
# evalsig 0.1.2: compare() reads epoch 0 of each item and drops the others without a note.
#
# Forty items, five attempts each. The old text passes the first attempt and fails four; the new one fails the first and
# passes four. By all attempts the new text goes from 0.2 to 0.8; the result says -1.0 with p below 1e-9, and no note.
#
# Seen:
#     mean of all attempts: old 0.2, new 0.8
#     compare: delta -1.0, p 6.98e-10, pairs 40, notes ()
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile evalsig==0.1.2
venv/bin/python - <<'PYTHON'
from evalsig.compare.compare import compare
from evalsig.types import ItemResult, RunFrame

def frame(name, attempts):
    items = [ItemResult(item_id=str(item), score=score, epoch=epoch)
             for item in range(40) for epoch, score in enumerate(attempts)]
    return RunFrame(run_id=name, model_id=name, task_id="t", metric_name="acc", items=items)

old, new = frame("old", [1.0, 0.0, 0.0, 0.0, 0.0]), frame("new", [0.0, 1.0, 1.0, 1.0, 1.0])
means = [sum(item.score for item in run.items) / len(run.items) for run in (old, new)]
result = compare(old, new)
print(f"mean of all attempts: old {means[0]:.1f}, new {means[1]:.1f}")
print(f"compare: delta {result.delta}, p {result.p_value:.2e}, pairs {result.n_pairs}, notes {result.notes}")
assert result.delta == -1.0 and result.p_value < 1e-9 and result.n_pairs == 40 and not result.notes
PYTHON
