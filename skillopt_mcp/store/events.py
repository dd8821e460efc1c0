"""Events at rest: what happened to the store, as a chain in which each row's hash covers all rows before it.

An event names the rows that it records and holds their digest, so the last event of a thing tells whether its rows are
still what they were. To record a new kind of thing, name it in `KINDS`, say in `ROWS` which rows it stands for, and
call `append` within the transaction that writes them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from skillopt_mcp.errors import UnsafeStore
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.pool import Pool, Row

KINDS = {
    "root_added": "skill_root",
    "skill_tracked": "skill",
    "skill_edited": "version",
    "skill_moved": "skill",
    "skill_forgotten": "forgotten",
    "skill_recalled": "forgotten",
    "permission_set": "permission",
    "permission_withdrawn": "permission",
    "tasks_added": "task",
    "tasks_rotated": "rotation",
    "tasks_retired": "retirement",
    "command_registered": "command",
    "command_removed": "command",
    "run_running": "run",
    "run_stopped": "run",
    "run_finished": "run",
    "candidate_made": "candidate",
    "test_opened": "confirmation",
    "test_widened": "confirmation",
    "decision_taken": "decision",
    "promotion_begun": "promotion",
    "promotion_finished": "promotion",
    "promotion_taken_back": "promotion",
    "approval_given": "approval",
    "approval_withdrawn": "approval",
    "attempts_erased": "erased",
}
"""What can happen, and to which table's rows."""

# Columns by name: those of later releases are no part of them, nor what changes without an event (a live file).
ROWS = {
    "skill_root": "select path, created_at from skill_root where path = ?",
    "skill": "select id, name, path, created_at from skill where id = ?",
    "forgotten": "select skill_id, created_at from forgotten where skill_id = ?",
    "version": "select skill_id, id, parent_id, origin, created_at from version where skill_id = ? and id = ?",
    "permission": (
        "select skill_id, granted_by, iif(host_run, 'host_run ' || simulated, simulated), created_at from permission"
        " where skill_id = ?"
    ),
    "task": (
        "select id, skill_id, coalesce(called, name), digest, tags, created_at, coalesce(from_split, split) from"
        " (select task.*, rotation.from_split, retirement.name as called from task"
        " left join rotation on rotation.task_id = task.id left join retirement on retirement.task_id = task.id)"
        " where id between ? and ? order by id"
    ),
    "rotation": (
        "select task_id, from_split, to_split, n_looks, created_at from rotation"
        " where task_id in (select value from json_each(?)) order by task_id"
    ),
    "retirement": (
        "select task_id, name, reason, n_tests, n_looks, created_at from retirement"
        " where task_id in (select value from json_each(?)) order by task_id"
    ),
    "command": "select name, argv, sha256, limits, reads, require_sandbox, created_at from command where name = ?",
    "run": (
        "select id, skill_id, base_version, config, prompts, tasks, sessions, target, optimizer, status, result, note,"
        " judge, kind, created_at from run where id = ?"
    ),
    "candidate": (
        "select c.id, c.skill_id, c.base_version, c.version_id, c.run_id, c.reasoning, c.findings, c.created_at,"
        " e.n, e.op, e.path, e.target, e.content, e.status, e.reason, e.detail, e.sources"
        " from candidate c left join edit e on e.candidate_id = c.id where c.id = ? order by e.n"
    ),
    "confirmation": (
        "select id, skill_id, base_version, version_id, j, alpha, backend, tasks, claim || coalesce(rule, ''),"
        " created_at from confirmation where id = ?"
    ),
    "decision": (
        "select id, skill_id, gate, base_version, version_id, scope, verdict, reason, inputs, created_at"
        " from decision where id = ?"
    ),
    "promotion": (
        "select id, skill_id, kind, candidate_id, from_version, to_version, state, verdict, agreed_by, agreed_on,"
        " login, created_at from promotion where id = ?"
    ),
    "approval": (
        "select id, skill_id, kind, from_version, to_version, findings, evidence, login, created_at"
        " from approval where id = ?"
    ),
    "erased": "select id, trajectory_id, created_at from erased where id between ? and ? order by id",
}
"""The rows that an event of a table stands for, by its key."""

_EVENT = "select seq, kind, content, prev_hash, hash from event"
Key = str | int


class EventContent(NamedTuple):
    """What an event's json holds: when, the key of its rows, and the sha256 over them as they were left."""

    at: str
    key: tuple[Key, ...]
    rows: str


class Event(NamedTuple):
    """One link of the chain; `content` is json."""

    seq: int
    kind: str
    content: str
    prev_hash: str
    hash: str

    @property
    def is_sound(self) -> bool:
        """Return whether its hash is that of what it holds."""
        return self.hash == _hash(self.seq, self.kind, self.content, self.prev_hash)

    @property
    def told(self) -> EventContent:
        """Return its content. Raises ValueError when that was not written by this module."""
        match json.loads(self.content):
            case {"at": str(at), "key": [*key], "rows": str(rows)}:
                return EventContent(at, tuple(key), rows)
        raise ValueError(f"event {self.seq} does not tell of any rows")


class Events:
    """Table event."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def list_events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        """Return the events after one of them, by its number, in order, at most `limit`."""
        rows = self._pool.rows(f"{_EVENT} where seq > ? order by seq limit ?", [after, limit])
        return [Event(*row) for row in rows]  # type: ignore[arg-type]

    def walk(self) -> Iterator[Event]:
        """Yield every event in order."""
        after = 0
        while page := self.list_events(after):
            yield from page
            after = page[-1].seq

    def last(self) -> Event | None:
        """Return the newest event, or None."""
        row = self._pool.row(f"{_EVENT} order by seq desc limit 1")
        return Event(*row) if row else None  # type: ignore[arg-type]

    def rows_digest(self, kind: str, key: Sequence[Key]) -> str:
        """Return the digest of the rows that an event of this kind and key stands for, as they are now.

        Raises UnsafeStore for a kind that is none.
        """
        if kind not in KINDS:
            raise UnsafeStore(f"the event kind '{kind}' is unknown to this release: upgrade skillopt-mcp")
        return _digest(self._pool.rows(ROWS[KINDS[kind]], list(key)))


def append(connection: Connection, kind: str, *key: Key, **facts: str | int | float | bool | None) -> None:
    """Record what has just been written within the caller's transaction: the rows of `key`, and facts beside them."""
    rows = connection.execute(ROWS[KINDS[kind]], key).fetchall()
    last = connection.execute("select seq, hash from event order by seq desc limit 1").fetchone()
    seq, prev_hash = (last[0] + 1, last[1]) if last else (1, "")
    content = canonical({**facts, "at": now(), "key": key, "rows": _digest(rows)})
    connection.execute(
        "insert into event(seq, kind, content, prev_hash, hash) values (?, ?, ?, ?, ?)",
        [seq, kind, content, prev_hash, _hash(seq, kind, content, prev_hash)],
    )


def now() -> str:
    """Return the time (UTC) as the store writes it."""
    return f"{datetime.now(UTC).isoformat(timespec='milliseconds')[:-6]}Z"


def _digest(rows: Sequence[Row]) -> str:
    return hashlib.sha256(canonical(rows).encode()).hexdigest()


def _hash(seq: int, kind: str, content: str, prev_hash: str) -> str:
    return hashlib.sha256(f"{prev_hash}\n{seq}\n{kind}\n{content}".encode()).hexdigest()


def canonical(value: object) -> str:
    """Return a value as JSON, the same text for the same value."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
