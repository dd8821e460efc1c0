"""Our trainer: what a training run costs here, with the model that the published packages are driven with.

python benchmarks/our_trainer.py STEPS LATENCY_MS FOLDER
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from benchmarks.doors import add_tasks
from benchmarks.zero_model import BATCH, WORKERS, Stage, ZeroModel, figures, transcript
from skillopt_mcp import Call, Message, Reply, Rollout, Usage, train

_STAGES: dict[str, Stage] = {"reflect": "reflect", "merge": "merge", "rank": "rank"}
SKILL = """\
---
name: ledger-clerk
description: Work out amounts of a ledger.
---

# Ledger clerk

Find the amount that is asked for.

- Give two decimals.
"""


class ZeroBackend:
    """The made-up model as a backend."""

    name = fingerprint = "zero"
    deferred = False

    def __init__(self, model: ZeroModel) -> None:
        self._model = model

    async def complete(self, call: Call) -> Reply:
        """Return the made-up answer."""
        request = call.request
        if isinstance(request, Rollout):
            prompt = request.task.prompt
            answer = self._model.target(prompt)
            messages = (Message("user", prompt), Message("assistant", transcript(prompt, answer)))
            reply = Reply(answer, messages, Usage(1, 1, 0.0))
        else:
            reply = Reply(self._model.optimizer(_STAGES[call.stage]), usage=Usage(1, 1, 0.0))
        if self._model.latency_s:
            await asyncio.sleep(self._model.latency_s)
        return reply


def train_ours(backend: ZeroBackend, n_steps: int, folder: Path, text: str = SKILL) -> None:
    """Train the skill of that text, one step an epoch."""
    skill = folder / "skills" / "ledger-clerk"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(text)
    store = folder / "skillopt.db"
    rows = [
        {"prompt": f"What is item {i} of the ledger?", "judge": {"kind": "exact", "expected": f"value {i}"},
         "split": "train" if i < BATCH else "val" if i < 2 * BATCH else "test"}
        for i in range(2 * BATCH + 1)
    ]  # fmt: skip
    add_tasks(store, skill, rows)
    # What belongs to an epoch is left out, there as here: one epoch is one step.
    config = {"epochs": n_steps, "batch": BATCH, "slow_update": False, "meta_skill": False}
    train(skill, config=config, target=backend, optimizer=backend, store=store, concurrency=WORKERS)


def main(n_steps: int, latency_ms: float, folder: Path) -> None:
    """Train one step more than is measured, and print the figures."""
    model = ZeroModel(latency_ms / 1000)
    train_ours(ZeroBackend(model), n_steps + 1, folder)
    print(json.dumps(figures(model, n_steps)))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]))
