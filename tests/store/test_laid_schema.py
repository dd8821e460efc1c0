from pathlib import Path

from skillopt_mcp.store import driver
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.migrating import migration_files
from tests.schemas import apply_migrations, lay_down


def everything_in(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    """Return what the schema holds, in its order, and the rows of every table; when they were migrated aside."""
    found = {"": connection.execute("select type, name, tbl_name, sql from sqlite_schema order by rowid").fetchall()}
    for kind, name, _, _ in found[""]:
        if kind == "table":
            columns = [row[1] for row in connection.execute(f"pragma table_info({name})") if row[1] != "applied_at"]
            found[str(name)] = connection.execute(f"select {', '.join(columns)} from {name}").fetchall()
    return found


def test_a_store_of_a_test_has_the_schema_and_the_rows_that_the_migrations_make() -> None:
    migrated, laid = driver.connect(Path(":memory:")), driver.connect(Path(":memory:"))
    apply_migrations(migrated, migration_files())
    lay_down(laid, migration_files())
    assert everything_in(laid) == everything_in(migrated)
    assert len(everything_in(laid)["_sqlite_migrations"]) == len(migration_files())
    lay_down(laid, migration_files())
    assert everything_in(laid) == everything_in(migrated)
    migrated.close()
    laid.close()
