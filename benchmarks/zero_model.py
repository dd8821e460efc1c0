"""Zero model: the made-up model that every trainer is driven with, and the meter that reads what a step costs.

It needs nothing but the standard library, for it also runs in the interpreter of the published packages.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

BATCH = 40
ROLLOUTS_PER_STEP = 2 * BATCH
TRANSCRIPT = 4096
MERGED = 8
WORKERS = 8
Stage = Literal["rollout", "reflect", "merge", "rank"]
# Small words among the others, as in any transcript.
_FILLER = "I read the entry of the ledger: the balance is carried to the next line, in a column of amounts. " * (
    TRANSCRIPT // 64
)
_ITEM = re.compile(r"item (\d+)\b")


class Reading(NamedTuple):
    """What the process has used so far: wall and CPU seconds, and bytes that it handed to the disk (NaN: unknown)."""

    wall_s: float
    cpu_s: float
    written: float


def read_now() -> Reading:
    """Return what the process has used so far."""
    path = Path("/proc/self/io")
    written = float("nan")
    if path.exists():
        written = float(dict(line.split(": ") for line in path.read_text().splitlines())["write_bytes"])
    return Reading(time.perf_counter(), time.process_time(), written)


class ZeroModel:
    """Answers every question of a trainer at once, or after `latency_s`, and reads the meter where a step begins.

    A rollout passes by chance, whatever the skill says; the optimizer proposes new lines without end, so that every
    step has a candidate to evaluate.
    """

    def __init__(self, latency_s: float = 0.0) -> None:
        self.latency_s = latency_s
        self.readings: list[Reading] = []
        self.calls: list[Counter[str]] = []
        self._lines = count(1)
        self._visits: Counter[str] = Counter()
        self._n_rollouts = 0
        self._lock = threading.Lock()

    def target(self, prompt: str) -> str:
        """Return the answer to a task that names its item: "value N" when it is right."""
        found = _ITEM.search(prompt)
        item = found[1] if found else ""
        with self._lock:
            if self._n_rollouts >= BATCH and (self._n_rollouts - BATCH) % ROLLOUTS_PER_STEP == 0:
                self.readings.append(read_now())
                self.calls.append(Counter())
            self._n_rollouts += 1
            self._visits[item] += 1
            visit = self._visits[item]
            if self.calls:
                self.calls[-1]["rollout"] += 1
        passed = hashlib.sha256(f"{item} {visit}".encode()).digest()[0] % 2
        return f"value {item}" if passed else "value unknown"

    def optimizer(self, stage: Stage) -> str:
        """Return the JSON of a reply in the words of all three packages."""
        with self._lock:
            if self.calls:
                self.calls[-1][stage] += 1
        if stage == "rank":
            return json.dumps({"ranking": list(range(1, MERGED + 1)), "selected_indices": list(range(MERGED))})
        edits = [self._edit() for _ in range(MERGED if stage == "merge" else 2)]
        reply = {"reasoning": "made up", "edits": edits}
        if stage == "reflect":
            return json.dumps({**reply, "patch": reply})
        return json.dumps({**reply, "merged_from": [[number] for number in range(1, MERGED + 1)]})

    def _edit(self) -> dict[str, str]:
        with self._lock:
            n = next(self._lines)
        return {"op": "append", "target": "", "content": f"- Rule {n}: compare the total with the sum of its parts."}


def transcript(prompt: str, answer: str) -> str:
    """Return what a model said on the way to its answer: with the prompt, TRANSCRIPT characters."""
    return _FILLER[: max(0, TRANSCRIPT - len(prompt) - len(answer))] + answer


def waves(calls: Counter[str], workers: int = WORKERS) -> int:
    """Return how many calls of a step must follow one another when `workers` may be under way at once.

    The merges of failures and of successes can run together, the last one needs both.
    """
    rollouts = 2 * -(-(calls["rollout"] // 2) // workers)
    return rollouts + -(-calls["reflect"] // workers) + min(2, calls["merge"]) + calls["rank"]


def figures(model: ZeroModel, n_steps: int) -> dict[str, float]:
    """Return what the first `n_steps` steps cost: CPU, bytes, how evenly they were written, and how parallel it was."""
    readings = model.readings[: n_steps + 1]
    first, last, quarter = readings[0], readings[-1], max(1, n_steps // 4)
    ideal_s = sum(waves(calls) for calls in model.calls[:n_steps]) * model.latency_s
    opening, ending = readings[quarter].written - first.written, last.written - readings[-1 - quarter].written
    cpu_s, payload = last.cpu_s - first.cpu_s, n_steps * ROLLOUTS_PER_STEP * TRANSCRIPT
    return {
        "cpu_us_per_rollout": cpu_s / n_steps / ROLLOUTS_PER_STEP * 1e6,
        "cpu_ms_per_step": cpu_s / n_steps * 1e3,
        "bytes_per_payload_byte": (last.written - first.written) / payload,
        "bytes_growth": ending / opening if opening else float("nan"),
        "efficiency": ideal_s / (last.wall_s - first.wall_s),
    }
