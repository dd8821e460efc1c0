"""Commands at rest: the programs that a person registered as judges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from pydantic import TypeAdapter
from pydantic_core import to_json

from skillopt_mcp.records.commands import Limits, RegisteredCommand
from skillopt_mcp.store.events import append
from skillopt_mcp.store.pool import Pool, Row

_COMMAND = "select name, argv, sha256, limits, reads, require_sandbox, created_at from command"
_TEXTS = TypeAdapter(tuple[str, ...])
_LIMITS = TypeAdapter(Limits)


class Commands:
    """Table command."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def register(self, command: RegisteredCommand) -> bool:
        """Store a command, in place of the one that had its name; return whether there was one. Its time is ignored."""
        limits, argv, reads = (to_json(each).decode() for each in (asdict(command.limits), command.argv, command.reads))
        values = [command.name, argv, command.sha256, limits, reads, int(command.require_sandbox)]
        with self._pool.write() as connection:
            replaced = connection.execute("delete from command where name = ?", [command.name]).rowcount
            connection.execute(
                "insert into command(name, argv, sha256, limits, reads, require_sandbox) values (?, ?, ?, ?, ?, ?)",
                values,
            )
            append(connection, "command_registered", command.name, replaced=bool(replaced))
        return bool(replaced)

    def remove(self, name: str) -> bool:
        """Forget a command; return whether there was one."""
        with self._pool.write() as connection:
            removed = bool(connection.execute("delete from command where name = ?", [name]).rowcount)
            if removed:
                append(connection, "command_removed", name)
        return removed

    def list_commands(self) -> list[RegisteredCommand]:
        """Return all commands by name."""
        return [_command(row) for row in self._pool.rows(f"{_COMMAND} order by name")]

    def named(self, names: Iterable[str]) -> dict[str, RegisteredCommand]:
        """Return those of the named commands that are registered, by name."""
        wanted = set(names)
        return {command.name: command for command in self.list_commands() if command.name in wanted}


def _command(row: Row) -> RegisteredCommand:
    name, argv, sha256, limits, reads, require_sandbox, created_at = row
    return RegisteredCommand(
        name=str(name),
        argv=_TEXTS.validate_json(str(argv)),
        sha256=str(sha256),
        limits=_LIMITS.validate_json(str(limits)),
        reads=_TEXTS.validate_json(str(reads)),
        require_sandbox=bool(require_sandbox),
        created_at=str(created_at),
    )
