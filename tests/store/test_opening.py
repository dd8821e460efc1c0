"""Opening a store: made once whoever comes first, private, and refused untouched when it is not ours to open."""

import hashlib
import os
import stat
from pathlib import Path

import platformdirs
import pytest
from children import SKILL, open_each, write_once

from skillopt_mcp.errors import NewerStore, StoreError, UnsafeStore
from skillopt_mcp.store import driver
from skillopt_mcp.store.locations import store_path
from skillopt_mcp.store.migrating import APPLICATION_ID, migration_files
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from tests.processes import Spawn, start, together

ROUNDS = 8


def fingerprint(path: Path) -> dict[str, str]:
    """Return the sha256 of the store's files. Only for stores that this process has not open."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in path.parent.glob(f"{path.name}*")}


def run_sql(path: Path, *statements: str) -> None:
    connection = driver.connect(path)
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
        assert [child.hear() for child in children] == [[]] * 16
    for child in children:
        child.rest()
    alone = Pool(tmp_path / "alone.db")
    for path in paths:
        pool = Pool(path)
        assert schema(pool) == schema(alone)
        assert pool.row("pragma user_version") == (len(migration_files()),)
        assert pool.row("pragma application_id") == (APPLICATION_ID,)
        assert pool.row("pragma journal_mode") == ("wal",)
        assert pool.row("pragma integrity_check") == ("ok",)
        pool.close()
    alone.close()


def test_folder_and_files_are_for_the_user_alone(path: Path) -> None:
    umask = os.umask(0)
    try:
        with Store(path) as store:
            store.skills.track("s", "/s", SKILL)
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(umask)
    assert modes == {"skillopt.db": 0o600, "skillopt.db-wal": 0o600, "skillopt.db-shm": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_an_older_store_migrates_and_keeps_what_it_holds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = migration_files()
    monkeypatch.setattr("skillopt_mcp.store.migrating.migration_files", lambda: files[:1])
    older = Pool(path)
    with older.write() as connection:
        connection.execute("insert into skill_root(path) values ('/kept')")
    older.close()
    monkeypatch.undo()
    pool = Pool(path)
    assert pool.rows("select path from skill_root") == [("/kept",)]
    assert pool.row("pragma user_version") == (len(files),)
    assert pool.rows("select * from trajectory") == []
    pool.close()


def older_store(path: Path, monkeypatch: pytest.MonkeyPatch, schema: int = 22) -> None:
    """Make a store as a release made it that knew so many migrations."""
    files = migration_files()[:schema]
    with monkeypatch.context() as older:
        older.setattr("skillopt_mcp.store.migrating.migration_files", lambda: files)
        pool = Pool(path)
    with pool.write() as connection:
        connection.execute("insert into skill_root(path) values ('/kept')")
    pool.close()


def schema_of(path: Path) -> object:
    connection = driver.connect(path)
    try:
        return connection.execute("pragma user_version").fetchone()[0]
    finally:
        connection.close()


def test_an_older_store_stays_beside_the_migrated_one_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older_store(path, monkeypatch)
    pool = Pool(path)
    kept = path.with_name("skillopt.db.schema-22")
    assert f"it is kept as '{kept}' (the way back: install the older release again" in pool.migrated
    pool.close()
    assert (schema_of(kept), stat.S_IMODE(kept.stat().st_mode)) == (22, 0o600)
    before = fingerprint(kept)
    path.write_bytes(kept.read_bytes())
    run_sql(path, "insert into skill_root(path) values ('/later')")
    Pool(path).close()
    assert fingerprint(kept)[kept.name] == before[kept.name]
    assert schema_of(kept.with_name(f"{kept.name}-2")) == 22
    assert [file.name for file in path.parent.glob(".*")] == []


def test_a_migration_that_fails_and_is_tried_again_keeps_one_copy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older_store(path, monkeypatch)
    with monkeypatch.context() as broken:
        broken.setattr("skillopt_mcp.store.migrating._apply", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Pool(path)
    assert schema_of(path) == 22
    Pool(path).close()
    assert {file.name for file in path.parent.iterdir()} == {"skillopt.db", "skillopt.db.schema-22"}


def test_what_a_process_that_was_killed_left_of_its_copy_goes_with_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older_store(path, monkeypatch)
    with monkeypatch.context() as killed:
        killed.setattr("skillopt_mcp.store.keeping.copy_into", lambda *_: 1 / 0)
        killed.setattr("skillopt_mcp.store.keeping.remove_store", lambda _: None)
        with pytest.raises(ZeroDivisionError):
            Pool(path)
    [left] = path.parent.glob(".*")
    left.write_bytes(b"a part")
    left.with_name(f"{left.name}-journal").write_bytes(b"a part")
    Pool(path).close()
    assert {file.name for file in path.parent.iterdir()} == {"skillopt.db", "skillopt.db.schema-22"}
    assert schema_of(path.with_name("skillopt.db.schema-22")) == 22


def test_sixteen_processes_that_migrate_at_once_keep_one_copy(
    path: Path, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    older_store(path, monkeypatch)
    children = [spawn(open_each, [path]) for _ in range(16)]
    start(children)
    assert [child.hear() for child in children] == [[]] * 16
    for child in children:
        child.rest()
    # Two that close at the same moment both leave the log to the other; who closes alone takes it along.
    Pool(path).close()
    assert {file.name for file in path.parent.iterdir()} == {"skillopt.db", "skillopt.db.schema-22"}


def test_a_store_that_cannot_be_kept_as_it_was_stays_what_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older_store(path, monkeypatch)

    def full(*_: object) -> None:
        raise driver.explained(driver.sqlite().OperationalError("database or disk is full"), path.with_name("copy"))

    monkeypatch.setattr("skillopt_mcp.store.keeping.copy_into", full)
    told = r"a copy of it as it is comes before .* is full: free some space.*the older release can still use it"
    with pytest.raises(StoreError, match=told):
        Pool(path)
    assert schema_of(path) == 22
    assert [file.name for file in path.parent.iterdir()] == ["skillopt.db"]


def test_an_empty_file_where_a_store_was_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillopt_mcp.store.pool._FILLED_S", 0)
    Store(path).close()
    path.write_bytes(b"")
    path.with_name("skillopt.db.locks").mkdir()
    with pytest.raises(StoreError, match=f"'{path}' is empty, and no store of skillopt-mcp .*restore FILE"):
        Store(path)
    assert path.read_bytes() == b""
    path.unlink()
    Store(path).close()


def test_a_newer_store_is_refused_with_every_byte_as_it_was(path: Path) -> None:
    Store(path).close()
    run_sql(path, "pragma user_version = 99")
    before = fingerprint(path)
    with pytest.raises(NewerStore, match=f"'{path}' has schema 99, this release knows .*upgrade skillopt-mcp"):
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


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with Store(path) as store:
        assert store.skills.list_skills() == []


@pytest.mark.parametrize("content", [b"no database, but as long as one\n" * 100, b"SQLite format 3\0"])
def test_a_file_that_is_no_database_is_refused_with_every_byte_as_it_was(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(UnsafeStore, match=f"'{path}' is damaged or no store: nothing was changed"):
        Store(path)
    assert path.read_bytes() == content


def test_a_folder_is_refused_as_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"'{tmp_path}' is a folder: name a file with --store"):
        Store(tmp_path)


@pytest.mark.parametrize("place", ["/dev/full", "/proc/skillopt.db", "/proc/self/x/s.db", "/dev/null/skillopt.db"])
def test_a_place_that_holds_no_files_is_refused_by_name(place: str) -> None:
    with pytest.raises(StoreError, match=f"'{place}'"):
        Store(Path(place))


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
    monkeypatch.setattr(driver, "sqlite_version", lambda: (3, 40, 1))
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
    monkeypatch.setattr(driver, "sqlite_version", lambda: (3, 40, 1))
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
    assert store_path("~nobody-of-this-name/here.db", {}) == Path.cwd() / "~nobody-of-this-name/here.db"


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
