"""Permissions at rest: where a promotion may write, what it may without asking, and which backends agents use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from skillopt_mcp.store.events import append
from skillopt_mcp.store.pool import Connection, Pool


@dataclass(frozen=True, slots=True)
class Permission:
    """A standing permission: who gave it, and whether evidence from a simulation is enough."""

    granted_by: str
    simulated: bool = False


class Permissions:
    """Tables skill_root, permission, remembered_backend, unattended_work."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add_root(self, path: str) -> None:
        """Register a skill root that a person named; it is already resolved."""
        with self._pool.write() as connection:
            cursor = connection.execute("insert into skill_root(path) values (?) on conflict do nothing", [path])
            if cursor.rowcount:
                append(connection, "root_added", path)

    def list_roots(self) -> list[str]:
        """Return the registered skill roots."""
        return [str(row[0]) for row in self._pool.rows("select path from skill_root order by path")]

    def set_permission(self, skill_id: int, permission: Permission | None) -> None:
        """Keep a person's standing permission to promote this skill's candidates that are better, without findings.

        None takes it back.
        """
        with self._pool.write() as connection:
            if permission is None:
                withdraw(connection, skill_id)
                return
            connection.execute(
                "insert or replace into permission(skill_id, granted_by, simulated) values (?, ?, ?)",
                [skill_id, permission.granted_by, int(permission.simulated)],
            )
            append(connection, "permission_set", skill_id)

    def get(self, skill_id: int) -> Permission | None:
        """Return the standing permission, or None."""
        row = self._pool.row("select granted_by, simulated from permission where skill_id = ?", [skill_id])
        return Permission(str(row[0]), bool(row[1])) if row else None

    def remember_backend(self, parts: Mapping[str, str], spec: str, granted_by: str) -> None:
        """Keep that a person lets agents use what leads to these parts."""
        key = json.dumps(parts, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        with self._pool.write() as connection:
            sql = "insert or replace into remembered_backend(parts, spec, granted_by) values (?, ?, ?)"
            connection.execute(sql, [key, spec, granted_by])
            append(connection, "backend_remembered", key)

    def list_backends(self) -> list[dict[str, str]]:
        """The parts of each remembered backend."""
        rows = self._pool.rows("select parts from remembered_backend order by created_at, parts")
        return [json.loads(str(row[0])) for row in rows]

    def note_unattended(self, scope: str, *, remembered: bool) -> None:
        """Keep that a script works on a run or a test; who answers is remembered only if they were each time."""
        with self._pool.write() as connection:
            connection.execute(
                "insert into unattended_work(scope, remembered) values (?, ?)"
                " on conflict do update set remembered = min(remembered, excluded.remembered)",
                [scope, int(remembered)],
            )

    def find_unattended(self, scope: str) -> bool | None:
        """Whether all who answered a script's run or test were remembered; None where no script worked on it."""
        row = self._pool.row("select remembered from unattended_work where scope = ?", [scope])
        return bool(row[0]) if row else None


def withdraw(connection: Connection, skill_id: int) -> None:
    """Take a standing permission back within the caller's transaction."""
    if connection.execute("delete from permission where skill_id = ?", [skill_id]).rowcount:
        append(connection, "permission_withdrawn", skill_id)
