"""Rollouts: the CPU and the bytes that a stored rollout costs in `replay`, with a model that answers at once.

    python benchmarks/rollouts.py [--steps N] [--json]

A step is 80 rollouts of 4 KB (40 train, 40 val) with everything around them: calls, judging, reflection, merging, the
edit engine, the gate and the commits. Figures are the medians over repeated runs on stores of their own; bytes are what
the process handed to the disk (Linux: /proc/self/io, write_bytes) for one byte of transcript.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import skillopt_mcp
from benchmarks.doors import add_tasks, written_bytes
from benchmarks.simulation import task_rows, write_skill

BATCH = 40
TRANSCRIPT = 4096
ROLLOUTS_PER_STEP = 2 * BATCH
SPLITS = (*["train"] * BATCH, *["val"] * BATCH, "test")
CONFIG = {"batch": BATCH, "max_pairs": 8, "step_buffer": False, "slow_update": False, "meta_skill": False}


def measure(n_steps: int, seed: int, folder: Path) -> tuple[float, float]:
    """Return CPU seconds and written bytes of a training step of one run, start-up and first-use costs apart.

    They are means over `n_steps`, or fewer where the search came to the best score there is.
    """
    store, skill = folder / "skillopt.db", write_skill(folder, seed)
    add_tasks(store, skill, task_rows(len(SPLITS), seed, SPLITS))
    spec = f"simulated:honest,seed={seed},trajectory_bytes={TRANSCRIPT}"
    ends: list[tuple[float, float]] = []

    def note(progress: object) -> None:
        ends.append((time.process_time(), written_bytes()))

    skillopt_mcp.train(
        skill, config={**CONFIG, "epochs": n_steps + 1}, target=spec, optimizer=spec, store=store,
        callbacks={"step": note},
    )  # fmt: skip
    (cpu_first, bytes_first), (cpu_last, bytes_last) = ends[0], ends[-1]
    n_made = len(ends) - 1
    return (cpu_last - cpu_first) / n_made, (bytes_last - bytes_first) / n_made


def main() -> int:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="measured steps per run, at most")
    parser.add_argument("--runs", type=int, default=5, help="runs to take the median of")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    cpu, written = [], []
    for seed in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            seconds, size = measure(options.steps, seed, Path(folder))
        cpu.append(seconds)
        written.append(size)
    per_step = statistics.median(cpu)
    payload = ROLLOUTS_PER_STEP * TRANSCRIPT
    figures = {
        "cpu_us_per_rollout": round(per_step / ROLLOUTS_PER_STEP * 1e6, 1),
        "cpu_ms_per_step": round(per_step * 1e3, 2),
        "bytes_per_payload_byte": round(statistics.median(written) / payload, 2),
    }
    if options.json:
        print(json.dumps(figures))
    else:
        print(f"CPU per stored rollout   {figures['cpu_us_per_rollout']:>8} us")
        print(f"CPU per step of 80       {figures['cpu_ms_per_step']:>8} ms")
        print(f"bytes written / payload  {figures['bytes_per_payload_byte']:>8}      (target: 4 or less)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
