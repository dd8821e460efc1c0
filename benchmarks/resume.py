"""Resume: `replay` is killed at random moments and resumed; is the outcome that of an undisturbed run?

    python benchmarks/resume.py [--kills N] [--seed N] [--short] [--json]

Each run has a store of its own, is killed once (SIGKILL) and then resumed to its end. Counted are the rows that differ
from the undisturbed run's (versions, steps, trials, edits, decisions, attempts of tests, calls and replies, without
times, sequence numbers, how often something was asked, what a test asked beyond its verdict, and how much was asked of
a candidate that was rejected, which depend on what landed first), the calls that were sent again although their reply
was committed, and the most calls that one kill repeated: at most those in flight.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.doors import CONCURRENCY, add_tasks, command, parser, show
from benchmarks.doors import rows as queried
from benchmarks.simulation import task_rows, write_skill
from skillopt_mcp.core.calls import make_prefix

SLOTS = 4  # as many as a promotion test repeats: what was in flight at a kill counts as asked again
SHORT = 1
LATENCY_MS = 10
N_TASKS = 45
POLL_S = 0.005
MOST_AFTER_S = 0.05
SHOWN, ROW_CHARACTERS = 6, 400
SETTINGS = ("--epochs", "3", "--batch", "8", CONCURRENCY, str(SLOTS), "--yes", "--json")
# What two runs of the same thing need not share, and the tables that only say how often something was tried.
_VOLATILE = frozenset({"created_at", "answered_at", "owner", "n_claims", "n_again", "latency_ms", "call_id"})
_ASKED_AGAIN = re.compile(
    r'"((lost|runs)":{[^}]*}|attempts":"[0-9a-f]{64}"|(n_)?(test_)?(calls|tokens|usd)":[^,}]*|tokens_(in|out)":[^,}]*)'
)
_ROLLOUT = re.compile(r"trial:(\d+)")
_ASIDE = ("attempt", "budget", "event", "mark", "spent", "sqlite_", "_", "reply", "call")
# What was under way at the verdict of a test: how much that is depends on which answers came first.
_BEYOND = (
    "select a.call_id from test_attempt a join promotion_test t on t.id = a.test_id join decision d on d.scope = t.id"
    " where a.number * json_array_length(t.tasks) + a.unit >= json_extract(d.inputs, '$.standing.pairs')"
)
_REPLIES = (
    "select c.key, c.scope, c.role, c.stage, c.draw, c.refs, r.text, r.messages, r.tokens_in, r.tokens_out, r.fault"
    f" from call c left join reply r on r.call_id = c.id where c.id not in ({_BEYOND})"
)
_REJECTED = "select scope, version_id from decision where verdict = 'reject'"
_SENDS = "select c.key, c.n_claims, exists (select 1 from reply r where r.call_id = c.id) from call c"


@dataclass(frozen=True, slots=True)
class Kill:
    """What one kill did: the rows that differ in the end, and the calls that were sent again, by what was there."""

    n_replies: int
    differing: tuple[str, ...]
    committed_twice: int
    in_flight_repeats: int


class Site:
    """A skill with tasks, and the store that every run starts from."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.skill = write_skill(folder, seed)
        self.spec = f"simulated:honest,seed={seed},latency_ms={LATENCY_MS}"
        self.seeded = folder / "seeded" / "skillopt.db"
        add_tasks(self.seeded, self.skill, task_rows(N_TASKS, seed))

    @contextmanager
    def copy(self, name: str) -> Iterator[Path]:
        """Yield a temporary copy of the store."""
        place = self.folder / name
        shutil.copytree(self.seeded.parent, place)
        try:
            yield place / self.seeded.name
        finally:
            shutil.rmtree(place)

    def start(self, store_path: Path, *, resume: bool = False) -> subprocess.Popen[str]:
        """Return a `replay` that has just been started."""
        backends = ("--target", self.spec, "--optimizer", self.spec)
        settings = ("--resume", CONCURRENCY, str(SLOTS), "--yes", "--json") if resume else SETTINGS
        return subprocess.Popen(
            command(store_path, "replay", str(self.skill), *backends, *settings),
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def finish(self, store_path: Path) -> None:
        """Resume `replay` to its end. Raises SystemExit when it fails."""
        process = self.start(store_path, resume=True)
        _, error = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"replay ended with {process.returncode}:\n{error}")


def undisturbed(site: Site) -> tuple[Counter[str], int]:
    """Return the rows of an undisturbed run, and how many replies it has."""
    with site.copy("undisturbed") as store_path:
        process = site.start(store_path)
        _, error = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"replay ended with {process.returncode}:\n{error}")
        return rows(store_path), _n_replies(store_path)


def kill_and_resume(site: Site, expected: Counter[str], n_replies: int, after_s: float) -> Kill | None:
    """Return the outcome of a kill a moment after so many replies were stored, or None if the run had ended by then."""
    with site.copy("killed") as store_path:
        process = site.start(store_path)
        _await_replies(store_path, process, n_replies)
        time.sleep(after_s)
        ended = process.poll() is not None
        process.kill()
        process.communicate()
        if ended:
            return None
        before = _sends(store_path)
        if not _is_finished(store_path):
            site.finish(store_path)
        after = _sends(store_path)
        found = rows(store_path)
        lost, added = expected - found, found - expected
        differing = (*(f"- {row}" for row in lost.elements()), *(f"+ {row}" for row in added.elements()))
    again = {key: after[key][0] - n_claims for key, (n_claims, _) in before.items()}
    return Kill(
        n_replies=n_replies,
        differing=differing,
        committed_twice=sum(again[key] for key, (_, answered) in before.items() if answered),
        in_flight_repeats=sum(again[key] for key, (_, answered) in before.items() if not answered),
    )


