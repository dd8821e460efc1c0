"""Concurrency: 500 calls of 200 ms at once in one process, by `replay` and by the bare SDK.

    python benchmarks/concurrency.py [--runs N] [--short] [--json]

Ours are the val tasks of a `replay`, committed to a store. Each measurement is a process. Figures are medians of the
time from the first request to the last answer, measured by the server, and the difference in peak memory.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import openai

from benchmarks.doors import CONCURRENCY, add_tasks, command, numbers_skill, parser, rows, show
from benchmarks.openai_server import Act, Plan, serving

CALLS = 500
INSTRUCTIONS = "Answer with the number of the call."
OURS, BARE = "ours", "bare"


def ours(url: str) -> None:
    """Put our calls to a server, and keep their answers in a store."""
    with tempfile.TemporaryDirectory() as folder:
        store, skill = Path(folder) / "skillopt.db", numbers_skill(Path(folder))
        add_tasks(store, skill, [
            {"prompt": f"call {n}", "judge": {"kind": "exact", "expected": f"answer {n}"},
             "split": "val" if n < CALLS else "train" if n == CALLS else "test"}
            for n in range(CALLS + 2)
        ])  # fmt: skip
        # The cap ends the run after its first measurement of the live version.
        options = ["--optimizer", "simulated:honest", "--max-calls", str(CALLS), CONCURRENCY, str(CALLS), "--yes"]
        target = f"openai:m,api=chat,base_url={url}"
        done = subprocess.run(
            command(store, "replay", str(skill), "--target", target, *options), capture_output=True, check=False
        )
        assert rows(store, "select count(*) from reply where text like 'answer %'") == [(CALLS,)], done.stderr


async def bare(url: str) -> None:
    """Put the same calls by the vendor's SDK alone."""

    async def one(n: int) -> str | None:
        answer = await client.chat.completions.create(
            model="m",
            messages=[{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": f"call {n}"}],
        )
        return answer.choices[0].message.content

    async with openai.AsyncOpenAI(api_key="none", base_url=url) as client:
        texts = await asyncio.gather(*(one(n) for n in range(CALLS)))
    assert texts == [f"answer {n}" for n in range(CALLS)]


def child(what: str) -> tuple[float, float]:
    """Return wall seconds and peak MB of one measurement in a process of its own, the server in another."""
    with serving(Plan([[Act(latency_s=0.2)]] * CALLS)) as server:
        done = subprocess.run(
            [sys.executable, __file__, "--child", what, server.url], capture_output=True, text=True, check=False,
            env={**os.environ, "OPENAI_API_KEY": "none"},
        )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        return server.seen().busy_s, float(done.stdout)


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "one measurement of each")
    flags.add_argument("--runs", type=int, default=5, help="measurements to take the median of")
    flags.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = flags.parse_args()
    if options.child:
        what, url = options.child
        if what == OURS:
            ours(url)
        else:
            asyncio.run(bare(url))
        print(resource.getrusage(resource.RUSAGE_CHILDREN if what == OURS else resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    # Alternating, so that a busy moment of the machine affects both.
    pairs = [(child(OURS), child(BARE)) for _ in range(1 if options.short else options.runs)]
    ours_s = statistics.median(mine[0] for mine, _ in pairs)
    bare_s = statistics.median(theirs[0] for _, theirs in pairs)
    figures = {
        "ours_s": round(ours_s, 3),
        "bare_sdk_s": round(bare_s, 3),
        "ratio": round(ours_s / bare_s, 3),
        "rss_mb_above": round(statistics.median(mine[1] - theirs[1] for mine, theirs in pairs), 1),
    }
    show(figures, options.json, ratio="1.2 or less", rss_mb_above="below 120")


if __name__ == "__main__":
    main()
