"""Files: where the store is, on which file systems, how its files are made private and removed, and those next to it.

Its mark is a small file that says how many commits the store has had, so that `verify` notices when rows are gone. A
commit counts itself in table mark, and writes the count into the file afterwards: the file may claim less than the
store has, never more. Where it does claim more, rows are gone; then both stand still until a restore.

Its owners say who may send a claimed call: each is a lock that dies with its process (no clock, no process ids).
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

import platformdirs

from skillopt_mcp.core.errors import NotFound, StoreError, UnsafeStore

MARK = ".mark"
_BYTES = 256
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
ENVIRONMENT = "SKILLOPT_STORE"
SIDE_FILES = ("-wal", "-shm", "-journal")
_FILLED_S = 2.0
_LEFT = (".salt", ".locks", MARK)
_OCTAL = re.compile(r"\\([0-7]{3})")
MOUNT_TABLE = Path("/proc/self/mountinfo")
NETWORK_FILE_SYSTEMS = frozenset(  # as the mount table spells them
    [
        # Of servers.
        "nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "ncp", "afpfs", "davfs", "afs", "auristorfs",
        "coda",
        # Of clusters.
        "ceph", "glusterfs", "gfs", "gfs2", "lustre", "ocfs2", "orangefs", "pvfs2", "beegfs", "gpfs", "mmfs", "panfs",
        "wekafs", "acfs", "cvfs",
        # Of the machine that a virtual one runs on.
        "9p", "v9fs", "drvfs", "virtiofs", "vboxsf", "prl_fs", "hgfs", "vmhgfs", "osxfs", "grpcfuse",
        "fakeowner",  # of Docker Desktop, over a folder of the machine that it runs on
    ]
)  # fmt: skip
# Of what another program serves, those known to lie over local disks; "fuseblk" is a local disk itself.
_LOCAL_FUSE = frozenset(
    [
        "gocryptfs", "encfs", "cryfs", "securefs", "mergerfs", "bindfs", "unionfs", "unionfs-fuse", "fuse-overlayfs",
        "portal", "lxcfs", "ntfs-3g", "exfat", "fuse2fs",
    ]
)  # fmt: skip


def store_path(given: str | None, environ: Mapping[str, str]) -> Path:
    """Return the store's file: `given`, else $SKILLOPT_STORE, else in the user's data folder.

    Links are resolved: locks and salt lie next to the file, and have to be the same by whatever path it is named.
    """
    named = given or environ.get(ENVIRONMENT)
    path = Path(os.path.expanduser(named)) if named else platformdirs.user_data_path("skillopt-mcp") / "skillopt.db"
    return Path(os.path.realpath(path))


def check_store(path: Path) -> None:
    """Raise NotFound when there is no store, StoreError when its file is empty: opening it would fill it."""
    if not path.is_file():
        raise NotFound(f"there is no store at '{path}': name one with --store")
    if not path.stat().st_size:
        raise is_empty(path)


def is_empty(path: Path) -> StoreError:
    """Return the error that says of a store's file that it is empty, and what to do."""
    return StoreError(
        f"'{path}' is empty, and no store of skillopt-mcp (any more): put a backup in its place (skillopt-mcp "
        "store restore FILE), or remove the file, so that a new store begins there"
    )


def make_private(path: Path) -> None:
    """Make the store's folder (0700) and file (0600) when they are not there; SQLite gives its side files the same.

    The umask does not matter: one that takes rights from the user would leave a store that cannot be opened.
    """
    try:
        _make_folder(path.parent, 0o700)
        make_file(path)
        forget_mark(path)
        return
    except FileExistsError:
        if path.is_dir():
            raise StoreError(f"'{path}' is a folder: name a file with --store") from None
        if path.exists() and not path.is_file():
            raise StoreError(f"'{path}' is not a regular file: name another with --store") from None
    except OSError as error:
        raise StoreError(
            f"the store '{path}' cannot be made ({error.strerror}): name another place with --store"
        ) from error
    # An empty file where there was a store before, as its side files show, is an error; another process that begins a
    # new store there fills the file in a moment.
    deadline = time.monotonic() + _FILLED_S
    while os.path.isfile(path) and not os.path.getsize(path) and any(os.path.exists(f"{path}{end}") for end in _LEFT):
        if time.monotonic() > deadline:
            raise is_empty(path)
        time.sleep(0.01)


def _make_folder(folder: Path, mode: int) -> None:
    """Make a folder with exactly this mode when it is not there, and those above it so that the user can pass."""
    if os.path.isdir(folder):
        return
    _make_folder(folder.parent, 0o777)
    try:
        folder.mkdir(mode)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return
    folder.chmod((folder.stat().st_mode & mode) | 0o700)


def make_file(path: Path) -> None:
    """Make an empty file that its user alone may read and write, whatever the umask. Raises OSError."""
    made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        os.fchmod(made, 0o600)
    finally:
        os.close(made)


def remove_store(path: Path) -> None:
    """Remove a store's file and its side files."""
    for end in ("", *SIDE_FILES, MARK):
        with suppress(NotADirectoryError):
            path.with_name(path.name + end).unlink(missing_ok=True)


