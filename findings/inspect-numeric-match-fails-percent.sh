#!/bin/sh
# inspect_ai 0.3.285: match(numeric=True) fails "42%" and "42kg" where 42 is right, and passes "41 or 42" and "42 apples".
#
# It looks for words that are numbers and compares the last: a sign of currency may stand at it, a percent sign, a unit or
# an equals sign may not, and with a space between all of them pass. A decimal comma is dropped: 3,5 is 35.
#
# Seen, match(numeric=True)(answer, target):
#     It is 42% = I    It is 42 % = C    42kg = I    42 kg = C    x=42 = I    x = 42 = C    $42 = C
#     41 or 42 = C    42 apples = C    ("3,5", "35") = C    ("3,5", "3.5") = I
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile inspect_ai==0.3.285
venv/bin/python - <<'PYTHON'
import asyncio
from inspect_ai.model import ModelName, ModelOutput
from inspect_ai.scorer import Target, match
from inspect_ai.solver import TaskState

async def score(answer, target):
    state = TaskState(model=ModelName("mockllm/model"), sample_id=1, epoch=1, input="q", messages=[])
    state.output = ModelOutput.from_content("mockllm/model", answer)
    return (await match(numeric=True)(state, Target(target))).value

answers = ["It is 42%", "It is 42 %", "42kg", "42 kg", "x=42", "x = 42", "$42", "41 or 42", "42 apples"]
pairs = [(answer, "42") for answer in answers] + [("3,5", "35"), ("3,5", "3.5")]
seen = "".join(asyncio.run(score(*pair)) for pair in pairs)
for pair, value in zip(pairs, seen):
    print(*pair, "=", value, sep="  ")
assert seen == "ICICICCCCCI", seen
PYTHON
