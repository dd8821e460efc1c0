"""Lost rows: a log that somebody removes stops who uses it, and `verify` notices what is gone, until a restore."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from children import SKILL, attempt, record_on_cue, write_once

from skillopt_mcp.admin.backup import back_up, restore_store
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.core.errors import Refused, StoreError
from skillopt_mcp.store import files
from skillopt_mcp.store.files import make_private
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from tests.processes import Spawn, together


def record(store: Store, n: int, session: str = "s") -> None:
    skill = store.skills.track("s", "/s", SKILL)
    for position in range(n):
        store.trajectories.add_trajectory(skill.id, skill.live_version, attempt(session, position))


def killed(store: Store, folder: Path) -> Path:
    """Return what is left of a store whose process was killed, and whose log somebody removed."""
    folder.mkdir()
    # Not by this process: closing the file would give up the locks that it has on it.
    subprocess.run(["cp", store.path, f"{store.path}.mark", folder], check=True)
    return folder / store.path.name


def codes(path: Path) -> list[str]:
    return [each.code for each in verify_store(path).problems]


def n_attempts(path: Path) -> int:
    with Store(path) as store:
        return store.table(lambda pool: pool).number("select count(*) from trajectory")


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_removed_log_stops_who_uses_it_and_its_rows_come_into_the_file(store: Store, is_replaced: bool) -> None:
    record(store, 20)
    log = Path(f"{store.path}-wal")
    log.unlink()
    if is_replaced:
        log.touch()
    for _ in range(2):
        with pytest.raises(StoreError, match="-wal' was removed or replaced while this ran: nothing more is written"):
            record(store, 1, "later")
    store.close()
    assert (n_attempts(store.path), codes(store.path)) == (20, [])


@pytest.mark.parametrize("by", ["nobody else", "another program", "another program, in the end"])
def test_an_index_that_is_removed_under_live_processes_costs_no_row(path: Path, spawn: Spawn, by: str) -> None:
    others = "import pysqlite3, os, sys; c = pysqlite3.connect(sys.argv[1], isolation_level=None)\n"
    others += "c.execute('insert into skill_root(path) values (1)'); sys.stdin.read(1); os._exit(0)"
    live = [spawn(record_on_cue, path, session, 3) for session in ("a", "b")]

    def on_cue() -> list[object]:
        assert [child.receive() for child in live] == ["ready", "ready"]
        for child in live:
            child.resume()
        return [child.receive() for child in live]

    stored = [on_cue(), on_cue()]
    Path(f"{path}-shm").unlink()
    foreign = None
    if by == "another program":
        subprocess.run([sys.executable, "-c", others, path], check=True, stdin=subprocess.DEVNULL)
    else:
        # It would make an index of its own, which those that are alive do not read.
        late = spawn(record_on_cue, path, "late", 1)
        assert "-shm' was removed or replaced while the store was in use" in str(late.receive())
    refused = on_cue()
    assert all("-shm' was removed or replaced" in str(each) for each in refused), refused
    if by.endswith("in the end"):
        foreign = subprocess.Popen([sys.executable, "-c", others, path], stdin=subprocess.PIPE)
        while not Path(f"{path}-shm").exists():
            pass
    for child in live:
        child.rest()
    if foreign:
        foreign.communicate(b"x")
    with Store(path) as store:
        record(store, 1, "after")
        pool = store.table(lambda pool: pool)
        assert {id for ids in stored for id in ids} <= {id for [id] in pool.rows("select id from trajectory")}
        assert pool.number("select count(*) from skill_root") == (by != "nobody else")
    assert set(codes(path)) <= {"no_event"}  # of the other program's row


def test_who_comes_before_the_rows_are_back_learns_what_is_wrong(store: Store, spawn: Spawn) -> None:
    record(store, 3)
    Path(f"{store.path}-wal").unlink()
    [[found]] = together([spawn(write_once, store.path)])
    assert "if its -wal file was removed, end each process that uses the store" in str(found)
    store.close()
    assert n_attempts(store.path) == 3


def test_rows_that_went_with_a_log_are_noticed_also_after_others_took_their_place(store: Store, tmp_path: Path) -> None:
    record(store, 20)
    assert store.compact(1000)
    record(store, 120, "later")
    left = killed(store, tmp_path / "killed")
    assert codes(left) == ["gone"]
    with Store(left) as again:
        record(again, 200, "other")
    assert n_attempts(left) == 220
    assert codes(left) == ["gone"]
    with pytest.raises(Refused, match="rows are gone"):
        back_up(left, tmp_path / "backup.db")
    assert codes(store.path) == []


def test_a_store_all_of_whose_rows_were_in_the_log_does_not_begin_anew(store: Store, tmp_path: Path) -> None:
    record(store, 3)
    with pytest.raises(StoreError, match="is empty, and no store of skillopt-mcp"):
        verify_store(killed(store, tmp_path / "killed"))


def test_a_restore_and_a_new_store_reset_what_is_claimed(store: Store, path: Path, tmp_path: Path) -> None:
    record(store, 3)
    backup = tmp_path / "backup.db"
    back_up(path, backup)
    for root in ("/a", "/b"):
        store.permissions.add_root(root)
    store.close()
    restore_store(path, backup)
    assert codes(path) == []
    with Store(path) as again:
        again.permissions.add_root("/c")
    assert codes(path) == []
    path.unlink()
    make_private(path)
    assert files.read_mark(path) is None


def test_an_event_that_was_removed_from_the_end_is_noticed(store: Store) -> None:
    store.permissions.add_root("/a")
    store.permissions.add_root("/b")
    pool = Pool(store.path)
    with pool.write() as connection:
        trigger = "event_is_never_removed"
        [rule] = connection.execute("select sql from sqlite_schema where name = ?", [trigger]).fetchone()
        connection.execute(f"drop trigger {trigger}")
        connection.execute("delete from event where seq = 2")
        connection.execute("delete from skill_root where path = '/b'")
        connection.execute(rule)
    pool.close()
    files.write_mark(store.path, files.Mark(2, "", 2, 2, "0" * 64))
    assert codes(store.path) == ["head"]


def test_after_a_power_cut_only_what_was_synced_is_claimed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillopt_mcp.store.pool._COUNT_EVERY_S", 0.0)
    record(store, 1)
    mark = files.read_mark(store.path)
    assert mark
    assert mark.n > mark.n_synced == mark.n - 1
    assert mark.n_claimed == mark.n
    monkeypatch.setattr(files, "boot_id", lambda: "another")
    assert mark.n_claimed == mark.n_synced


def test_the_mark_is_the_users_alone_and_one_that_cannot_be_read_claims_nothing(store: Store) -> None:
    record(store, 1)
    mark = Path(f"{store.path}.mark")
    assert mark.stat().st_mode & 0o777 == 0o600
    mark.write_bytes(b"[1")
    assert (files.read_mark(store.path), codes(store.path)) == (None, [])
    mark.unlink()
    os.symlink("/nowhere", mark)
    record(store, 1, "later")
    assert codes(store.path) == []
