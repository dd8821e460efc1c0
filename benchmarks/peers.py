"""Peers: what training costs here and in the published packages, with the same made-up model and steps of one shape.

    PEERS_PYTHON=.../bin/python python benchmarks/peers.py [--steps N] [--runs N] [--short] [--json]

PEERS_PYTHON names the interpreter of an environment made with `pip install skillopt==0.2.0 skillrl==1.0.0`. A step is
80 rollouts of 4 KB (40 train, 40 val), six reflections, three merges and a ranking; every package trains with its own
trainer, and the two others on an environment of their own. Runs take turns, each in a process and a folder of its own;
figures are medians. CPU is the process's; bytes are what it handed to the disk (Linux: /proc/self/io, write_bytes) for
one byte of transcript, and bytes_growth compares the last quarter of the steps with the first: 1 is linear. Efficiency
is the time that the calls of a step need at least, 8 at once, over the time that it took, with a model that answers in
20 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SYSTEMS = ("ours", "skillrl", "skillopt")
LATENCY_MS = 20.0
PARALLEL_STEPS = 10
COSTS = ("cpu_us_per_rollout", "cpu_ms_per_step", "bytes_per_payload_byte", "bytes_growth")
TARGETS = {"cpu_us_per_rollout": "<= 100", "bytes_per_payload_byte": "<= 4", "efficiency": ">= 0.95"}


def measure(system: str, n_steps: int, latency_ms: float, peers_python: str) -> dict[str, float]:
    """Return the figures of one run of a system, in a process of its own."""
    where = Path(__file__).parent
    command = [sys.executable, str(where / "our_trainer.py")]
    if system != "ours":
        command = [peers_python, str(where / "peer_trainers.py"), system]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*command, str(n_steps), str(latency_ms), folder],
            env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{system} ended with {done.returncode}:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def compare(n_steps: int, n_runs: int, peers_python: str) -> dict[str, dict[str, float]]:
    """Return the medians of the figures of every system, whose runs take turns."""
    costs: dict[str, list[dict[str, float]]] = {system: [] for system in SYSTEMS}
    parallel: dict[str, list[float]] = {system: [] for system in SYSTEMS}
    for _ in range(n_runs):
        for system in SYSTEMS:
            costs[system].append(measure(system, n_steps, 0.0, peers_python))
            parallel[system].append(
                measure(system, min(n_steps, PARALLEL_STEPS), LATENCY_MS, peers_python)["efficiency"]
            )
    return {
        system: {
            **{name: round(statistics.median(run[name] for run in costs[system]), 2) for name in COSTS},
            "efficiency": round(statistics.median(parallel[system]), 3),
        }
        for system in SYSTEMS
    }


def main() -> int:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40, help="measured steps per run (500 shows how bytes grow)")
    parser.add_argument("--runs", type=int, default=5, help="runs to take the median of")
    parser.add_argument("--short", action="store_true", help="one run of five steps each")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    peers_python = os.environ.get("PEERS_PYTHON")
    if not peers_python:
        parser.error("PEERS_PYTHON is not set: see --help")
    n_steps, n_runs = (5, 1) if options.short else (options.steps, options.runs)
    found = compare(n_steps, n_runs, peers_python)
    if options.json:
        print(json.dumps(found))
        return 0
    print(f"{'':<24}{''.join(f'{system:>10}' for system in SYSTEMS)}")
    for name in (*COSTS, "efficiency"):
        values = "".join(f"{found[system][name]:>10}" for system in SYSTEMS)
        print(f"{name:<24}{values}   {TARGETS.get(name, '')}")
    for system in SYSTEMS[1:]:
        ratio = found[system]["cpu_us_per_rollout"] / found["ours"]["cpu_us_per_rollout"]
        print(f"CPU per rollout, {system} / ours: {ratio:.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
