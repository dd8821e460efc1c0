"""Events: the decisions, promotions and consents of a store, as a chain of hashes.

An event holds the digest of the row that it records, so the last event of a row shows whether it was changed since. To
record another kind, add it to `KINDS` and call `append` within the transaction that writes the row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from skillopt_mcp.store.pool import Connection, Pool, Row

KINDS = {
    "root_added": "skill_root",
    "permission_set": "permission",
    "permission_withdrawn": "permission",
    "tasks_adopted": "adoption",
    "backend_remembered": "remembered_backend",
    "command_registered": "command",
    "command_removed": "command",
    "test_planned": "promotion_test",
    "test_opened": "promotion_test",
    "test_withdrawn": "promotion_test",
    "decision_taken": "decision",
    "approval_given": "approval",
    "approval_withdrawn": "approval",
    "promotion_begun": "promotion",
    "promotion_given_up": "promotion",
    "promotion_finished": "promotion",
    "promotion_taken_back": "promotion",
    "candidate_made": "candidate",
    "candidate_seen": "candidate_session",
    "test_answered": "lease",
    "command_seen": "seen_command",
}
"""The kinds of events, each with the table whose row it records."""

ROWS = {
    "skill_root": "select path, created_at from skill_root where path = ?",
    "permission": "select skill_id, granted_by, simulated, created_at from permission where skill_id = ?",
    "adoption": (
        "select json_group_array(json_array(task_id, seen, login)) from (select task_id, adoption.digest as seen, login"
        " from adoption join task on id = task_id where skill_id = ? order by task_id)"
    ),
    "remembered_backend": "select parts, spec, granted_by, created_at from remembered_backend where parts = ?",
    "command": (
        "select name, argv, sha256, limits, reads, unconfined, unattended, created_at from command where name = ?"
    ),
    "promotion_test": (
        "select id, skill_id, base_version, version_id, release, number, backend, tasks, plan, created_at"
        " from promotion_test where id = ?"
    ),
    "decision": (
        "select id, skill_id, gate, base_version, version_id, scope, verdict, reason, inputs, created_at"
        " from decision where id = ?"
    ),
    "approval": (
        "select id, skill_id, kind, from_version, to_version, findings, evidence, login, created_at"
        " from approval where id = ?"
    ),
    "promotion": (
        "select id, skill_id, kind, candidate_id, from_version, to_version, state, verdict, agreed_by, agreed_on,"
        " login, created_at from promotion where id = ?"
    ),
    "seen_command": "select key, skill_id, command, login, created_at from seen_command where key = ?",
    # Its findings hold it for a person.
    "candidate": "select id, skill_id, base_version, version_id, findings from candidate where id = ?",
    # The label SAME SESSION of a host's test rests on both: by its candidate, and by the test.
    "candidate_session": (
        "select json_group_array(session) from"
        " (select session from candidate_session where candidate_id = ? order by session)"
    ),
    "lease": (
        "select json_group_array(session) from"
        " (select distinct session from lease where scope = ? and state = 'answered' order by session)"
    ),
}
"""The row that an event stands for, by its key; of sessions and adoptions, all rows of one key."""

_EVENT = "select seq, at, kind, key, row_sha256, hash from event"
_PAGE = 1000


class ChainLink(NamedTuple):
    """One link of the chain."""

    seq: int
    at: str
    kind: str
    key: str
    row_sha256: str
    hash: str


class Events:
    """Table event."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def walk(self) -> Iterator[ChainLink]:
        """Yield every event in order."""
        after = 0
        while page := self._pool.rows(f"{_EVENT} where seq > ? order by seq limit ?", [after, _PAGE]):
            events = [ChainLink(*row) for row in page]
            yield from events
            after = events[-1].seq

    def last(self) -> ChainLink | None:
        """Return the newest event, or None."""
        row = self._pool.row(f"{_EVENT} order by seq desc limit 1")
        return ChainLink(*row) if row else None

    def digest(self, table: str, key: str) -> str:
        """Return the digest of a row as it is now."""
        return _digest(self._pool.row(ROWS[table], [key]))


def append(connection: Connection, kind: str, key: str | int) -> None:
    """Record the row of `key`, which the caller's transaction has just written or deleted."""
    row = connection.execute(ROWS[KINDS[kind]], [key]).fetchone()
    last = connection.execute("select seq, hash from event order by seq desc limit 1").fetchone()
    seq, previous_hash = (last[0] + 1, last[1]) if last else (1, "")
    values = (seq, now(), kind, str(key), _digest(row))
    connection.execute(
        "insert into event(seq, at, kind, key, row_sha256, hash) values (?, ?, ?, ?, ?, ?)",
        [*values, hash_event(previous_hash, *values)],
    )


def now() -> str:
    """Return the time (UTC) as the store writes it."""
    return f"{datetime.now(UTC).isoformat(timespec='milliseconds')[:-6]}Z"


def _digest(row: Row | None) -> str:
    return hashlib.sha256(_json(row).encode()).hexdigest()


def hash_event(previous_hash: str, *values: str | int) -> str:
    """The hash of an event by its first five columns, after the event with the hash before."""
    return hashlib.sha256(_json([previous_hash, *values]).encode()).hexdigest()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
