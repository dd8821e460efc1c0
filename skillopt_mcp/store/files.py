"""Files: where the store is, which file systems it may be on, and how its files are made private and removed."""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import platformdirs

from skillopt_mcp.core.errors import NotFound, StoreError, UnsafeStore
from skillopt_mcp.store.marks import MARK, forget_mark

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
    _check_not_emptied(path)


def _check_not_emptied(path: Path) -> None:
    """Raise StoreError for an empty file where there was a store before, as its side files show.

    Another process that begins a new store there fills the file in a moment.
    """
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


def replaced_stores(path: Path) -> list[Path]:
    """Return the stores that restores replaced, and that are kept next to a store."""
    found = path.parent.glob(f"{glob.escape(path.name)}.replaced-*")
    return sorted(each for each in found if not each.name.endswith((*SIDE_FILES, MARK)))


def remove_store(path: Path) -> None:
    """Remove a store's file and its side files."""
    for end in ("", *SIDE_FILES, MARK):
        with suppress(NotADirectoryError):
            path.with_name(path.name + end).unlink(missing_ok=True)


def refuse_network_file_system(path: Path) -> None:
    """Raise UnsafeStore when `path` lies on a file system whose locks or shared memory cannot be trusted."""
    kind = file_system(path)
    if is_untrusted(kind):
        what = "a file system of another program" if is_fuse(kind) else "a network file system"
        raise UnsafeStore(
            f"the store '{path}' lies on {what} ('{kind}'), where SQLite can lose data: "
            "name a folder on a local disk with --store or SKILLOPT_STORE"
        )


def is_untrusted(kind: str) -> bool:
    """Return whether a kind of file system is a network's, or one of another program that is not known to be local."""
    family, _, program = kind.partition(".")
    return family in NETWORK_FILE_SYSTEMS or (is_fuse(kind) and program not in _LOCAL_FUSE)


def is_fuse(kind: str) -> bool:
    """Return whether a kind of file system is served by another program (FUSE), which may fetch from anywhere."""
    return kind == "fuse" or kind.startswith("fuse.")


def file_system(path: Path) -> str:
    """Return the kind of file system that `path` would be on, or "" where that is unknown."""
    table = MOUNT_TABLE.read_text("utf-8", "replace") if MOUNT_TABLE.exists() else ""
    return file_system_in(table, os.path.realpath(path))


def file_system_in(mount_table: str, path: str) -> str:
    """Return the kind of file system of a resolved path: that of the deepest mount above it, the last of equals."""
    deepest, kind = "", ""
    for line in mount_table.splitlines():
        mount, _, source = line.partition(" - ")
        point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), mount.split(" ")[4])
        is_above = path == point or path.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(deepest):
            deepest, kind = point, source.split(" ")[0]
    return kind
