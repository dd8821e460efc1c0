"""Peers: what training costs here and in the published packages, with the same made-up model and steps of one shape.

    PEERS_PYTHON=.../bin/python python benchmarks/peers.py [--steps N] [--runs N] [--latency-ms N] [--busy-disk]
        [--short] [--json]

PEERS_PYTHON names the interpreter of an environment made with `pip install skillopt==0.2.0 skillrl==1.0.0`. A step is
80 rollouts of 4 KB (40 train, 40 val), six reflections, three merges and a ranking; every package trains with its own
trainer, and the two others on an environment of their own. Runs take turns, each in a process and a folder of its own;
figures are medians. CPU is the process's; bytes are what it handed to the disk (Linux: /proc/self/io, write_bytes) for
one byte of transcript, and bytes_growth compares the last quarter of the steps with the first: 1 is linear. Efficiency
is the time that the calls of a step need at least, 8 at once, over the time that it took, with a model that takes
--latency-ms to answer; `bare` is a bare asyncio loop that only waits as long, 8 at once, and `vs_bare` the efficiency
over that of the loop. With --busy-disk another process writes and syncs files all the while.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from benchmarks.zero_model import ROLLOUTS_PER_STEP, WORKERS, waves

ROOT = Path(__file__).resolve().parents[1]
SYSTEMS = ("ours", "skillrl", "skillopt")
PARALLEL_STEPS, SLOW_MS = 10, 100.0
COSTS = ("cpu_us_per_rollout", "cpu_ms_per_step", "bytes_per_payload_byte", "bytes_growth")
TARGETS = {"bytes_per_payload_byte": "<= 4", "vs_bare": ">= 0.97 with --latency-ms 400", "cpu_vs_skillrl": "<= 1.2"}


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


def bare_efficiency(n_steps: int, latency_ms: float) -> float:
    """Return the efficiency of a loop that does nothing but wait, at the calls of as many steps."""
    calls = Counter(rollout=ROLLOUTS_PER_STEP, reflect=6, merge=3, rank=1)

    async def step() -> None:
        slots = asyncio.Semaphore(WORKERS)

        async def wait() -> None:
            async with slots:
                await asyncio.sleep(latency_ms / 1000)

        for n in (calls["rollout"] // 2, calls["rollout"] // 2, calls["reflect"], calls["merge"] - 1, 1, calls["rank"]):
            await asyncio.gather(*(wait() for _ in range(n)))

    started = time.perf_counter()
    for _ in range(n_steps):
        asyncio.run(step())
    return n_steps * waves(calls) * latency_ms / 1000 / (time.perf_counter() - started)


@contextmanager
def busy_disk(folder: Path) -> Iterator[None]:
    """Let another process write and sync files."""
    program = "import os\nwhile True:\n with open('busy', 'wb') as f: f.write(bytes(1 << 20)); os.fsync(f.fileno())"
    process = subprocess.Popen([sys.executable, "-c", program], cwd=folder)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def compare(n_steps: int, n_runs: int, latency_ms: float, peers_python: str) -> dict[str, dict[str, float]]:
    """Return the medians of the figures of every system, whose runs take turns."""
    costs: dict[str, list[dict[str, float]]] = {system: [] for system in SYSTEMS}
    parallel: dict[str, list[float]] = {system: [] for system in (*SYSTEMS, "bare")}
    n_parallel = min(n_steps, PARALLEL_STEPS if latency_ms < SLOW_MS else PARALLEL_STEPS // 4)
    for _ in range(n_runs):
        for system in SYSTEMS:
            costs[system].append(measure(system, n_steps, 0.0, peers_python))
            parallel[system].append(measure(system, n_parallel, latency_ms, peers_python)["efficiency"])
        parallel["bare"].append(bare_efficiency(n_parallel, latency_ms))
    bare = statistics.median(parallel["bare"])
    theirs = statistics.median(run["cpu_us_per_rollout"] for run in costs["skillrl"])
    found: dict[str, dict[str, float]] = {}
    for system, runs in costs.items():
        found[system] = {name: round(statistics.median(run[name] for run in runs), 2) for name in COSTS}
        found[system]["efficiency"] = round(statistics.median(parallel[system]), 3)
        found[system]["latency_ms"] = latency_ms
        found[system]["vs_bare"] = round(statistics.median(parallel[system]) / bare, 3)
        found[system]["cpu_vs_skillrl"] = round(found[system]["cpu_us_per_rollout"] / theirs, 2)
    return {**found, "bare": {"efficiency": round(bare, 3), "latency_ms": latency_ms}}


def main() -> int:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40, help="measured steps per run (500 shows how bytes grow)")
    parser.add_argument("--runs", type=int, default=5, help="runs to take the median of")
    parser.add_argument("--latency-ms", type=float, default=20.0, help="of the model, where efficiency is measured")
    parser.add_argument("--busy-disk", action="store_true", help="another process writes and syncs files")
    parser.add_argument("--short", action="store_true", help="one run of two steps each")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    peers_python = os.environ.get("PEERS_PYTHON")
    if not peers_python:
        parser.error("PEERS_PYTHON is not set: see --help")
    n_steps, n_runs = (2, 1) if options.short else (options.steps, options.runs)
    with tempfile.TemporaryDirectory() as folder, busy_disk(Path(folder)) if options.busy_disk else nullcontext():
        found = compare(n_steps, n_runs, options.latency_ms, peers_python)
    if options.json:
        print(json.dumps(found))
        return 0
    print(f"{'':<24}{''.join(f'{system:>10}' for system in SYSTEMS)}")
    for name in (*COSTS, "efficiency", "vs_bare", "cpu_vs_skillrl"):
        values = "".join(f"{found[system][name]:>10}" for system in SYSTEMS)
        print(f"{name:<24}{values}   {TARGETS.get(name, '')}")
    print(f"efficiency of a bare loop at {options.latency_ms:g} ms: {found['bare']['efficiency']}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
