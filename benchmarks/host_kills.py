"""Host kills: a host drives promotion tests with no backend; it or its server is killed (SIGKILL) at random moments.

    python benchmarks/host_kills.py [--kills N] [--seed N] [--short] [--json]

Whoever was killed is started again and goes on. Counted are replies that were acknowledged and are not in the store
(lost), calls and pairs that were answered or counted more than once (doubled), how far the numbers of answered attempts
with either version are apart (arm_imbalance, over all counted pairs), and verdicts that are wrong; of each of these it
is told what it was, why, and how many attempts were begun anew.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from os import kill
from pathlib import Path
from random import Random
from select import select

from benchmarks.host_driver import GONE
from skillopt_mcp.backends.catalogue import TOPICS
from skillopt_mcp.backends.world import make_skill, make_tasks
from skillopt_mcp.operations.candidates.proposing import propose_edits
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.reservations import begun_anew
from skillopt_mcp.splits import EQUAL_SHARES
from skillopt_mcp.store import driver
from skillopt_mcp.store.driver import Connection

N_TASKS = 90
KILLS, SHORT = 200, 8
LONGEST_S = 1.6
PER_TEST = 12


@dataclass(frozen=True)
class Wrong:
    """A verdict that was not to be, with its reason and how many attempts with either version were begun anew."""

    seed: int
    verdict: str
    reason: str
    base_anew: int
    candidate_anew: int

    def __str__(self) -> str:
        return (
            f"wrong: seed {self.seed}: {self.verdict}: {self.reason}; {self.candidate_anew} attempts of the candidate "
            f"and {self.base_anew} of the live version were begun anew"
        )


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
    wrong: list[Wrong] = field(default_factory=list)


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
            if verdict != "accept":
                found.wrong_verdicts += 1
                found.wrong.append(wrong_verdict(store, candidate, seed, verdict))
            break
    _count(store, acknowledged, found)


def wrong_verdict(store: Path, candidate: str, seed: int, verdict: str) -> Wrong:
    """Return what the store tells of the promotion test of a candidate that ended with a verdict."""
    with Workspace(store) as workspace:
        made = workspace.store.candidates.get_candidate(candidate)
        decisions = workspace.store.decisions
        [test] = decisions.list_confirmations(made.skill_id, made.base_version, made.version_id)
        decision, anew = decisions.latest_in(test.id), begun_anew(workspace.store, test)
    return Wrong(seed, verdict, decision.reason if decision else "no decision is stored", anew.base, anew.candidate)


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
    for wrong in found.wrong:
        print(wrong, file=sys.stderr)
    told = asdict(found)
    if options.json:
        print(json.dumps(told))
    else:
        print("  ".join(f"{name} {value}" for name, value in told.items() if name != "wrong"))
    sys.exit(bool(found.lost or found.doubled or found.arm_imbalance or found.wrong_verdicts or found.damaged))


if __name__ == "__main__":
    main()
