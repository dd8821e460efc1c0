"""Arrivals at rest: what hosts load of which text, and the commands that a person let run while a text is loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from skillopt_mcp.core.calls import Arrival
from skillopt_mcp.store.events import append
from skillopt_mcp.store.pool import Pool


class Load(NamedTuple):
    """One text in one host: the fingerprint, the digest of the files, the folder ("/" before it: by prompt)."""

    backend: str
    version: str
    folder: str


class Arrivals:
    """Tables arrival and seen_command."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._checked = set[Load]()

    def get(self, load: Load) -> Arrival | None:
        """What came of a load; what could not be checked is asked once a process."""
        row = self._pool.row(
            "select state, words from arrival where backend = ? and version = ? and folder = ?", [*load]
        )
        found = Arrival(*row) if row else None  # type: ignore[arg-type]
        return None if found and found.state == "unchecked" and load not in self._checked else found

    def add(self, load: Load, found: Arrival) -> None:
        """Keep what came of a load."""
        self._checked.add(load)
        with self._pool.write() as connection:
            connection.execute(
                "insert or replace into arrival(backend, version, folder, state, words) values (?, ?, ?, ?, ?)",
                [*load, *found],
            )

    def list_of(self, backend: str, version: str) -> list[Arrival]:
        """What came of a text in a backend, by whatever way it was opened."""
        sql = "select state, words from arrival where backend = ? and version = ? order by folder"
        return [Arrival(*row) for row in self._pool.rows(sql, [backend, version])]  # type: ignore[arg-type]

    def add_seen(self, skill_id: int, commands: Iterable[str], login: str) -> None:
        """Keep that a person has seen commands, and lets a host run them while it loads the skill."""
        with self._pool.write() as connection:
            for command in commands:
                key = hashlib.sha256(f"{skill_id}/{command}".encode()).hexdigest()
                sql = (
                    "insert into seen_command(key, skill_id, command, login) values (?, ?, ?, ?) on conflict do nothing"
                )
                if connection.execute(sql, [key, skill_id, command, login]).rowcount:
                    append(connection, "command_seen", key)

    def list_seen(self, skill_id: int) -> set[str]:
        """The commands of a skill that a person has seen."""
        return {
            str(row[0]) for row in self._pool.rows("select command from seen_command where skill_id = ?", [skill_id])
        }
