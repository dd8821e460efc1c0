"""Concurrency: 500 calls of 200 ms at once in one process, through everything that keeps them, and by the bare SDK.

    python benchmarks/concurrency.py [--runs N] [--short] [--json]

Each measurement is a process of its own: the medians of wall time, and how much higher our peak of memory is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import openai

from benchmarks.openai_server import Act, Plan, serving
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.calls.asking import Asker
from skillopt_mcp.records.calls import Call, Question
from skillopt_mcp.store.opening import Store

CALLS = 500
INSTRUCTIONS = "Answer with the number of the call."
OURS, BARE = "ours", "bare"


def ours(url: str) -> float:
    """Return the wall seconds of our calls, committed to a store."""
    calls = [Call("target", "reflect", Question(INSTRUCTIONS, f"call {n}", "none"), "b/1") for n in range(CALLS)]
    backend = open_backend(f"openai:m,api=chat,base_url={url}")
    with (
        tempfile.TemporaryDirectory() as folder,
        Store(Path(folder) / "kept" / "skillopt.db") as store,
        Asker(store, {"target": backend}, "b", n_slots=CALLS) as ask,
    ):
        started = time.perf_counter()
        replies = ask(calls)
        wall = time.perf_counter() - started
    assert [reply.text for reply in replies] == [f"answer {n}" for n in range(CALLS)]
    return wall


async def bare(url: str) -> float:
    """Return the wall seconds of the same calls by the vendor's SDK alone."""

    async def one(n: int) -> str | None:
        answer = await client.chat.completions.create(
            model="m",
            messages=[{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": f"call {n}"}],
        )
        return answer.choices[0].message.content

    async with openai.AsyncOpenAI(api_key="none", base_url=url) as client:
        started = time.perf_counter()
        texts = await asyncio.gather(*(one(n) for n in range(CALLS)))
        wall = time.perf_counter() - started
    assert texts == [f"answer {n}" for n in range(CALLS)]
    return wall


def child(what: str) -> tuple[float, float]:
    """Return wall seconds and peak MB of one measurement in a process of its own, the server in another."""
    with serving(Plan([[Act(latency_s=0.2)]] * CALLS)) as server:
        command = [sys.executable, "-m", "benchmarks.concurrency", "--child", what, server.url]
        folder = Path(__file__).parent.parent
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "SKILLOPT"))}
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environ)
    wall, peak = json.loads(done.stdout)
    return wall, peak


def main() -> int:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="measurements to take the median of")
    parser.add_argument("--short", action="store_true", help="one measurement of each")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, url = options.child
        wall = ours(url) if what == OURS else asyncio.run(bare(url))
        print(json.dumps([wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
        return 0
    # In turn, so that a busy moment of the machine meets both.
    pairs = [(child(OURS), child(BARE)) for _ in range(1 if options.short else options.runs)]
    ours_s = statistics.median(mine[0] for mine, _ in pairs)
    bare_s = statistics.median(theirs[0] for _, theirs in pairs)
    figures = {
        "ours_s": round(ours_s, 3),
        "bare_sdk_s": round(bare_s, 3),
        "ratio": round(ours_s / bare_s, 3),
        "rss_mb_above": round(statistics.median(mine[1] - theirs[1] for mine, theirs in pairs), 1),
    }
    if options.json:
        print(json.dumps(figures))
    else:
        print(f"500 calls of 200 ms, ours      {figures['ours_s']:>8} s")
        print(f"500 calls of 200 ms, bare SDK  {figures['bare_sdk_s']:>8} s")
        print(f"ours / bare SDK                {figures['ratio']:>8}     (target: 1.2 or less)")
        print(f"peak memory above the SDK's    {figures['rss_mb_above']:>8} MB  (target: below 120)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
