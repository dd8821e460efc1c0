"""Integrity: whether a store's file, schema and rows are what was written, each problem in words.

SQLite checks its file and indexes, contents and tasks are named by digests of them, and events are a chain.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from skillopt_mcp.records.skills import files_digest
from skillopt_mcp.records.tasks import task_digest
from skillopt_mcp.store import driver
from skillopt_mcp.store.events import KINDS, Events, Key
from skillopt_mcp.store.pool import Pool, Row, Value
from skillopt_mcp.store.schema import prepare

_PAGE = 500
_SCHEMA = "select type, name, tbl_name, sql from sqlite_schema where name not like 'sqlite_stat%'"
_KEYS = {
    "skill_root": "select path from skill_root where created_at >= ?",
    "skill": "select id from skill where created_at >= ?",
    "forgotten": "select skill_id from forgotten where created_at >= ?",
    "permission": "select skill_id from permission where created_at >= ?",
    "command": "select name from command where created_at >= ?",
    "run": "select id from run where created_at >= ?",
    "candidate": "select id from candidate where created_at >= ?",
    "confirmation": "select id from confirmation where created_at >= ?",
    "decision": "select id from decision where created_at >= ?",
    "promotion": "select id from promotion where created_at >= ?",
    "approval": "select id from approval where created_at >= ?",
    "task": "select id from task where created_at >= ?",
    "rotation": "select task_id from rotation where created_at >= ?",
    "retirement": "select task_id from retirement where created_at >= ?",
    "erased": "select id from erased where created_at >= ?",
}


class Integrity:
    """All tables, as they are read to be checked. Every method yields what is wrong; StoreError where none can tell."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def file_problems(self) -> Iterator[str]:
        """Yield what SQLite finds wrong with the file and its indexes."""
        for [told] in self._pool.rows("pragma integrity_check"):
            if told != "ok":
                yield f"SQLite: {told!s}"

    def shape_problems(self) -> Iterator[str]:
        """Yield the rows that refer to none, and where the schema is another."""
        for table, row_id, parent, _ in self._pool.rows("pragma foreign_key_check"):
            yield f"row {row_id!s} of table {table!s} refers to a row of {parent!s} that is not there"
        for kind, name, *_ in sorted(set(self._pool.rows(_SCHEMA)) ^ _expected_schema(), key=str):
            yield f"the schema differs in {kind!s} '{name!s}' from what this version makes"

    def row_problems(self) -> Iterator[str]:
        """Yield the rows that are not what the digest that names them says."""
        for row in self._walk("select sha256, size, encoding, content from blob where sha256 > ? order by sha256", ""):
            if not _is_its_content(row):
                yield f"table blob: the content of {row[0]!s} is not what that digest names"
        yield from self._version_problems()
        for row in self._walk("select id, digest, prompt, judge, files from task where id > ? order by id", 0):
            if not _is_its_task(row):
                yield f"table task: row {row[0]!s} is not what its digest names"

    def chain_problems(self, events: Events) -> Iterator[str]:
        """Yield where the chain of events is broken, and which rows are not what their last event recorded."""
        seq, last_hash, since = 0, "", ""
        latest: dict[tuple[str, tuple[Key, ...]], tuple[int, str, str]] = {}
        for event in events.walk():
            seq += 1
            if (event.seq, event.prev_hash) != (seq, last_hash) or not event.is_sound:
                yield f"event {event.seq} ({event.kind}) does not follow from the one before it: the chain is broken"
            seq, last_hash = event.seq, event.hash
            try:
                told = event.told
            except ValueError:
                yield f"event {event.seq} ({event.kind}) cannot be read"
                continue
            since = since or told.at
            latest[KINDS.get(event.kind, event.kind), told.key] = (event.seq, event.kind, told.rows)
        for (table, key), (number, kind, digest) in latest.items():
            if events.rows_digest(kind, key) != digest:
                yield f"table {table}: {_named(key)} is not what event {number} ({kind}) recorded"
        if since:
            yield from self._unrecorded(since, _recorded(latest))

    def _unrecorded(self, since: str, recorded: set[tuple[str, Key]]) -> Iterator[str]:
        for table, sql in _KEYS.items():
            for [key] in self._pool.rows(sql, [since]):
                if (table, key) not in recorded:
                    yield f"table {table}: {key!s} has no event: it was written by other means"

    def _version_problems(self) -> Iterator[str]:
        rows = self._pool.rows(
            "select v.skill_id, v.id, f.path, f.executable, f.sha256 from version v left join version_file f"
            " on f.skill_id = v.skill_id and f.version_id = v.id order by v.skill_id, v.id, f.path"
        )
        files: dict[tuple[Value, Value], list[tuple[str, bool, str]]] = {}
        for skill_id, version, path, executable, sha256 in rows:
            held = files.setdefault((skill_id, version), [])
            if path is not None:
                held.append((str(path), bool(executable), str(sha256)))
        for (skill_id, version), held in files.items():
            if files_digest(held) != version:
                yield f"table version: the files of {version!s} of skill {skill_id!s} are not what that digest names"

    def _walk(self, sql: str, lowest: Value) -> Iterator[Row]:
        """Yield all rows page by page, each a read of its own: one long read would keep the journal from shrinking."""
        after = lowest
        while page := self._pool.rows(f"{sql} limit {_PAGE}", [after]):
            yield from page
            after = page[-1][0]


def _expected_schema() -> set[Row]:
    path = Path(":memory:")
    connection = driver.connect(path)
    try:
        prepare(connection, path)
        return set(connection.execute(_SCHEMA).fetchall())
    finally:
        connection.close()


def _is_its_content(row: Row) -> bool:
    sha256, size, encoding, content = row
    try:
        raw = zlib.decompress(cast(bytes, content)) if encoding == "zlib" else cast(bytes, content)
    except zlib.error:
        return False
    return len(raw) == size and hashlib.sha256(raw).hexdigest() == sha256


def _is_its_task(row: Row) -> bool:
    _, digest, prompt, judge, files = row
    try:
        parsed = json.loads(str(files))
    except ValueError:
        return False
    return json.dumps(parsed) == files and task_digest(str(prompt), str(judge), parsed) == digest


def _recorded(latest: dict[tuple[str, tuple[Key, ...]], tuple[int, str, str]]) -> set[tuple[str, Key]]:
    """Return the rows that events tell of as (table, key)."""
    found: set[tuple[str, Key]] = set()
    for table, key in latest:
        if table in ("task", "erased"):
            found |= {(table, n) for n in range(int(key[0]), int(key[-1]) + 1)}
        elif table in ("rotation", "retirement"):
            found |= {(table, n) for n in json.loads(str(key[0]))}
        else:
            found.add((table, key[0]))
    return found


def _named(key: tuple[Key, ...]) -> str:
    return " ".join(map(str, key))
