#!/bin/sh
# inspect_ai 0.3.285: samples without ids are numbered after the shuffle, so sample 1 is another question in every order.
#
# Neither shuffle of the data set nor sample_shuffle of eval() keeps the line of the file as the id. Two runs compared by id
# then pair different questions, and no id is missing. json_dataset(auto_id=True) numbers the lines before it shuffles.
#
# Seen, the id of each line of a file of six, seed 1 and seed 2:
#     shuffle          [4, 6, 1, 2, 5, 3] [6, 3, 1, 2, 4, 5]
#     sample_shuffle   [4, 6, 1, 2, 5, 3] [6, 3, 1, 2, 4, 5]
#     auto_id, shuffle [1, 2, 3, 4, 5, 6] [1, 2, 3, 4, 5, 6]
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile inspect_ai==0.3.285
venv/bin/python - <<'PYTHON'
import json, pathlib
from inspect_ai import Task, eval
from inspect_ai.dataset import json_dataset
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import includes
from inspect_ai.solver import solver

@solver
def answers():
    async def solve(state, generate):
        state.output = ModelOutput.from_content("mockllm/model", "yes")
        return state
    return solve

lines = [f"question {number}" for number in range(1, 7)]
pathlib.Path("cases.jsonl").write_text("".join(json.dumps({"input": line, "target": "yes"}) + "\n" for line in lines))

def ids(sample_shuffle=None, **options):
    task = Task(dataset=json_dataset("cases.jsonl", **options), solver=answers(), scorer=includes())
    [log] = eval(task, model="mockllm/model", sample_shuffle=sample_shuffle, display="none")
    assert log.status == "success", log.error
    found = {sample.input: sample.id for sample in log.samples}
    return [found[line] for line in lines]

seen = {"shuffle": [ids(shuffle=True, seed=seed) for seed in (1, 2)],
        "sample_shuffle": [ids(sample_shuffle=seed) for seed in (1, 2)],
        "auto_id, shuffle": [ids(auto_id=True, shuffle=True, seed=seed) for seed in (1, 2)]}
for name, (one, two) in seen.items():
    print(f"{name:16} {one} {two}")
    assert (one == two == [1, 2, 3, 4, 5, 6]) if name.startswith("auto_id") else sorted(one) == sorted(two) and one != two
PYTHON
