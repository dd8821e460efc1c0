"""Histories at rest: all that a store knows of one skill, and what is taken in of another store's, all or nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from skillopt_mcp.records.candidates import NewCandidate
from skillopt_mcp.records.histories import ErasedLine, Told, TrajectoryLine
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import NewTask
from skillopt_mcp.store.candidates import insert_candidate
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.events import append, canonical
from skillopt_mcp.store.learned import new_learned
from skillopt_mcp.store.matching import beginning, is_earlier, new_retired, new_tasks
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.received import (
    ATTEMPTS,
    TOMBSTONES,
    NewAttempts,
    attempt_line,
    insert_attempts,
    list_tombstones,
    new_attempts,
)
from skillopt_mcp.store.retirements import note_retired, retire_task, retired_name
from skillopt_mcp.store.serving import OF_RUN_TOLD, OF_TEST_TOLD
from skillopt_mcp.store.skills import add_version
from skillopt_mcp.store.tasks import insert_task, name_of, note_added

FINAL = ("accept", "reject")
_PAGE = 200


@dataclass(frozen=True, slots=True)
class NewHistory:
    """What a history brings, checked: versions (parent, files), tasks, attempts, candidates, and what only tells.

    Retired tasks come with the reason for that; `learned` are all that the candidates may have been made from; of
    `erased` attempts it tells that they were.
    """

    sha256: str
    versions: Sequence[tuple[str | None, SkillFiles]]
    tasks: Sequence[NewTask]
    trajectories: Sequence[TrajectoryLine]
    candidates: Sequence[NewCandidate]
    told: Sequence[Told]
    retired: Sequence[tuple[NewTask, str]] = ()
    learned: Sequence[NewTask] = ()
    erased: Sequence[ErasedLine] = ()


@dataclass(slots=True)
class Taken:
    """How much of each kind was new, and in words what of it contradicts what is there.

    `n_erased` attempts were erased here, and are left out; `kept` are here, and were erased where it comes from.
    """

    versions: int = 0
    tasks: int = 0
    trajectories: int = 0
    candidates: int = 0
    told: int = 0
    learned: bool = False
    tombstones: int = 0
    n_erased: int = 0
    kept: Sequence[int] = ()
    conflicts: list[str] = field(default_factory=list)

    @property
    def n_new(self) -> int:
        """Return how much was new in all."""
        n_rows = self.versions + self.tasks + self.trajectories + self.candidates + self.told
        return n_rows + self.learned + self.tombstones


class Histories:
    """Tables imported and archive; and of the others what a history tells."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def list_versions(self, skill_id: int) -> list[tuple[str, str | None]]:
        """Return the versions of a skill as (id, parent), the oldest first."""
        rows = self._pool.rows(
            "select id, parent_id from version where skill_id = ? order by created_at, parent_id is not null, id",
            [skill_id],
        )
        return [(str(version), cast(str | None, parent)) for version, parent in rows]

    def walk_trajectories(self, skill_id: int, without: Collection[int] = ()) -> Iterator[TrajectoryLine]:
        """Yield the attempts of a skill, the oldest first, `without` those of these ids."""
        after = 0
        while page := self._pool.rows(ATTEMPTS, [skill_id, after, _PAGE]):
            yield from (attempt_line(row[1:]) for row in page if row[0] not in without)
            after = cast(int, page[-1][0])

    def list_erased(self, skill_id: int) -> list[ErasedLine]:
        """Return what is left of the attempts of a skill that were erased."""
        return list(list_tombstones(self._pool.rows(TOMBSTONES, [skill_id])))

    def changed_trajectories(self, skill_id: int) -> set[int]:
        """Return the attempts of a skill that are not what was written, by their sums."""
        names = [str(name) for [name] in self._pool.rows("select name from pragma_table_info('trajectory')")]
        summed = ", ".join(name for name in names if name not in ("id", "sum"))
        sql = f"select id from trajectory where skill_id = ? and sum is not null and sum <> row_sum({summed})"
        return {int(str(row_id)) for [row_id] in self._pool.rows(sql, [skill_id])}

    def list_candidate_ids(self, skill_id: int) -> list[str]:
        """Return the ids of all candidates of a skill, those of single steps too, the oldest first."""
        rows = self._pool.rows("select id from candidate where skill_id = ? order by rowid", [skill_id])
        return [str(row[0]) for row in rows]

    def list_told(self, skill_id: int) -> list[Told]:
        """Return what a history only tells of a skill: its own, and what it took in from other stores."""
        found = [
            Told.model_validate({"what": what, "content": dict(zip(names.split(), row, strict=True))})
            for what, (names, sql) in _TOLD.items()
            for row in self._pool.rows(sql, [skill_id])
        ]
        return found + self.list_archived(skill_id)

    def list_archived(self, skill_id: int) -> list[Told]:
        """Return what was taken in from other stores and only tells."""
        rows = self._pool.rows("select kind, content from archive where skill_id = ? order by id", [skill_id])
        return [Told.model_validate({"what": what, "content": json.loads(str(content))}) for what, content in rows]

    def add(self, skill_id: int, new: NewHistory, *, keep_mine: bool) -> Taken:
        """Take a history in, in one transaction; what is there stays. With conflicts, nothing unless `keep_mine`.

        What only tells is archived: nothing in it is ever a verdict, a permission or a version that was live here.
        """
        taken = Taken()
        with self._pool.write() as connection:
            tasks = new_tasks(connection, skill_id, new.tasks, taken.conflicts)
            retired = new_retired(connection, skill_id, new.retired, taken.conflicts)
            attempts = new_attempts(connection, skill_id, new.trajectories, new.erased)
            taken.conflicts += attempts.conflicts
            told = _new_told(connection, skill_id, new.told, taken)
            if taken.conflicts and not keep_mine:
                return Taken(conflicts=taken.conflicts)
            for parent, files in new.versions:
                taken.versions += add_version(connection, skill_id, files, parent_id=parent, origin="edited")
            for made in new.candidates:
                taken.candidates += insert_candidate(connection, made, made_here=False)
            for task in tasks:
                insert_task(connection, skill_id, task, task.split or "train")
            gone = [_insert_retired(connection, skill_id, task, reason) for task, reason in retired]
            note_added(connection, skill_id, len(tasks) + len(gone))
            note_retired(connection, skill_id, gone)
            taken.tasks, taken.trajectories, taken.told = len(tasks) + len(gone), len(attempts.attempts), len(told)
            taken.tombstones, taken.n_erased, taken.kept = len(attempts.tombstones), attempts.n_erased, attempts.kept
            learned = new_learned(connection, skill_id, new.learned)
            taken.learned = bool(learned)
            if taken.n_new:
                _insert(connection, (skill_id, new.sha256), attempts, [*told, *learned])
        return taken


