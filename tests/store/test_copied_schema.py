from pathlib import Path

from skillopt_mcp.store import driver, migrating
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.migrating import migration_files
from tests.schemas import migrate


def everything_in(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    """Return what the schema holds, in its order, and the rows of every table; when they were migrated aside."""
    found = {"": connection.execute("select type, name, tbl_name, sql from sqlite_schema order by rowid").fetchall()}
    for kind, name, _, _ in found[""]:
        if kind == "table":
            columns = [row[1] for row in connection.execute(f"pragma table_info({name})") if row[1] != "applied_at"]
            found[str(name)] = connection.execute(f"select {', '.join(columns)} from {name}").fetchall()
    return found


def test_a_copied_store_is_the_one_that_the_migrations_make(tmp_path: Path) -> None:
    migrated, copied = (driver.connect(tmp_path / name) for name in ("migrated", "copied"))
    for make, connection, name in ((migrating.migrate, migrated, "migrated"), (migrate, copied, "copied")):
        assert make(connection, tmp_path / name) == ""
    for pragma in ("user_version", "application_id", "journal_mode", "page_size", "auto_vacuum", "encoding"):
        [of_migrated, of_copied] = (each.execute(f"pragma {pragma}").fetchone() for each in (migrated, copied))
        assert of_copied == of_migrated, pragma
    assert everything_in(copied) == everything_in(migrated)
    assert len(everything_in(copied)["_sqlite_migrations"]) == len(migration_files())
    migrated.close()
    copied.close()
