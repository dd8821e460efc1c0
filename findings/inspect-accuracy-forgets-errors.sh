#!/bin/sh
# inspect_ai 0.3.285: with fail_on_error=False, samples that end in an error leave the denominator of the accuracy.
#
# A solver that raises on two of four samples scores 1.0, and the status of the log is "success". A skill whose tool fails
# on the hard half of the tasks looks perfect, unless the reader compares completed_samples with total_samples.
#
# Seen:
#     status success, accuracy 1.0, total 4, completed 2, errors 2
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile inspect_ai==0.3.285
venv/bin/python - <<'PYTHON'
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import includes
from inspect_ai.solver import solver

@solver
def fails_on_the_hard_half():
    async def solve(state, generate):
        if state.sample_id > 2:
            raise RuntimeError("the tool did not answer")
        state.output = ModelOutput.from_content("mockllm/model", "yes")
        return state
    return solve

samples = [Sample(id=number, input="Is it done?", target="yes") for number in (1, 2, 3, 4)]
task = Task(dataset=samples, solver=fails_on_the_hard_half(), scorer=includes())
[log] = eval(task, model="mockllm/model", fail_on_error=False, display="none")
accuracy = log.results.scores[0].metrics["accuracy"].value
n_errors = sum(sample.error is not None for sample in log.samples)
totals = log.results.total_samples, log.results.completed_samples
print(f"status {log.status}, accuracy {accuracy}, total {totals[0]}, completed {totals[1]}, errors {n_errors}")
assert (log.status, accuracy, *totals, n_errors) == ("success", 1.0, 4, 2, 2)
PYTHON