def refuse_network_file_system(path: Path) -> None:
    """Raise UnsafeStore when `path` lies on a file system whose locks or shared memory cannot be trusted."""
    kind = file_system(path)
    family, _, program = kind.partition(".")
    # Of what another program serves, only what is known to be local is trusted.
    if family in NETWORK_FILE_SYSTEMS or (is_fuse(kind) and program not in _LOCAL_FUSE):
        what = "a file system of another program" if is_fuse(kind) else "a network file system"
        raise UnsafeStore(
            f"the store '{path}' lies on {what} ('{kind}'), where SQLite can lose data: "
            "name a folder on a local disk with --store or SKILLOPT_STORE"
        )


def is_fuse(kind: str) -> bool:
    """Whether a kind of file system is served by another program (FUSE), which may fetch from anywhere."""
    return kind == "fuse" or kind.startswith("fuse.")


def file_system(path: Path) -> str:
    """The kind of file system that `path` would be on, by the last of the deepest mounts above; "" if unknown."""
    table = MOUNT_TABLE.read_text("utf-8", "replace") if MOUNT_TABLE.exists() else ""
    real, deepest, kind = os.path.realpath(path), "", ""
    for line in table.splitlines():
        mount, _, source = line.partition(" - ")
        point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), mount.split(" ")[4])
        is_above = real == point or real.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(deepest):
            deepest, kind = point, source.split(" ")[0]
    return kind


class Mark(NamedTuple):
    """How many commits a store has had; up to `n_synced` of them, and the last event, a power cut takes none back."""

    n: int
    boot: str
    n_synced: int
    seq: int = 0
    hash: str = ""

    @property
    def n_claimed(self) -> int:
        """How many commits the store must have: all, as long as the machine has not booted again."""
        return self.n if self.boot and self.boot == boot_id() else self.n_synced


@cache
def boot_id() -> str:
    """Return the id that the machine has until it boots again; "" where it does not tell that."""
    return _BOOT_ID.read_text("ascii").strip() if _BOOT_ID.exists() else ""


def read_mark(path: Path) -> Mark | None:
    """Return the mark of a store; None without one that can be read."""
    try:
        n, boot, n_synced, seq, last = json.loads(Path(f"{path}{MARK}").read_bytes())
        return Mark(int(n), str(boot), int(n_synced), int(seq), str(last))
    except (OSError, ValueError, TypeError):
        return None


def write_mark(path: Path, mark: Mark) -> None:
    """Write the mark of a store in one piece; where it cannot be written, the one before stays."""
    with suppress(OSError):
        opened = os.open(f"{path}{MARK}", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(opened, 0o600)
            os.pwrite(opened, json.dumps(mark).ljust(_BYTES).encode(), 0)
        finally:
            os.close(opened)


def forget_mark(path: Path) -> None:
    """Remove the mark of a store that is about to be another one."""
    with suppress(FileNotFoundError):
        os.unlink(f"{path}{MARK}")


class Lock(Protocol):
    """A lock file that this process holds; it is released when the process ends, however that happens."""

    def release(self) -> None:
        """Release it."""


class Owner:
    """A name that is alive as long as this process holds the lock file of that name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.name = secrets.token_hex(8)
        lock = _hold(self._path(self.name))
        assert lock, "the name is new"
        self._lock = lock

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.owner"

    def is_alive(self, name: str) -> bool:
        """Whether the owner `name` still runs."""
        if name == self.name:
            return True
        path = self._path(name)
        if not path.exists():
            return False
        probe = _hold(path)
        if probe is None:
            return True
        probe.release()
        path.unlink(missing_ok=True)
        return False

    def close(self) -> None:
        """Release the name; its unanswered claims may then be taken over."""
        self._lock.release()
        with suppress(OSError):
            self._path(self.name).unlink(missing_ok=True)


def list_held_locks(folder: Path) -> list[str]:
    """Return the names of the locks in a folder that a live process holds."""
    held = []
    for path in sorted(folder.glob("*")) if folder.is_dir() else []:
        probe = _hold(path)
        if probe is None:
            held.append(path.name)
        else:
            probe.release()
    return held


def lock_run(folder: Path, name: str) -> Lock | None:
    """Return the held lock of one run, or None when another process holds it, for longer than to test it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _hold(folder / f"{name}.run", _MOMENT_S)


def is_locked(folder: Path, name: str) -> bool:
    """Whether the lock of a run is held; no system can tell without taking it for a moment."""
    lock = lock_run(folder, name)
    if lock:
        lock.release()
    return lock is None


_MOMENT_S = 0.1


def _hold(path: Path, wait_s: float = 0) -> Lock | None:
    # Loaded with the first lock: it loads asyncio, and recording and showing take no lock.
    from filelock import FileLock, Timeout  # noqa: PLC0415

    lock = FileLock(path, mode=0o600)
    try:
        lock.acquire(timeout=wait_s, poll_interval=0.01)
    except Timeout:
        return None
    return lock
