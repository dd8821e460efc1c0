"""Permissions at rest: where a promotion may write, and which skills it may without asking."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.events import append
from skillopt_mcp.store.pool import Pool


@dataclass(frozen=True, slots=True)
class Permission:
    """A standing permission: who gave it, and whether evidence from a simulation is enough, or a host's own."""

    granted_by: str
    simulated: bool
    host_run: bool = False


class Permissions:
    """Tables skill_root, permission."""

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

    def grant(self, skill_id: int, granted_by: str, *, simulated: bool = False, host_run: bool = False) -> None:
        """Keep a person's standing permission to promote this skill's clean, accepted candidates.

        Only with `simulated` does it cover verdicts that rest on a simulation, and only with `host_run` those that a
        host's own agents judged, or made in a session that had seen the tasks.
        """
        with self._pool.write() as connection:
            connection.execute(
                "insert or replace into permission(skill_id, granted_by, simulated, host_run) values (?, ?, ?, ?)",
                [skill_id, granted_by, int(simulated), int(host_run)],
            )
            append(connection, "permission_set", skill_id, by=granted_by, simulated=simulated, host_run=host_run)

    def revoke(self, skill_id: int) -> None:
        """Take the standing permission back."""
        with self._pool.write() as connection:
            withdraw(connection, skill_id)

    def get(self, skill_id: int) -> Permission | None:
        """Return the standing permission, or None."""
        row = self._pool.row("select granted_by, simulated, host_run from permission where skill_id = ?", [skill_id])
        return Permission(str(row[0]), bool(row[1]), bool(row[2])) if row else None


def is_granted(connection: Connection, skill_id: int, permission: Permission) -> bool:
    """Return, within the caller's transaction, whether a standing permission still stands as it was given."""
    sql = "select 1 from permission where skill_id = ? and granted_by = ? and simulated = ? and host_run = ?"
    values = [skill_id, permission.granted_by, int(permission.simulated), int(permission.host_run)]
    return connection.execute(sql, values).fetchone() is not None


def withdraw(connection: Connection, skill_id: int) -> None:
    """Take a standing permission back within the caller's transaction."""
    if connection.execute("delete from permission where skill_id = ?", [skill_id]).rowcount:
        append(connection, "permission_withdrawn", skill_id)
