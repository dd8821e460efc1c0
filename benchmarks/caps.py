"""Caps: random hard caps on calls, tokens and money, 64 workers, and whether one call was ever sent past a cap.

    python benchmarks/caps.py [--runs N] [--short] [--json]

A run has 64 slots in one process, or shared out to four threads, or (one run in ten) to four processes that advance
one budget in one store. A tenth of the attempts fail, some of them paid. What was sent is counted by the model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.calls.asking import Asker
from skillopt_mcp.calls.spending import Budget
from skillopt_mcp.errors import CapReached
from skillopt_mcp.records.budgets import Caps
from skillopt_mcp.records.calls import Call, Question, Reply, Usage
from skillopt_mcp.store.opening import Store

WORKERS = 64
CALLS = 400
MOST = Usage(900, 300, 0.01)


class Work(NamedTuple):
    """One worker group of a run: where, under which caps, how many slots, and which calls of the run are its own."""

    folder: Path
    caps: Caps
    n_slots: int
    part: int
    n_parts: int


class Metered:
    """A model that notes what each call uses in a file as it is sent, whatever becomes of it."""

    name = fingerprint = "metered"
    deferred = False

    def __init__(self, path: Path, seed: int) -> None:
        self._path, self._chance = path, random.Random(seed)

    def worst_case(self, call: Call) -> Usage:
        """Return the most that a call can use."""
        return MOST

    async def complete(self, call: Call) -> Reply:
        """Return an answer after a moment, or fail."""
        chance = self._chance
        used = Usage(chance.randint(1, 900), chance.randint(1, 300), chance.uniform(0, 0.01))
        fault = chance.choice(["rate_limit", "server", "truncated"]) if chance.random() < 0.1 else None
        paid = used if fault in (None, "truncated") else Usage(usd=0.0)
        line = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(line, f"{paid.tokens_in + paid.tokens_out} {paid.usd!r}\n".encode())
        os.close(line)
        await asyncio.sleep(chance.uniform(0, 0.002))
        if fault == "truncated":
            raise BackendFault("truncated", "cut off", usage=used)
        if fault:
            raise BackendFault("server", "failed", usage=paid)
        return Reply("an answer", usage=used)


def advance(work: Work) -> None:
    """Ask a group's share of the calls until they are answered, or the cap is reached."""
    calls = [
        Call("target", "reflect", Question("any", str(n), "patch"), "run/1")
        for n in range(work.part, CALLS, work.n_parts)
    ]
    backend = Metered(work.folder / "sent", work.part)
    with (
        Store(work.folder / "store" / "skillopt.db") as store,
        Asker(store, {"target": backend}, "run", n_slots=work.n_slots, budget=Budget("run", work.caps)) as ask,
    ):
        try:
            ask(calls)
        except CapReached:
            return


def random_caps(chance: random.Random) -> Caps:
    """Return caps on one, two or three of calls, tokens and money, tight enough to be reached."""
    kinds = chance.sample(["calls", "tokens", "usd"], chance.randint(1, 3))
    share = chance.uniform(0.0, 0.9)
    return Caps(
        calls=1 + round(share * CALLS) if "calls" in kinds else None,
        tokens=1200 + round(share * CALLS * 600) if "tokens" in kinds else None,
        usd=0.01 + share * CALLS * 0.005 if "usd" in kinds else None,
    )


def past_cap(caps: Caps, sent: Sequence[str]) -> int:
    """Return how many of the calls, in the order they were sent, went out above a cap."""
    n_past, tokens, usd = 0, 0, 0.0
    for n, line in enumerate(sent, 1):
        used, _, price = line.partition(" ")
        tokens, usd = tokens + int(used), usd + float(price)
        over = (caps.calls is not None and n > caps.calls) or (caps.tokens is not None and tokens > caps.tokens)
        n_past += over or (caps.usd is not None and usd > caps.usd + 1e-9)
    return n_past


def measure(n: int) -> tuple[int, int]:
    """Return how many calls the n-th run sent, and how many of them past its cap."""
    chance = random.Random(n)
    caps = random_caps(chance)
    n_parts = 4 if n % 10 == 0 else chance.choice([1, 4])
    with tempfile.TemporaryDirectory() as folder:
        parts = [Work(Path(folder), caps, WORKERS // n_parts, part, n_parts) for part in range(n_parts)]
        start = multiprocessing.get_context("spawn").Process if n % 10 == 0 else threading.Thread
        children = [start(target=advance, args=[part]) for part in parts]
        for child in children:
            child.start()
        for child in children:
            child.join()
        sent = (Path(folder) / "sent").read_text().splitlines()
    return len(sent), past_cap(caps, sent)


def main() -> int:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="random caps to try (default 100)")
    parser.add_argument("--short", action="store_true", help="ten of them")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    counts = [measure(n) for n in range(10 if options.short else options.runs)]
    figures = {
        "runs": len(counts),
        "calls_past_cap": sum(n_past for _, n_past in counts),
        "calls_sent": sum(n_sent for n_sent, _ in counts),
    }
    if options.json:
        print(json.dumps(figures))
    else:
        print(f"random caps, 64 workers  {figures['runs']:>8}")
        print(f"calls sent               {figures['calls_sent']:>8}")
        print(f"calls sent past a cap    {figures['calls_past_cap']:>8}      (target: 0)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
