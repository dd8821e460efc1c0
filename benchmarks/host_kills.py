"""Host kills: a host drives promotion tests with no backend; it or its server is killed (SIGKILL) at random moments.

    python benchmarks/host_kills.py [--kills N] [--seed N] [--short] [--json]

The killed process is started again. Counted are acknowledged replies that are not in the store (lost), calls
that were answered twice (doubled), the difference between the numbers of counted attempts with each version
(arm_imbalance), and wrong verdicts, which are printed with their reason.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from select import select

from benchmarks.doors import StdioHost, add_tasks, ours, parser, rows, show
from benchmarks.host_agent import Agent, items_of
from benchmarks.simulation import LESSONS, task_rows, write_skill

N_TASKS = 90
KILLS, SHORT = 200, 2
LONGEST_S = 1.6
PER_TEST = 12
LEASE_MINUTES = 0.01
GONE = 3
_ANSWERED = "select l.id from lease l join reply r on r.call_id = l.call_id where l.state = 'answered'"
_DOUBLED = "select count(*) from lease where state = 'answered' group by call_id having count(*) > 1"
# What a verdict counts: its pairs. A host may have answered for some beyond them, in any order.
_COUNTED = (
    "select sum(a.arm = 'base') - sum(a.arm = 'candidate') from test_attempt a join decision d on d.scope = a.test_id"
    " join promotion_test t on t.id = a.test_id"
    " where a.number * json_array_length(t.tasks) + a.unit < json_extract(d.inputs, '$.standing.pairs')"
)


@dataclass
class Found:
    """What the kills did, in numbers of calls; `arm_imbalance` is that of the attempts that were counted."""

    kills: int = 0
    tests: int = 0
    lost: int = 0
    doubled: int = 0
    arm_imbalance: int = 0
    wrong_verdicts: int = 0
    damaged: int = 0
    wrong: list[dict[str, object]] = field(default_factory=list)


def measure(n_kills: int, seed: int) -> Found:
    """Return the figures of `n_kills` kills, over as many promotion tests as they need."""
    found, chance = Found(), Random(seed)
    while found.kills < n_kills:
        with tempfile.TemporaryDirectory() as folder:
            _one_test(Path(folder), seed + found.tests, min(PER_TEST, n_kills - found.kills), chance, found)
    return found


def _one_test(place: Path, seed: int, n_kills: int, chance: Random, found: Found) -> None:
    store, skill, acknowledged = place / "store.db", write_skill(place, seed), place / "acknowledged"
    candidate = _prepared(store, skill, seed)
    found.tests += 1
    for n in range(n_kills + 1):
        is_last = n == n_kills
        after_s = None if is_last else chance.uniform(0.05, LONGEST_S)
        accepted, was_killed = _session(store, candidate, acknowledged, seed, after_s, chance.random() < 0.5)
        found.kills += was_killed
        if accepted is not None:
            if not accepted:
                found.wrong_verdicts += 1
                found.wrong.append({"seed": seed, "decisions": rows(store, "select verdict, inputs from decision")})
            break
    _count(store, acknowledged, found)


def _prepared(store: Path, skill: Path, seed: int) -> str:
    add_tasks(store, skill, task_rows(N_TASKS, seed))
    edits = [{"op": "append", "content": "\n".join(f"- {lesson}" for lesson in LESSONS)}]
    with StdioHost(ours(store), store.parent) as host:
        return str(host.call("propose_edits", {"skill": str(skill), "edits": edits})["candidate_id"])


def _session(
    store: Path, candidate: str, acknowledged: Path, seed: int, after_s: float | None, at_server: bool
) -> tuple[bool | None, bool]:
    """Return whether one session of the host had the candidate accepted, None without a verdict, and whether it was
    killed before.
    """
    command = [sys.executable, __file__, "--drive", str(store), candidate, str(acknowledged)]
    with subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout
        server = int(host.stdout.readline() or host.pid)
        ended = after_s is None or bool(select([host.stdout], [], [], after_s)[0])
        if not ended:
            os.kill(server if at_server else host.pid, signal.SIGKILL)
        rest = host.stdout.read().strip()
    if host.returncode not in (0, GONE, -signal.SIGKILL):
        raise SystemExit(f"the host failed with code {host.returncode}")
    return (json.loads(rest) if rest else None), not ended


def _count(store: Path, acknowledged: Path, found: Found) -> None:
    said = acknowledged.read_text().split() if acknowledged.exists() else []
    found.lost += len(set(said) - {row[0] for row in rows(store, _ANSWERED)})
    found.doubled += len(said) - len(set(said))
    found.doubled += sum(row[0] - 1 for row in rows(store, _DOUBLED))
    found.arm_imbalance += sum(abs(row[0] or 0) for row in rows(store, _COUNTED))
    found.damaged += rows(store, "pragma integrity_check") != [("ok",)]


def drive(store: Path, candidate: str, acknowledged: Path, seed: int) -> bool:
    """Bring a candidate to its verdict as a host does, and return whether it was accepted.

    Every accepted reply is on disk in `acknowledged` before the next one is made.
    """
    with StdioHost(ours(store, "--lease-minutes", str(LEASE_MINUTES)), store.parent) as host:
        print(host.pid, flush=True)
        return _tested(host, candidate, Agent(seed, Random(os.getpid())), acknowledged)


def _tested(host: StdioHost, candidate: str, agent: Agent, acknowledged: Path) -> bool:
    began = host.call("evaluate_candidate", {"candidate_id": candidate})
    work, evaluated = items_of(began.get("work")), began if began["status"] == "verdict" else None
    while not evaluated:
        for item in work:
            agent.do(item.folder)
        if not work:
            time.sleep(LEASE_MINUTES * 60)
        replies = [{"work_id": item.work_id} for item in work]
        standing = host.call("submit_work", {"replies": replies, "job_id": began.get("job_id", "")})
        work, evaluated = items_of(standing.get("work")), standing.get("evaluated")
        with acknowledged.open("a") as file:
            accepted = (each["work_id"] for each in standing.get("receipts") or [] if each["status"] == "accepted")
            file.writelines(f"{work_id}\n" for work_id in accepted)
            file.flush()
            os.fsync(file.fileno())
    return bool(evaluated["accepted"])


def main() -> None:
    flags = parser(__doc__, f"{SHORT} kills")
    flags.add_argument("--kills", type=int, default=KILLS)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--drive", nargs=4, help=argparse.SUPPRESS)
    options = flags.parse_args()
    if options.drive:
        store, candidate, acknowledged, seed = options.drive
        try:
            print(json.dumps(drive(Path(store), candidate, Path(acknowledged), int(seed))), flush=True)
        except EOFError:
            sys.exit(GONE)
        return
    found = measure(SHORT if options.short else options.kills, options.seed)
    show(asdict(found), options.json)
    sys.exit(bool(found.lost or found.doubled or found.arm_imbalance or found.wrong_verdicts or found.damaged))


if __name__ == "__main__":
    main()
