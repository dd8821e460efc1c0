"""Received attempts at rest: of the attempts that a history tells, those that are new here, and what was erased."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from skillopt_mcp.records.calls import Message, messages_json, parse_messages
from skillopt_mcp.records.histories import ErasedLine, TrajectoryLine
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.erasing import note_erased
from skillopt_mcp.store.pool import Row
from skillopt_mcp.store.sums import row_sum

ATTEMPTS = (
    "select id, version_id, session_id, position, prompt, answer, hard, soft, reason, messages, created_at"
    " from trajectory where skill_id = ? and id > ? and id not in (select trajectory_id from erased)"
    " order by id limit ?"
)
TOMBSTONES = (
    "select version_id, session_id, position, hard, soft, created_at from trajectory"
    " where skill_id = ? and id in (select trajectory_id from erased) order by id"
)
_INSERT = (
    "insert into trajectory(skill_id, version_id, session_id, position, prompt, answer, hard, soft, reason,"
    " messages, created_at, imported_id, sum) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_Place = tuple[str, int]


@dataclass(slots=True)
class NewAttempts:
    """What a history brings of attempts, and erased ones, that is not here; `n_erased` of it were erased here.

    `kept` are attempts here that were erased where the history comes from; `conflicts` tells where another is here.
    """

    attempts: list[TrajectoryLine] = field(default_factory=list)
    tombstones: list[ErasedLine] = field(default_factory=list)
    n_erased: int = 0
    kept: list[int] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)


class _Graves:
    """The erased attempts of a store, or of a history, by their places and by their moments."""

    def __init__(self, lines: Sequence[ErasedLine]) -> None:
        self._placed = {_place(line) for line in lines} - {None}
        self._at = {(line.version_id, line.created_at) for line in lines}
        self._loose = {(line.version_id, line.created_at) for line in lines if _place(line) is None}

    def holds(self, line: TrajectoryLine | ErasedLine) -> bool:
        """Return whether an attempt is one of them: one of both may have come to its place after it was told."""
        place, moment = _place(line), (line.version_id, line.created_at)
        if place is None:
            return moment in self._at
        return place in self._placed or moment in self._loose


def new_attempts(
    connection: Connection, skill_id: int, lines: Sequence[TrajectoryLine], erased: Sequence[ErasedLine]
) -> NewAttempts:
    """Return what is new here of the attempts, and the erased ones, of a history."""
    found = NewAttempts()
    graves = list(list_tombstones(connection.execute(TOMBSTONES, [skill_id]).fetchall()))
    here, there = _Graves(graves), _Graves(erased)
    placed: dict[_Place, str] = {}
    loose: set[str] = set()
    stored = _Here()
    for row_id, *row in connection.execute(ATTEMPTS, [skill_id, 0, -1]):
        line = attempt_line(tuple(row))
        _note(line, placed, loose)
        if there.holds(line):
            stored.add(row_id, line)
    for line in lines:
        place = _place(line)
        if place is not None and place in placed:
            if placed[place] != _same(line):
                found.conflicts.append(f"attempt {place[1]} of session '{place[0]}': another is here")
        elif place is None and _same(line) in loose:
            continue
        elif here.holds(line):
            found.n_erased += 1
        else:
            found.attempts.append(line)
            _note(line, placed, loose)
    for gone in erased:
        if here.holds(gone):
            continue
        found.kept += (own := stored.meant_by(gone))
        found.tombstones += [] if own else [gone]
    found.kept = sorted(set(found.kept))
    return found


class _Here:
    """Attempts that are here, by their places, and by version and time."""

    def __init__(self) -> None:
        self._placed: dict[_Place, int] = {}
        self._at: dict[tuple[str, str], list[tuple[int, TrajectoryLine]]] = {}

    def add(self, row_id: int, line: TrajectoryLine) -> None:
        """Keep one."""
        if (place := _place(line)) is not None:
            self._placed[place] = row_id
        self._at.setdefault((line.version_id, line.created_at), []).append((row_id, line))

    def meant_by(self, gone: ErasedLine) -> list[int]:
        """Return those that an erased one of another store may be: of one moment, those of its score before others."""
        place = _place(gone)
        if place is not None and place in self._placed:
            return [self._placed[place]]
        at = self._at.get((gone.version_id, gone.created_at), [])
        alike = [(row_id, line) for row_id, line in at if place is None or _place(line) is None]
        told = (gone.session_id, gone.hard, gone.soft)
        exact = [row_id for row_id, line in alike if (line.session_id, line.hard, line.soft) == told]
        return exact or [row_id for row_id, _ in alike]


def insert_attempts(connection: Connection, skill_id: int, new: NewAttempts, imported_id: int) -> None:
    """Store attempts under the import that brought them, and those that were erased where they come from as erased."""
    for line in new.attempts:
        values = (skill_id, *_values(line), imported_id)
        connection.execute(_INSERT, (*values, row_sum(*values)))
    ids = []
    for gone in new.tombstones:
        hard = None if gone.hard is None else int(gone.hard)
        values = (
            skill_id, gone.version_id, gone.session_id, gone.position, "", "", hard, gone.soft, "", "[]",
            gone.created_at, imported_id,
        )  # fmt: skip
        ids.append(int(connection.execute(_INSERT, (*values, row_sum(*values))).lastrowid or 0))
    if ids:
        note_erased(connection, skill_id, ids)


def list_tombstones(rows: Sequence[Row]) -> Iterator[ErasedLine]:
    """Yield erased attempts out of rows of TOMBSTONES."""
    for version, session, position, hard, soft, created in rows:
        yield ErasedLine(
            version_id=str(version), session_id=cast(str | None, session), position=cast(int | None, position),
            hard=None if hard is None else bool(hard), soft=cast(float | None, soft), created_at=str(created),
        )  # fmt: skip


def attempt_line(row: Row) -> TrajectoryLine:
    """Return an attempt out of a row of ATTEMPTS without its id."""
    version, session, position, prompt, answer, hard, soft, reason, messages, created = row
    parsed = parse_messages(str(messages))
    told = [(m.role, m.content) if m.name is None else (m.role, m.content, m.name) for m in parsed]
    return TrajectoryLine.model_construct(
        kind="trajectory", version_id=str(version), session_id=cast(str | None, session),
        position=cast(int | None, position), prompt=str(prompt), answer=str(answer),
        hard=None if hard is None else bool(hard), soft=cast(float | None, soft), reason=str(reason),
        messages=tuple(told), created_at=str(created),
    )  # fmt: skip


def _place(line: TrajectoryLine | ErasedLine) -> _Place | None:
    return None if line.session_id is None or line.position is None else (line.session_id, line.position)


def _note(line: TrajectoryLine, placed: dict[_Place, str], loose: set[str]) -> None:
    if (place := _place(line)) is not None:
        placed[place] = _same(line)
    else:
        loose.add(_same(line))


def _same(line: TrajectoryLine) -> str:
    return hashlib.sha256(line.model_dump_json().encode("utf-8", "surrogatepass")).hexdigest()


def _values(line: TrajectoryLine) -> tuple[str | int | float | None, ...]:
    messages = messages_json([Message(*message) for message in line.messages])
    return (
        line.version_id, line.session_id, line.position, line.prompt, line.answer,
        None if line.hard is None else int(line.hard), line.soft, line.reason, messages, line.created_at,
    )  # fmt: skip
