"""Marks: a small file next to a store says how many commits it has had, so that `verify` notices when rows are gone.

A commit counts itself in table mark, and writes the count into the file afterwards: the file may claim less than the
store has, never more. Where it does claim more, rows are gone; then both stand still until a restore.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # a server that starts imports no driver
    from skillopt_mcp.store.driver import Connection

MARK = ".mark"
_BYTES = 256
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_COUNT = "insert into mark(id, n) values (1, 1) on conflict(id) do update set n = n + 1"


class Mark(NamedTuple):
    """How many commits a store has had; up to `n_synced` of them, and the last event, a power cut takes none back."""

    n: int
    boot: str
    n_synced: int
    seq: int = 0
    hash: str = ""

    @property
    def claimed(self) -> int:
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


def count_commit(connection: Connection, path: Path, *, synced: bool) -> Mark | None:
    """Count the caller's transaction; return the mark to write after its commit, None where rows are gone."""
    before = read_mark(path)
    [n] = connection.execute("select coalesce(max(n), 0) from mark").fetchone()
    if before and before.claimed > n:
        return None
    connection.execute(_COUNT)
    last = connection.execute("select seq, hash from event order by seq desc limit 1").fetchone()
    n_synced = n + 1 if synced else before.n_synced if before else 0
    return Mark(n + 1, boot_id(), n_synced, *(last or ()))


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