def rows(store_path: Path) -> Counter[str]:
    """Return all rows that say what a run made and decided, as JSON, each with the name of its table."""
    found = Counter[str]()
    rejected = queried(store_path, _REJECTED)
    cut = {make_prefix(f"{str(scope).split('/')[0]}/val", str(version)) for scope, version in rejected}
    # A rollout is named by what it asked: its number is that of its turn.
    names = {str(id): bytes.fromhex(str(key)) for id, key in queried(store_path, "select id, hex(key) from call")}
    unsure = ",".join(id for id, key in names.items() if key[:6] in cut)

    def spell(table: str, row: dict[str, object]) -> str:
        if row.get("verdict") == "reject" and "inputs" in row:
            row |= {"inputs": ""}
        text = _spelled(table, tuple(row.values()))
        return _ROLLOUT.sub(lambda match: f"trial:{names[match[1]].hex()}", text)

    for (table,) in queried(store_path, "select name from sqlite_master where type = 'table' order by name"):
        if not str(table).startswith(_ASIDE):
            columns = queried(store_path, f"pragma table_info({table})")
            kept = [name for _, name, kind, _, _, key in columns if not _is_volatile(name, kind, key)]
            counting = f" where call_id not in ({_BEYOND}) and call_id not in ({unsure})"
            counting = counting if any(name == "call_id" for _, name, *_ in columns) else ""
            query = f"select {', '.join(kept)} from {table}{counting}"
            found.update(spell(str(table), dict(zip(kept, row, strict=True))) for row in queried(store_path, query))
    for row in queried(store_path, _REPLIES):
        if isinstance(row[0], bytes) and row[0][:6] not in cut:
            found[spell("call", dict(enumerate(row)))] += 1  # type: ignore[arg-type]
    return found


def _is_volatile(name: str, kind: str, key: int) -> bool:
    return name in _VOLATILE or (name == "id" and kind.lower() == "integer" and bool(key))


def _spelled(table: str, row: tuple[object, ...]) -> str:
    values = (value.hex() if isinstance(value, bytes) else value for value in row)
    return json.dumps([table, *(_ASKED_AGAIN.sub("", value) if isinstance(value, str) else value for value in values)])


def _sends(store_path: Path) -> dict[bytes, tuple[int, bool]]:
    """Return for every call how often it was sent at least, and whether its reply is there."""
    return {key: (n_claims, bool(answered)) for key, n_claims, answered in queried(store_path, _SENDS)}


def _is_finished(store_path: Path) -> bool:
    """Return whether the run was stored as finished: the kill struck between its last commit and the process's end."""
    return bool(queried(store_path, "select status = 'finished' from run")[0][0])


def _n_replies(store_path: Path) -> int:
    return int(str(queried(store_path, "select count(*) from reply")[0][0]))


def _await_replies(store_path: Path, process: subprocess.Popen[str], n: int) -> None:
    """Return once the run has its row and n replies, or has ended."""
    while process.poll() is None:
        if queried(store_path, "select count(*) from run")[0][0] and _n_replies(store_path) >= n:
            return
        time.sleep(POLL_S)
    if process.returncode:
        raise SystemExit(f"replay ended before it was killed:\n{process.communicate()[1]}")


def measure(n_kills: int, seed: int, folder: Path) -> list[Kill]:
    """Return the outcome of every kill."""
    site, random, kills = Site(folder, seed), Random(seed), list[Kill]()
    expected, n_replies = undisturbed(site)
    while len(kills) < n_kills:
        n, after_s = random.randrange(n_replies), random.uniform(0.0, MOST_AFTER_S)
        # By its replies, not by the clock: however fast the machine is, the run is there. Where it was missed, earlier.
        while (kill := kill_and_resume(site, expected, n, after_s)) is None:
            if n == 0:
                raise SystemExit("the run ended before it could be killed")
            n, after_s = n // 2, 0.0
        kills.append(kill)
    return kills


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "one kill")
    flags.add_argument("--kills", type=int, default=100, help="how many runs to kill")
    flags.add_argument("--seed", type=int, default=1, help="of the world and of the moments")
    options = flags.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kills = measure(SHORT if options.short else options.kills, options.seed, Path(folder).resolve())
    for kill in kills:
        for row in kill.differing[:SHOWN]:
            print(f"killed after {kill.n_replies} replies: {row[:ROW_CHARACTERS]}", file=sys.stderr)
    figures = {
        "kills": len(kills),
        "differing_rows": sum(len(kill.differing) for kill in kills),
        "committed_calls_paid_twice": sum(kill.committed_twice for kill in kills),
        "in_flight_repeats_max": max(kill.in_flight_repeats for kill in kills),
    }
    limit = f"{SLOTS} or less"
    show(figures, options.json, differing_rows="0", committed_calls_paid_twice="0", in_flight_repeats_max=limit)


if __name__ == "__main__":
    main()
