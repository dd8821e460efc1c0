"""The driver: which SQLite is safe, where a store may lie, and what every failure says."""

import os
import resource
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from skillopt_mcp.core.errors import BadInput, StoreError, UnsafeStore
from skillopt_mcp.store import files
from skillopt_mcp.store.pool import Pool, explain_failure, is_safe_for_wal, sqlite

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:20 / /tmp rw - tmpfs tmpfs rw
24 22 0:21 / /home/ann rw - btrfs /dev/sdb rw
25 24 0:22 / /home/ann/nfs rw master:3 - nfs4 server:/export rw
26 24 0:23 / /home/ann/on\\040the\\134share rw - cifs //server/share rw
27 22 0:24 / /mnt/c rw - 9p drvfs rw
28 22 0:25 / /mnt/z rw - zfs pool/z rw
29 22 0:26 / /vm rw - virtiofs host rw
30 22 0:27 / /ssh rw - fuse.sshfs host: rw
31 22 0:28 / /ntfs rw - fuseblk /dev/sdc rw
32 22 0:29 / /twice rw - ext4 /dev/sdd rw
33 22 0:30 / /twice rw - nfs server:/twice rw
34 22 0:31 / /over rw - overlay overlay rw
35 22 0:32 / /smb rw - smb3 //server/b rw
"""


def mount(folder: Path, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    (folder / "mountinfo").write_text(table)
    monkeypatch.setattr(files, "MOUNT_TABLE", folder / "mountinfo")


def test_where_pysqlite3_cannot_be_loaded_pythons_own_driver_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pysqlite3", None)
    assert sqlite.__wrapped__().__name__ == "sqlite3"


@pytest.mark.parametrize(
    ("version", "is_safe"),
    [
        ((3, 7, 0), False),
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 44, 9), True),
        ((3, 45, 0), False),
        ((3, 45, 3), False),
        ((3, 50, 4), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 0), False),
        ((3, 51, 1), False),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 53, 4), True),
        ((4, 0, 0), True),
    ],
)
def test_only_a_sqlite_without_the_wal_reset_bug_is_safe_for_wal(version: tuple[int, ...], is_safe: bool) -> None:
    assert is_safe_for_wal(version) is is_safe


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/skillopt.db", "ext4"),
        ("/tmp/x/skillopt.db", "tmpfs"),
        ("/tmpfile/skillopt.db", "ext4"),
        ("/home/ann/skillopt.db", "btrfs"),
        ("/home/ann/nfs/skillopt.db", "nfs4"),
        ("/home/ann/nfs2/skillopt.db", "btrfs"),
        ("/home/ann/on the\\share/skillopt.db", "cifs"),
        ("/mnt/c/skillopt.db", "9p"),
        ("/mnt/z/skillopt.db", "zfs"),
        ("/vm/skillopt.db", "virtiofs"),
        ("/ssh/a/b/skillopt.db", "fuse.sshfs"),
        ("/ntfs/skillopt.db", "fuseblk"),
        ("/twice/skillopt.db", "nfs"),
        ("/over/skillopt.db", "overlay"),
        ("/smb/skillopt.db", "smb3"),
    ],
)
def test_the_deepest_mount_above_a_path_tells_its_file_system(
    path: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount(tmp_path, monkeypatch, MOUNTS)
    monkeypatch.setattr(os.path, "realpath", str)  # whatever is a link on this machine
    assert files.file_system(Path(path)) == kind
    is_trusted = kind not in {"nfs4", "cifs", "9p", "virtiofs", "fuse.sshfs", "nfs", "smb3"}
    with nullcontext() if is_trusted else pytest.raises(UnsafeStore):
        files.refuse_network_file_system(Path(path))


@pytest.mark.parametrize(
    "kind",
    [
        "nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "ncp", "afpfs", "davfs", "afs", "auristorfs",
        "ceph", "glusterfs", "gfs", "lustre", "beegfs", "gpfs", "mmfs", "panfs", "wekafs", "acfs", "cvfs",
        "9p", "v9fs", "drvfs", "virtiofs", "vboxsf", "prl_fs", "hgfs", "vmhgfs", "osxfs", "grpcfuse",
        "fuse.vmhgfs-fuse", "fuse.glusterfs", "fuse.ceph", "fuse.beegfs", "fuse.prl_fsd", "fuse.grpcfuse",
        "gfs2", "ocfs2", "orangefs", "pvfs2", "coda", "fuse", "fuse.sshfs", "fuse.rclone", "fuse.juicefs",
        "fuse.mount-s3", "fuse.gvfsd-fuse", "fuse.onedriver", "fuse.unknown",
        "virtiofs.virtiofs0", "fakeowner",
    ],
)  # fmt: skip
def test_a_file_system_that_is_not_known_to_be_local_is_not_trusted(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount(tmp_path, monkeypatch, f"1 0 0:1 / / rw - {kind} server rw\n")
    with pytest.raises(UnsafeStore):
        files.refuse_network_file_system(tmp_path)


def test_a_network_file_system_is_refused_by_name_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    table = f"1 0 0:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / {shared.resolve()} rw - nfs4 server:/ rw\n"
    mount(tmp_path, monkeypatch, table)
    with pytest.raises(UnsafeStore, match=r"network file system \('nfs4'\).*--store or SKILLOPT_STORE"):
        Pool(shared / "skillopt.db")
    assert not shared.exists()


def test_a_link_to_a_network_file_system_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local, shared = tmp_path / "local", tmp_path / "shared"
    for folder in (local, shared):
        folder.mkdir()
    table = f"1 0 0:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / {shared.resolve()} rw - nfs4 server:/ rw\n"
    (local / "skillopt.db").symlink_to(shared / "skillopt.db")
    mount(tmp_path, monkeypatch, table)
    with pytest.raises(UnsafeStore, match="nfs4"):
        Pool(local / "skillopt.db")
    assert list(shared.iterdir()) == []


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("insert into skill(name, path, live_version) values (null, '/s', '')", "failed: NOT NULL"),
        ("select unknown", "failed: no such column"),
        ("insert into version(skill_id, id, origin) values (9, 'x', 'recorded')", "failed: FOREIGN KEY"),
    ],
)
def test_a_failure_of_sqlite_is_a_store_error_that_names_the_file(pool: Pool, sql: str, message: str) -> None:
    with pytest.raises(StoreError, match=f"the store '{pool.path}' {message}"), pool.write() as connection:
        connection.execute(sql)


@pytest.mark.parametrize("value", ["lone \ud83d surrogate", 1 << 63])
def test_a_value_that_sqlite_cannot_hold_is_bad_input(pool: Pool, value: str | int) -> None:
    with pytest.raises(BadInput, match="a value cannot be stored"):
        pool.rows("select ?", [value])


def test_a_lock_held_too_long_is_a_store_error_that_says_to_try_again(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillopt_mcp.store.pool.BUSY_TIMEOUT_S", 0)
    other = Pool(pool.path)
    said = "was locked for 0 s: another process holds it; try again"
    with pool.write():
        with pytest.raises(StoreError, match=said), other.write():
            raise AssertionError("two writers at once")
        assert other.rows("select 1") == [(1,)]
    with other.write() as connection:
        connection.execute("select 1")
    other.close()


def refused(name: str, path: Path) -> str:
    """Return what is said of a failure of SQLite that has this name."""
    error = sqlite().OperationalError("unable")
    error.sqlite_errorname = name
    return str(explain_failure(error, path))


def test_a_store_that_cannot_be_written_where_it_lies_says_why_and_how_to_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "the store.db"
    for end in ("", "-shm"):
        path.with_name(path.name + end).touch()
    # The rights of a file do not bind every user that tests run as.
    for denied, why in (
        (tmp_path, f"you have no permission to write in '{tmp_path}'"),
        (path, f"you have no permission to read and write it (chmod 600 '{path}'*)"),
        (f"{path}-shm", f"you have no permission to read and write it (chmod 600 '{path}'*)"),
    ):
        monkeypatch.setattr(os, "access", lambda place, mode, denied=denied: str(place) != str(denied))
        said = refused("SQLITE_CANTOPEN", path)
        assert said.startswith(f"the store '{path}' cannot be used there, for {why}, and even to read it")
        assert said.endswith(f"copy it (cp -r '{path}'* FOLDER) and name the copy with --store")
    monkeypatch.setattr(os, "access", lambda place, mode: True)
    assert "cannot be opened" in refused("SQLITE_CANTOPEN", path)
    monkeypatch.setattr(os, "statvfs", lambda place: SimpleNamespace(f_flag=os.ST_RDONLY))
    for name in ("SQLITE_CANTOPEN", "SQLITE_READONLY_DIRECTORY"):
        assert f"for '{tmp_path}' lies on a read-only file system" in refused(name, path)


@pytest.mark.parametrize("name", ["SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE"])
def test_a_disk_without_room_is_reported_as_what_it_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda place: SimpleNamespace(f_bavail=3, f_frsize=4096))
    why = f"the disk of '{tmp_path}' is full: free some space, and go on: what was stored is kept"
    assert refused(name, tmp_path / "s.db").endswith(f"cannot be written, for {why}")


def test_a_limit_to_the_length_of_files_is_reported_as_what_it_is(pool: Pool) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        reported = r"no file may be longer than 200,000 bytes here: raise .*\(ulimit -f\)"
        with pytest.raises(StoreError, match=reported), pool.write() as connection:
            connection.execute("insert into event values (1, 'x', hex(zeroblob(400000)), '', '', '')")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert pool.rows("select * from event") == []
