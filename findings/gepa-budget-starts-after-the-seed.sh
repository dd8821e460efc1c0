#!/bin/sh
# gepa 0.1.4: max_metric_calls is looked at between iterations, and the seed is always evaluated on the whole valset.
#
# With 40 validation examples a budget of 1 spends 40 calls, and 50 spends 92. Whoever pays per call
# has to keep a whole valset and two minibatches in reserve.
#
# Seen, budget -> metric calls:
#     1 -> 40, 50 -> 92, 100 -> 138, 150 -> 184
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile gepa==0.1.4
venv/bin/python - <<'PYTHON'
import contextlib, io
import gepa
from gepa import EvaluationBatch, GEPAAdapter

class Adapter(GEPAAdapter):
    n_calls = 0
    def evaluate(self, batch, candidate, capture_traces=False):
        Adapter.n_calls += len(batch)
        scores = [len(candidate["prompt"]) % 7 / 7 for _ in batch]
        return EvaluationBatch(outputs=["x"] * len(batch), scores=scores,
                               trajectories=[{}] * len(batch) if capture_traces else None)
    def make_reflective_dataset(self, candidate, batch, components):
        return {name: [{"Inputs": "i", "Generated Outputs": "o", "Feedback": "f"}] for name in components}

spent = {}
for budget in (1, 50, 100, 150):
    Adapter.n_calls, texts = 0, iter(range(1, 10_000))
    with contextlib.redirect_stdout(io.StringIO()):
        gepa.optimize(seed_candidate={"prompt": "a"}, trainset=list(range(10)), valset=list(range(40)), adapter=Adapter(),
                      reflection_lm=lambda prompt: "```\n" + "a" * next(texts) + "\n```", max_metric_calls=budget, seed=0,
                      display_progress_bar=False)
    spent[budget] = Adapter.n_calls
print(", ".join(f"{budget} -> {n}" for budget, n in spent.items()))
assert spent == {1: 40, 50: 92, 100: 138, 150: 184}, spent
PYTHON
