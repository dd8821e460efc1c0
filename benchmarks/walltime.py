"""Walltime: how long a training step waits for a model, next to the build before, skillrl, and what the slots allow.

    BEFORE_PYTHON=.../bin/python PEERS_PYTHON=.../bin/python python benchmarks/walltime.py [--steps N] [--json]

Each interpreter has that build; without one its column is left out. Answers take a log-normal time with a median of 4 s
(3 of 100 ten times as long), here 20 times faster; seconds are those of the slow model. A step has 40 rollouts, their
reflection and merges, and 40 rollouts of the evaluation. `ideal` is the time of a step's calls divided by the slots.
Runs take turns; figures are means over all steps but the first.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.doors import parser, show

ROOT = Path(__file__).parents[1]
SETTINGS = ("plain", "rubric", "one_merge")
SPEED = 20.0
GOALS = {"plain": 0.75, "rubric": 0.60, "one_merge": 0.65}


def measure(python: str, ours: bool, setting: str, slots: int, n_steps: int) -> dict[str, float]:
    """The figures of one run, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Of this checkout other builds see the benchmarks alone.
        (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
        (folder / "run").mkdir()
        arguments = [setting, str(slots), str(n_steps), str(4 / SPEED), str(folder / "run")]
        done = subprocess.run(
            [python, str(ROOT / "benchmarks" / "timed_trainer.py"), *arguments], cwd=folder, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT if ours else folder)}, capture_output=True, text=True,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{setting} of {python} ended with {done.returncode}:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "one setting, two steps")
    flags.add_argument("--steps", type=int, default=12, help="measured steps per run")
    flags.add_argument("--runs", type=int, default=3, help="runs to take the mean of")
    flags.add_argument("--slots", type=int, default=32, help="calls at once")
    options = flags.parse_args()
    n_steps, n_runs = (2, 1) if options.short else (options.steps, options.runs)
    before, peers = os.environ.get("BEFORE_PYTHON"), os.environ.get("PEERS_PYTHON")
    found: dict[str, dict[str, float]] = {}
    for setting in SETTINGS[: 1 if options.short else None]:
        of_before = "plain" if setting == "one_merge" else setting
        builds = [("ours", sys.executable, setting), ("before", before, of_before)]
        builds += [("skillrl", peers, "skillrl")] if setting == "plain" else []
        runs: dict[str, list[dict[str, float]]] = {}
        for _ in range(n_runs):
            for build, python, of_build in builds:
                if python:
                    runs.setdefault(build, []).append(
                        measure(python, build == "ours", of_build, options.slots, n_steps)
                    )
        row = {name: statistics.fmean(each["seconds_a_step"] for each in runs[name]) for name in runs}
        row["ideal"] = statistics.fmean(each["waited"] for each in runs["ours"])
        row |= {f"calls_{name}": statistics.fmean(each["calls"] for each in runs[name]) for name in runs}
        if "before" in row:
            row |= {"ratio": row["ours"] / row["before"], "goal": GOALS[setting]}
        found[setting] = {name: round(value, 2) for name, value in row.items()}
    show(found, options.json)


if __name__ == "__main__":
    main()
