"""Integrity: whether a store's file, schema and rows are what was written.

SQLite checks its file and indexes, contents and tasks are named by their digests, and events are a chain.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.core.skills import files_digest
from skillopt_mcp.core.tasks import task_digest
from skillopt_mcp.store.events import KINDS, ChainLink, Events, hash_event
from skillopt_mcp.store.files import Mark
from skillopt_mcp.store.pool import Pool, Row, Value, connect, prepare

_PAGE = 500
_SCHEMA = "select type, name, tbl_name, sql from sqlite_schema where name not like 'sqlite_stat%'"
_KEYS = {
    "skill_root": "select path from skill_root",
    "permission": "select skill_id from permission",
    "command": "select name from command",
    "adoption": "select distinct skill_id from adoption join task on id = task_id",
    "promotion_test": "select id from promotion_test",
    "decision": "select id from decision",
    "approval": "select id from approval",
    "promotion": "select id from promotion",
    "candidate": "select id from candidate",
    "candidate_session": "select distinct candidate_id from candidate_session",
    "lease": ("select distinct scope from lease where state = 'answered' and scope in (select id from promotion_test)"),
}
# An answer has its trial's score, by the version and the task that its row says; none counts by its cause.
_UNLIKE = """
select a.test_id, a.unit, a.arm, a.number from test_attempt a join promotion_test p on p.id = a.test_id
left join trial t on t.call_id = a.call_id and t.task_id = json_extract(p.tasks, '$[' || a.unit || ']')
    and t.version_id = case a.arm when 'base' then p.base_version else p.version_id end
where case a.cause when '' then t.hard is null or a.score not in (t.hard, t.soft)
        or exists (select 1 from reply r where r.call_id = a.call_id and r.fault is not null)
    when 'target' then a.score <> 0 else a.score <> (a.arm = 'base') end
