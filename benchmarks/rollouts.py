"""Rollouts: the CPU and bytes of a stored rollout in `replay`, with a model that answers at once.

    python benchmarks/rollouts.py [--steps N] [--short] [--json]

A step is 80 rollouts of 4 KB (40 train, 40 val) with calls, judging, reflection, merging, edits, the gate and commits.
Figures are medians over runs, each with its own store; bytes are those written to disk (Linux: /proc/self/io) for one
byte of transcript.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import skillopt_mcp
from benchmarks.doors import add_tasks, parser, show, written_bytes
from benchmarks.simulation import task_rows, write_skill

BATCH = 40
TRANSCRIPT = 4096
ROLLOUTS_PER_STEP = 2 * BATCH
SPLITS = (*["train"] * BATCH, *["val"] * BATCH, "test")
CONFIG = {"batch": BATCH, "step_buffer": False, "slow_update": False, "meta_skill": False}


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


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "one run of 5 steps")
    flags.add_argument("--steps", type=int, default=20, help="measured steps per run, at most")
    flags.add_argument("--runs", type=int, default=5, help="runs to take the median of")
    options = flags.parse_args()
    n_runs, n_steps = (1, 5) if options.short else (options.runs, options.steps)
    cpu, written = [], []
    for seed in range(n_runs):
        with tempfile.TemporaryDirectory() as folder:
            seconds, size = measure(n_steps, seed, Path(folder))
        cpu.append(seconds)
        written.append(size)
    per_step = statistics.median(cpu)
    figures = {
        "cpu_us_per_rollout": round(per_step / ROLLOUTS_PER_STEP * 1e6, 1),
        "cpu_ms_per_step": round(per_step * 1e3, 2),
        "bytes_per_payload_byte": round(statistics.median(written) / (ROLLOUTS_PER_STEP * TRANSCRIPT), 2),
    }
    show(figures, options.json, bytes_per_payload_byte="4 or less")


if __name__ == "__main__":
    main()
