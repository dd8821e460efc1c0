#!/bin/sh
# SkillOpt 0.2.0: with the paper's edit budget (4 falling to 2), cosine and linear schedules are equal in short runs.
#
# Budgets are whole numbers and step 1 is already part of the decay, so for 1, 2, 4, 5 and 8 steps both give the same list.
# Four epochs of one batch, the usual small run, is one of them; a run of two steps never gets the maximum of 4.
#
# Seen:
#     equal for 1, 2, 4, 5, 8 steps of 1 to 40
#     4 steps: linear [4, 3, 2, 2], cosine [4, 3, 2, 2];  2 steps: [3, 2]
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile skillopt==0.2.0
venv/bin/python - <<'PYTHON'
from skillopt.optimizer.scheduler import build_scheduler

def budgets(mode, n):
    return [build_scheduler(mode, 4, 2, n).get_lr(step) for step in range(1, n + 1)]

equal = [n for n in range(1, 41) if budgets("linear", n) == budgets("cosine", n)]
print("equal for", equal, "steps of 1 to 40")
print("4 steps: linear", budgets("linear", 4), "cosine", budgets("cosine", 4), " 2 steps:", budgets("cosine", 2))
assert equal == [1, 2, 4, 5, 8] and budgets("cosine", 4) == [4, 3, 2, 2] and budgets("cosine", 2) == [3, 2]
PYTHON
