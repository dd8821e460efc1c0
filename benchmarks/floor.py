"""Floor: the CPU that stored rollouts cost at the least, of straight-line code that keeps what the store promises.

    python benchmarks/floor.py [--steps N] [--json]

It writes the rows of a step (calls, replies, trials) with their sums and redaction, and nothing else: no event loop, no
judge, no reflection, no edit, no gate, no budget. A claim is committed before its call is made and a reply before
anything is built on it, in as few transactions as that allows: one a wave, with the claims of the next. It runs with
waves of 40 (as many calls as `rollouts.py` has under way) and of 8 (the workers of `peers.py`), each with full
durability and with none, in turns with `rollouts.py` in the same process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import rollouts
from benchmarks.zero_model import BATCH, ROLLOUTS_PER_STEP, WORKERS, transcript
from skillopt_mcp.records.calls import Message, messages_json
from skillopt_mcp.redaction.redacting import Redactor
from skillopt_mcp.store.driver import Connection, connect
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.sums import row_sum

_CLAIM = (
    "insert into call(id, key, scope, role, stage, draw, refs, owner, n_claims, sum)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_REPLY = (
    "insert into reply(call_id, text, messages, tokens_in, tokens_out, usd, latency_ms, fault, tokens_cached, served,"
    " sum) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_TRIAL = (
    "insert into trial(scope, version_id, task_id, draw, call_id, hard, soft, reason, sum)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_REDACTOR = Redactor(b"salt")
_PROMPT = "What is item 3 of the ledger?"
Row = tuple[object, ...]


def floor_us(wave: int, n_steps: int, *, is_durable: bool = True) -> float:
    """Return the CPU microseconds of a rollout in waves of so many, the median over steps of 80."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store" / "skillopt.db"
        Store(path).close()
        connection = connect(path)
        # The rows stand for runs, versions and tasks that are not there.
        connection.execute("pragma foreign_keys = off")
        if not is_durable:
            connection.execute("pragma synchronous = off")
        spent = []
        for step in range(n_steps + 1):
            started = time.process_time()
            for first in range(step * ROLLOUTS_PER_STEP, (step + 1) * ROLLOUTS_PER_STEP, BATCH):
                _store(connection, list(_waves(range(first + 1, first + BATCH + 1), wave)))
            spent.append(time.process_time() - started)
        connection.close()
    return statistics.median(spent[1:]) / ROLLOUTS_PER_STEP * 1e6


def _waves(ids: range, size: int) -> Iterator[range]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def _store(connection: Connection, waves: list[range]) -> None:
    """Claim, answer and keep a split's rollouts, then its trials."""
    replies: list[Row] = []
    for wave in waves:
        connection.execute("begin immediate")
        connection.executemany(_REPLY, replies)
        connection.executemany(_CLAIM, [_claimed(n) for n in wave])
        connection.execute("commit")
        replies = [_answered(n) for n in wave]
    connection.execute("begin immediate")
    connection.executemany(_REPLY, replies)
    connection.executemany(
        _TRIAL, [_summed(("r-1", "v" * 64, n, "r-1/e", n, 1, 1.0, "")) for wave in waves for n in wave]
    )
    connection.execute("commit")


def _claimed(n: int) -> Row:
    key = hashlib.sha256(b"%d" % n).digest()
    return (n, *_summed((key, "r-1", "target", "rollout", f"r-1/e{n}", "", "owner", 1)))


def _answered(n: int) -> Row:
    said = _REDACTOR.texts([f"value {n}", _PROMPT, transcript(_PROMPT, f"value {n}")])
    messages = messages_json((Message("user", said[1]), Message("assistant", said[2])))
    values = (n, said[0], messages, 1, 1, 0.0, 0.1, None, 0)
    return (*values, None, row_sum(*values))


def _summed(values: Row) -> Row:
    return (*values, row_sum(*values))  # type: ignore[arg-type]


def ours_us(n_steps: int, seed: int) -> float:
    """Return the CPU microseconds of a rollout in `replay`, with all that surrounds it."""
    with tempfile.TemporaryDirectory() as folder:
        return rollouts.measure(n_steps, seed, Path(folder))[0] / ROLLOUTS_PER_STEP * 1e6


def main() -> int:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="measured steps per run")
    parser.add_argument("--runs", type=int, default=5, help="runs of each to take the median of")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    rounds = [
        (
            ours_us(options.steps, seed),
            floor_us(BATCH, options.steps),
            floor_us(WORKERS, options.steps),
            floor_us(BATCH, options.steps, is_durable=False),
            floor_us(WORKERS, options.steps, is_durable=False),
        )
        for seed in range(options.runs)
    ]
    names = ("ours_us", "floor_us_40", "floor_us_8", "floor_us_40_not_durable", "floor_us_8_not_durable")
    figures = {
        name: round(statistics.median(each), 1) for name, each in zip(names, zip(*rounds, strict=True), strict=True)
    }
    figures["ratio"] = round(statistics.median(each[0] / each[1] for each in rounds), 2)
    if options.json:
        print(json.dumps(figures))
        return 0
    lines = {
        "CPU per stored rollout in replay (target: 100)": "ours_us",
        "the floor, 40 at once": "floor_us_40",
        "the floor, 8 at once": "floor_us_8",
        "40 at once, nothing durable": "floor_us_40_not_durable",
        "8 at once, nothing durable": "floor_us_8_not_durable",
    }
    for line, name in lines.items():
        print(f"{line:<48}{figures[name]:>8} us")
    print(f"{'ours beside the floor with 40 at once':<48}{figures['ratio']:>8}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