"""
_LEARNED = (
    "select distinct t.id from promotion_test p, json_each(p.tasks) tested join task t on t.id = tested.value"
    " where t.split <> 'test'"
)
_TEXTS = {
    "file": "SQLite: {detail}",
    "tables": "{detail} tables are missing: {where}",
    "schema": "the schema differs in {where} from what this version makes",
    "reference": "row {where} refers to a row of table {detail} that is not there",
    "content": "the content {where} is not what that digest names",
    "version": "the files of version {where} are not what that digest names",
    "task": "task {where} is not what its digest names",
    "split": "task {where} of a promotion test is not held out",
    "attempt": "attempt {where} is not what its trial scored",
    "event": "event {where} does not follow from the one before it: the chain is broken",
    "changed": "{where} is not what event {detail} recorded",
    "no_event": "{where} has no event: it was written by other means",
    "head": "the chain has no event with the hash {where}: what came after it was removed",
    "gone": "rows are gone: the store has {where} of {detail} counted commits",
    "decision": "decision {where} does not recompute: {detail}",
    "best_version": "the best version of skill {where} is not the one that was promoted last",
    "promotion": "promotion {where} rests on no accepting decision",
    "unreadable": "{detail}",
}


class Damage(BaseModel):
    """One thing that is wrong with a store: what kind, of which row or file, and details."""

    model_config = ConfigDict(frozen=True)
    code: str
    where: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return _TEXTS[self.code].format(where=self.where, detail=self.detail)


class Integrity:
    """All tables, as they are read to be checked; a check raises StoreError where it cannot be made."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def check_file(self) -> Iterator[Damage]:
        """Yield what SQLite finds wrong with the file and its indexes, or else that tables are missing, if any are."""
        wrong = [str(message) for [message] in self._pool.rows("pragma integrity_check") if message != "ok"]
        if wrong:
            yield from (Damage(code="file", detail=each) for each in wrong)
            return
        expected = {name for kind, name, *_ in _expected_schema() if kind == "table"}
        missing = sorted(expected - {name for [name] in self._pool.rows("select name from sqlite_schema")}, key=str)
        if missing:
            names = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
            yield Damage(code="tables", where=names, detail=f"{len(missing)} of {len(expected)}")

    def check_schema(self) -> Iterator[Damage]:
        """Yield the rows that refer to none, and where the schema is another."""
        for table, row_id, parent, _ in self._pool.rows("pragma foreign_key_check"):
            yield Damage(code="reference", where=f"{row_id!s} of table {table!s}", detail=str(parent))
        for kind, name, *_ in sorted(set(self._pool.rows(_SCHEMA)) ^ _expected_schema(), key=str):
            yield Damage(code="schema", where=f"{kind!s} '{name!s}'")

    def check_digests(self) -> Iterator[Damage]:
        """Yield rows unlike the digest that names them, tested tasks to train on, and attempts unlike their trials."""
        for row in self._walk("select sha256, size, encoding, content from blob where sha256 > ? order by sha256", ""):
            sha256, size, encoding, content = row
            try:
                raw = zlib.decompress(content) if encoding == "zlib" else content
            except zlib.error:
                raw = b""
            if len(raw) != size or hashlib.sha256(raw).hexdigest() != sha256:
                yield Damage(code="content", where=str(sha256))
        yield from self._check_versions()
        for row in self._walk("select id, digest, prompt, judge, files from task where id > ? order by id", 0):
            task_id, digest, prompt, judge, listed = row
            try:
                files = json.loads(listed)
                is_same = json.dumps(files) == listed and task_digest(prompt, judge, files) == digest
            except ValueError:
                is_same = False
            if not is_same:
                yield Damage(code="task", where=str(task_id))
        for [task_id] in self._pool.rows(_LEARNED):
            yield Damage(code="split", where=str(task_id))
        for test, unit, arm, number in self._pool.rows(_UNLIKE):
            yield Damage(code="attempt", where=f"{number!s} of the {arm!s} at unit {unit!s} of test {test!s}")

    def check_mark(self, mark: Mark | None) -> Iterator[Damage]:
        """Yield that commits are gone that its mark claims, or the event that it names."""
        n = self._pool.number("select n from mark")
        if mark and mark.n_claimed > n:
            yield Damage(code="gone", where=f"{n:,}", detail=f"{mark.n_claimed:,}")
        elif mark and self._pool.text("select hash from event where seq = ?", [mark.seq]) != mark.hash:
            yield Damage(code="head", where=mark.hash)

    def check_chain(self, events: Events) -> Iterator[Damage]:
        """Yield where the chain of events is broken, and which rows are not what their last event recorded."""
        previous_hash, seq = "", 0
        last = dict[tuple[str, str], ChainLink]()
        for event in events.walk():
            seq += 1
            if event.seq != seq or event.kind not in KINDS or event.hash != hash_event(previous_hash, *event[:5]):
                yield Damage(code="event", where=f"{event.seq} ({event.kind})")
            seq, previous_hash = event.seq, event.hash
            last[KINDS.get(event.kind, ""), event.key] = event
        for (table, key), event in last.items():
            if table and events.digest(table, key) != event.row_sha256:
                yield Damage(code="changed", where=f"{table} {key}", detail=f"{event.seq} ({event.kind})")
        for table, sql in _KEYS.items():
            for [row_key] in self._pool.rows(sql):
                if (table, str(row_key)) not in last:
                    yield Damage(code="no_event", where=f"{table} {row_key!s}")

    def _check_versions(self) -> Iterator[Damage]:
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
                yield Damage(code="version", where=f"{version!s} of skill {skill_id!s}")

    def _walk(self, sql: str, lowest: Value) -> Iterator[Row]:
        """Yield all rows page by page, each a read of its own: one long read would keep the journal from shrinking."""
        after = lowest
        while page := self._pool.rows(f"{sql} limit {_PAGE}", [after]):
            yield from page
            after = page[-1][0]


def _expected_schema() -> set[Row]:
    path = Path(":memory:")
    connection = connect(path)
    try:
        prepare(connection, path)
        return set(connection.execute(_SCHEMA).fetchall())
    finally:
        connection.close()