def _insert(
    connection: Connection, of: tuple[int, str], attempts: NewAttempts, told: Sequence[tuple[str, str]]
) -> None:
    """Store attempts and archived lines under the import that brought them, and record it."""
    connection.execute("insert into imported(skill_id, sha256) values (?, ?) on conflict do nothing", of)
    sql = "select id from imported where skill_id = ? and sha256 = ?"
    [imported_id] = connection.execute(sql, of).fetchone()
    insert_attempts(connection, of[0], attempts, imported_id)
    connection.executemany(
        "insert into archive(skill_id, imported_id, kind, sha256, content) values (?, ?, ?, ?, ?)",
        [(of[0], imported_id, what, _sha256(content), content) for what, content in told],
    )
    append(connection, "skill_imported", imported_id, skill=of[0], sha256=of[1])


def _insert_retired(connection: Connection, skill_id: int, task: NewTask, reason: str) -> int:
    """Store a task that is retired from the first, whose name another may have; return its id."""
    task_id = insert_task(connection, skill_id, task, task.split or "train", retired_name(task.digest))
    retire_task(connection, skill_id, task_id, reason, name_of(task))
    return task_id


def _new_told(connection: Connection, skill_id: int, told: Sequence[Told], taken: Taken) -> list[tuple[str, str]]:
    """Return the lines that are not archived yet, as (what, json); this store's own are none of them."""
    verdicts: dict[tuple[str, str], str] = {}
    begun: dict[str, dict[str, object]] = {}
    sql = "select base_version, version_id, verdict from decision where skill_id = ? and gate = 'confirm' order by id"
    for base, version, verdict in connection.execute(sql, [skill_id]):
        verdicts[base, version] = verdict
    rows = connection.execute("select kind, sha256 from archive where skill_id = ?", [skill_id]).fetchall()
    held = {(kind, sha256) for kind, sha256 in rows}
    for what, (names, query) in _TOLD.items():
        for row in connection.execute(query, [skill_id]).fetchall():
            own = dict(zip(names.split(), row, strict=True))
            held.add((what, _sha256(canonical(own))))
            begun |= dict.fromkeys(beginning(what, own), own)
            # As earlier releases told both, without which models answered, and then a test, without what it asks, and a
            # run, without what ended its search.
            for later in ("served", "rule", "conclusion"):
                own.pop(later, None)
                held.add((what, _sha256(canonical(own))))
    found: list[tuple[str, str]] = []
    for line in told:
        content = canonical(line.content)
        key = (line.what, _sha256(content))
        if key in held or any(is_earlier(line.content, begun.get(at)) for at in beginning(line.what, line.content)):
            continue
        held.add(key)
        found.append((line.what, content))
        if line.what == "decision" and line.content.get("gate") == "confirm":
            base, version = str(line.content.get("base_version")), str(line.content.get("version_id"))
            here, there = verdicts.get((base, version)), line.content.get("verdict")
            if here in FINAL and there in FINAL and here != there:
                taken.conflicts.append(f"version {version[:12]}: its verdict is {here} here, {there} in the file")
    return found


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_TOLD = {
    "decision": (
        "gate base_version version_id scope verdict reason inputs created_at",
        "select gate, base_version, version_id, scope, verdict, reason, inputs, created_at"
        " from decision where skill_id = ? order by id",
    ),
    "test": (
        "id base_version version_id j alpha backend claim created_at tasks pairs rule served",
        "select id, base_version, version_id, j, alpha, backend, claim, created_at,"
        " (select json_group_array(t.digest) from json_each(confirmation.tasks) join task t on t.id = value),"
        " (select json_group_array(json_array(t.digest, base, candidate)) from (select * from pair"
        " where confirmation_id = confirmation.id order by n) join task t on t.id = task_id), rule,"
        f" {OF_TEST_TOLD} from confirmation where skill_id = ? order by j",
    ),
    "promotion": (
        "kind from_version to_version state verdict consent created_at",
        "select kind, from_version, to_version, state, verdict, consent, created_at"
        " from promotion where skill_id = ? order by id",
    ),
    "run": (
        "id kind base_version config target optimizer judge status result created_at conclusion served",
        "select id, kind, base_version, config, target, optimizer, judge, status, result, created_at,"
        " (select json_array(after, planned, why, created_at) from conclusion where run_id = run.id),"
        f" {OF_RUN_TOLD} from run where skill_id = ? order by rowid",
    ),
    "event": (
        "seq kind content prev_hash hash",
        "select seq, kind, content, prev_hash, hash from event where json_extract(content, '$.skill') = ?1"
        " or kind in ('skill_tracked', 'skill_edited', 'permission_set', 'permission_withdrawn')"
        " and json_extract(content, '$.key[0]') = ?1 order by seq",
    ),
}
