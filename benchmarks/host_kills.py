"""Host kills: a host drives promotion tests with no backend; it or its server is killed (SIGKILL) at random moments.

    python benchmarks/host_kills.py [--kills N] [--seed N] [--short] [--json]

Whoever was killed is started again and goes on. Counted are replies that were acknowledged and are not in the store
(lost), calls and pairs that were answered or counted more than once (doubled), how far the numbers of answered attempts
with either version are apart (arm_imbalance, over all counted pairs), and verdicts that are wrong.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from os import kill
from pathlib import Path
from random import Random
from select import select

from benchmarks.host_driver import GONE
from skillopt_mcp.backends.catalogue import TOPICS
from skillopt_mcp.backends.world import make_skill, make_tasks
from skillopt_mcp.operations.candidates.proposing import propose_edits
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.splits import EQUAL_SHARES
from skillopt_mcp.store import driver
from skillopt_mcp.store.driver import Connection

N_TASKS = 90
KILLS, SHORT = 200, 8
LONGEST_S = 1.6
PER_TEST = 12


@dataclass
class Found:
    """What the kills did, in numbers of calls; `imbalance` is that of the pairs that were counted."""

    kills: int = 0
    tests: int = 0
    lost: int = 0
    doubled: int = 0
    arm_imbalance: int = 0
    wrong_verdicts: int = 0
    damaged: int = 0


def measure(n_kills: int, seed: int) -> Found:
    """Return what `n_kills` kills came to, over as many promotion tests as they take."""
    found, chance = Found(), Random(seed)
    while found.kills < n_kills:
        with tempfile.TemporaryDirectory() as folder:
            _one_test(Path(folder), seed + found.tests, min(PER_TEST, n_kills - found.kills), chance, found)
    return found


def _one_test(place: Path, seed: int, n_kills: int, chance: Random, found: Found) -> None:
    store, skill, acknowledged = place / "store.db", place / "skills" / "ledger-clerk", place / "acknowledged"
    candidate = _prepared(store, skill, seed)
    found.tests += 1
    for n in range(n_kills + 1):
        is_last = n == n_kills
        after_s = None if is_last else chance.uniform(0.05, LONGEST_S)
        verdict, was_killed = _session(store, skill, candidate, acknowledged, seed, after_s, chance.random() < 0.5)
        found.kills += was_killed
        if verdict:
            found.wrong_verdicts += verdict != "accept"
            break
    _count(store, acknowledged, found)


def _prepared(store: Path, skill: Path, seed: int) -> str:
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_bytes(make_skill(seed).main)
    lessons = "\n".join(f"- {topic.lesson}" for topic in TOPICS)
    with Workspace(store) as workspace:
        tracked = workspace.skill(str(skill))
        workspace.store.tasks.add_tasks(tracked.id, make_tasks(N_TASKS, seed), EQUAL_SHARES)
        proposed = propose_edits(workspace, str(skill), [{"op": "append", "content": lessons}])
    assert proposed.candidate_id
    return proposed.candidate_id


def _session(
    store: Path, skill: Path, candidate: str, acknowledged: Path, seed: int, after_s: float | None, at_server: bool
) -> tuple[str, bool]:
    """Return the verdict of one session of the host, if it came to one, and whether it was killed before."""
    command = [sys.executable, "-m", "benchmarks.host_driver", str(store), str(skill), candidate, str(acknowledged)]
    with subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout
        server = int(host.stdout.readline() or host.pid)
        ended = after_s is None or bool(select([host.stdout], [], [], after_s)[0])
        if not ended:
            kill(server if at_server else host.pid, signal.SIGKILL)
        rest = host.stdout.read().strip()
    if host.returncode not in (0, GONE, -signal.SIGKILL):
        raise SystemExit(f"the host failed with code {host.returncode}")
    return (json.loads(rest) if rest else ""), not ended


def _count(store: Path, acknowledged: Path, found: Found) -> None:
    connection = driver.connect(store)
    try:
        said = acknowledged.read_text().split() if acknowledged.exists() else []
        kept = {row[0] for row in connection.execute(_ANSWERED)}
        found.lost += len(set(said) - kept)
        found.doubled += len(said) - len(set(said))
        found.doubled += sum(row[0] - 1 for row in connection.execute(_DOUBLED))
        found.arm_imbalance += abs(_difference(connection))
        found.damaged += connection.execute("pragma integrity_check").fetchone()[0] != "ok"
    finally:
        connection.close()


def _difference(connection: Connection) -> int:
    """Return by how many the trials of one version outnumber those of the other."""
    counts = [row[0] for row in connection.execute("select count(*) from trial group by version_id")]
    return counts[0] - counts[1] if len(counts) == 2 else sum(counts)


_ANSWERED = "select l.id from lease l join reply r on r.call_id = l.call_id where l.state = 'answered'"
_DOUBLED = "select count(*) from lease where state = 'answered' group by call_id having count(*) > 1"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help=f"{SHORT} kills")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(SHORT if options.short else options.kills, options.seed)
    if options.json:
        print(json.dumps(asdict(found)))
    else:
        print("  ".join(f"{name} {value}" for name, value in asdict(found).items()))
    sys.exit(bool(found.lost or found.doubled or found.arm_imbalance or found.wrong_verdicts or found.damaged))


if __name__ == "__main__":
    main()
