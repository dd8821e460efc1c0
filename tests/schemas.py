"""Schemas: a new store's tables laid down at once, where running every migration took a third of a test's time."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from skillopt_mcp.store import driver, migrating
from skillopt_mcp.store.driver import Connection

apply_migrations = migrating._apply
_APPLIED = "_sqlite_migrations"


def lay_down(connection: Connection, files: list[Path]) -> None:
    """Do what the migrations do to an empty store: the same tables, indices and triggers, in the same order."""
    if connection.execute("select count(*) from sqlite_schema").fetchone()[0]:
        apply_migrations(connection, files)
        return
    statements, applied = _result(tuple(files))
    for statement in statements:
        connection.execute(statement)
    connection.executemany(f"insert into {_APPLIED} values ({', '.join('?' * len(applied[0]))})", applied)


@cache
def _result(files: tuple[Path, ...]) -> tuple[list[str], list[tuple[object, ...]]]:
    """Return the statements that make what the migrations end with, and the rows that say that they were run."""
    connection = driver.connect(Path(":memory:"))
    try:
        apply_migrations(connection, list(files))
        made = connection.execute("select sql from sqlite_schema where sql is not null order by rowid").fetchall()
        return [sql for (sql,) in made], connection.execute(f"select * from {_APPLIED}").fetchall()
    finally:
        connection.close()
