"""Timed trainer: how long a training run waits for a model whose answers take their time, in any build of this package.

    python benchmarks/timed_trainer.py SETTING SLOTS STEPS SECONDS FOLDER

SETTING is `plain`, `rubric` (a model judges), `one_merge`, or `skillrl`, which runs in the interpreter that has it. A
call takes a log-normal time with a median of SECONDS (sigma .5); of 100 calls 3 take ten times as long.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.zero_model import BATCH, Stage, ZeroModel, transcript

_SKILL = """\
---
name: ledger-clerk
description: Work out amounts of a ledger.
---

# Ledger clerk

Give two decimals.
"""
_STAGES: dict[str, Stage] = {"reflect": "reflect", "merge": "merge", "rank": "rank"}


class SlowModel(ZeroModel):
    """The made-up model, with the time that each answer takes; `latency_s` is another one each time."""

    def __init__(self, median_s: float) -> None:
        self.n, self.waited_s = Counter[str](), 0.0
        self._chance, self._median_s, self._drawing = random.Random(1), median_s, threading.Lock()
        super().__init__()

    def draw_s(self, stage: str) -> float:
        """The seconds that the next answer takes."""
        with self._drawing:
            seconds = self._median_s * self._chance.lognormvariate(0.0, 0.5)
            seconds *= 10 if self._chance.random() < 0.03 else 1
            self.n[stage] += 1
            self.waited_s += seconds
        return seconds


def train_ours(setting: str, model: SlowModel, slots: int, n_steps: int, folder: Path) -> list[float]:
    """The times at which the steps of a run ended."""
    package: Any = importlib.import_module("skillopt_mcp")

    class Slow:
        name = fingerprint = "slow"
        deferred = False

        async def complete(self, call: Any) -> Any:
            seconds = model.draw_s(call.stage)
            if call.stage == "rollout":
                prompt = call.request.task.prompt
                answer = model.target(prompt)
                said = (package.Message("user", prompt), package.Message("assistant", transcript(prompt, answer)))
                reply = package.Reply(answer, said, package.Usage(1, 1, 0.0))
            else:
                grade = "none" if "value unknown" in call.request.evidence else "all"
                text = json.dumps({"reasoning": "made up", "grade": grade})
                text = text if call.stage == "judge" else model.optimizer(_STAGES[call.stage])
                reply = package.Reply(text, usage=package.Usage(1, 1, 0.0))
            await asyncio.sleep(seconds)
            return reply

    skill = folder / "skills" / "ledger-clerk"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(_SKILL)
    rubric = {"kind": "rubric", "rubric": "It names the right value."}
    rows = [
        {"prompt": f"What is item {i} of the ledger?", "split": "train" if i < BATCH else "val",
         "judge": rubric if setting == "rubric" else {"kind": "exact", "expected": f"value {i}"}}
        for i in range(2 * BATCH)
    ]  # fmt: skip
    config = {"epochs": n_steps + 1, "batch": BATCH, "slow_update": False, "meta_skill": False}
    config |= {"one_merge": True} if setting == "one_merge" else {}
    ends, backend = list[float](), Slow()
    package.train(
        skill, rows, config=config, target=backend, optimizer=backend, judge=backend if setting == "rubric" else None,
        store=folder / "skillopt.db", concurrency=slots, callbacks={"step": lambda _: ends.append(time.perf_counter())},
    )  # fmt: skip
    return ends


def train_skillrl(model: SlowModel, slots: int, n_steps: int, folder: Path) -> list[float]:
    """The times at which the steps of skillrl's run began, from the second on."""
    peers: Any = importlib.import_module("benchmarks.peer_trainers")
    peers.WORKERS = slots

    class Client(peers.Client):  # type: ignore[misc]
        def _answer(self, user: str, stage: str) -> str:
            time.sleep(model.draw_s(stage))
            return str(super()._answer(user, stage))

    peers.train_skillrl(Client(model), n_steps + 1, folder)
    return [reading.wall_s for reading in model.readings]


def main(setting: str, slots: int, n_steps: int, median_s: float, folder: Path) -> None:
    """Train one step more than is measured, and print the figures."""
    model = SlowModel(median_s)
    if setting == "skillrl":
        ends = train_skillrl(model, slots, n_steps, folder)
    else:
        ends = train_ours(setting, model, slots, n_steps, folder)
    n = len(ends) - 1
    whole = (ends[-1] - ends[0]) / n / median_s * 4
    print(json.dumps({"seconds_a_step": whole, "calls": model.n.total() / len(ends), "steps": n,
                      "waited": model.waited_s / len(ends) / slots / median_s * 4}))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), Path(sys.argv[5]))
