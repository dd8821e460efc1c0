"""Opening a store: made once by the first process, private, and refused untouched when it is not ours to open."""

import hashlib
import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import platformdirs
import pytest
from children import SKILL, open_each, write_once

from skillopt_mcp.core.errors import StoreError, UnsafeStore
from skillopt_mcp.store.files import store_path
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import APPLICATION_ID, Pool, connect, has_schema, schema_id
from tests.processes import Spawn, start, together

ROUNDS = 8


def fingerprint(path: Path) -> dict[str, str]:
    """Return the sha256 of the store's files. Only for stores that this process has not open."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in path.parent.glob(f"{path.name}*")}


def run_sql(path: Path, *statements: str) -> None:
    connection = connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def schema(pool: Pool) -> list[tuple[object, ...]]:
    return list(pool.rows("select type, name, sql from sqlite_schema order by name"))


def test_sixteen_processes_open_one_new_store_at_once(tmp_path: Path, spawn: Spawn) -> None:
    paths = [tmp_path / f"{n}.db" for n in range(ROUNDS)]
    children = [spawn(open_each, paths) for _ in range(16)]
    for _ in range(ROUNDS):
        start(children)
        assert [child.receive() for child in children] == [[]] * 16
    for child in children:
        child.rest()
    alone = Pool(tmp_path / "alone.db")
    for path in paths:
        pool = Pool(path)
        assert schema(pool) == schema(alone)
        assert pool.row("pragma user_version") == (schema_id(),)
        assert pool.row("pragma application_id") == (APPLICATION_ID,)
        assert pool.row("pragma journal_mode") == ("wal",)
        assert pool.row("pragma integrity_check") == ("ok",)
        pool.close()
    alone.close()


def test_a_store_that_another_process_makes_during_the_look_at_it_is_not_refused(path: Path) -> None:
    class Interrupted:
        """A connection to an empty file, which another process makes a store after each statement."""

        def __init__(self) -> None:
            self.real = connect(path)

        def execute(self, sql: str) -> Any:
            rows = self.real.execute(sql).fetchall()
            Pool(path).close()
            return SimpleNamespace(fetchone=lambda: rows[0])

    path.parent.mkdir(parents=True, exist_ok=True)
    connection = Interrupted()
    assert not has_schema(connection, path)  # type: ignore[arg-type]
    assert has_schema(connection, path)  # type: ignore[arg-type]
    connection.real.close()


def test_folder_and_files_are_for_the_user_alone(path: Path) -> None:
    umask = os.umask(0)
    try:
        with Store(path) as store:
            store.skills.track("s", "/s", SKILL)
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(umask)
    assert modes == dict.fromkeys(["skillopt.db", "skillopt.db-wal", "skillopt.db-shm", "skillopt.db.mark"], 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_an_empty_file_where_a_store_was_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillopt_mcp.store.files._FILLED_S", 0)
    Store(path).close()
    path.write_bytes(b"")
    path.with_name("skillopt.db.locks").mkdir()
    with pytest.raises(StoreError, match=f"'{path}' is empty, and no store of skillopt-mcp .*restore FILE"):
        Store(path)
    assert path.read_bytes() == b""
    path.unlink()
    Store(path).close()


@pytest.mark.parametrize("version", [31, 0x7FFFFFFF])
def test_a_store_of_another_version_is_refused_with_every_byte_as_it_was(path: Path, version: int) -> None:
    Store(path).close()
    run_sql(path, f"pragma user_version = {version}")
    before = fingerprint(path)
    with pytest.raises(StoreError, match=f"'{path}' was made by another version of skillopt-mcp; move it aside"):
        Store(path)
    assert fingerprint(path) == before


@pytest.mark.parametrize(
    "statement", ["create table theirs(x)", "pragma application_id = 7", "pragma user_version = 1"]
)
def test_a_database_of_another_program_is_refused_with_every_byte_as_it_was(path: Path, statement: str) -> None:
    path.parent.mkdir()
    run_sql(path, statement)
    before = fingerprint(path)
    with pytest.raises(StoreError, match=f"'{path}' is a database of another program"):
        Store(path)
    assert fingerprint(path) == before


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux capabilities")
@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o500, None), (0o500, 0o600), (0o500, 0o400), (0o000, 0o600)])
def test_a_folder_that_cannot_be_written_gives_one_error(
    path: Path, folder_mode: int, file_mode: int | None, spawn: Spawn
) -> None:
    path.parent.mkdir()
    if file_mode is not None:
        Store(path).close()
        path.chmod(file_mode)
    path.parent.chmod(folder_mode)
    try:
        [[said]] = together([spawn(write_once, path, bound=True)])
    finally:
        path.parent.chmod(0o700)
    assert isinstance(said, str)
    assert said.startswith("StoreError: the store")
    assert f"'{path}'" in said
    assert len(said.splitlines()) == 1


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux capabilities")
def test_a_read_only_store_is_refused_on_the_first_write(path: Path, spawn: Spawn) -> None:
    Store(path).close()
    path.chmod(0o400)
    [[said]] = together([spawn(write_once, path, bound=True)])
    assert said == f"StoreError: the store '{path}' is read-only: make it writable, or name another with --store"


def test_a_vulnerable_sqlite_makes_a_store_with_a_rollback_journal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillopt_mcp.store.pool.sqlite_version", lambda: (3, 40, 1))
    pool = Pool(path)
    assert pool.row("pragma journal_mode") == ("delete",)
    with pool.write() as connection:
        connection.execute("insert into skill_root(path) values ('/kept')")
    monkeypatch.undo()
    safe = Pool(path)
    assert safe.rows("select path from skill_root") == [("/kept",)]
    assert safe.row("pragma journal_mode") == ("delete",), "the vulnerable process still has it open"
    safe.close()
    pool.close()


def test_a_vulnerable_sqlite_refuses_a_store_in_wal_mode_untouched(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(path).close()
    before = fingerprint(path)
    monkeypatch.setattr("skillopt_mcp.store.pool.sqlite_version", lambda: (3, 40, 1))
    with pytest.raises(UnsafeStore, match=f"'{path}' is in WAL mode, and this Python's SQLite 3.40.1 can corrupt it"):
        Store(path)
    assert fingerprint(path) == before


def test_the_store_lies_where_it_is_said_or_in_the_users_data_folder(tmp_path: Path) -> None:
    environ = {"SKILLOPT_STORE": str(tmp_path / "named.db")}
    assert store_path(str(tmp_path / "given.db"), environ) == tmp_path / "given.db"
    assert store_path(None, environ) == tmp_path / "named.db"
    assert store_path(None, {}) == platformdirs.user_data_path("skillopt-mcp") / "skillopt.db"
    assert store_path("here.db", {}) == Path.cwd() / "here.db"
    assert store_path("~/here.db", {}) == Path.home() / "here.db"
    assert store_path("~no-such-user/here.db", {}) == Path.cwd() / "~no-such-user/here.db"


@pytest.mark.parametrize("umask", [0o777, 0o077, 0o022, 0])
def test_a_new_store_is_the_users_alone_and_open_to_them_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "above" / "folder" / "store.db"
    before = os.umask(umask)
    try:
        Store(path).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o777 & ~umask | 0o700
