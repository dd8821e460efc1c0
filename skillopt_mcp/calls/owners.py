"""Owners: who may send a claimed call, known by a lock that dies with its process (no clock, no process ids)."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout


class Owner:
    """A name that is alive as long as this process holds the lock file of that name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.name = secrets.token_hex(8)
        self._lock = FileLock(self._path(self.name), mode=0o600)
        self._lock.acquire(timeout=0)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.owner"

    def is_alive(self, name: str) -> bool:
        """Return whether the owner `name` still runs."""
        if name == self.name:
            return True
        path = self._path(name)
        if not path.exists():
            return False
        probe = FileLock(path, mode=0o600)
        try:
            probe.acquire(timeout=0)
        except Timeout:
            return True
        probe.release()
        path.unlink(missing_ok=True)
        return False

    def close(self) -> None:
        """Let go of the name; its unanswered claims may then be taken over."""
        self._lock.release()
        with suppress(OSError):
            self._path(self.name).unlink(missing_ok=True)


def held_locks(folder: Path) -> list[str]:
    """Return the names of the locks in a folder that a live process holds."""
    held = []
    for path in sorted(folder.glob("*")) if folder.is_dir() else []:
        probe = FileLock(path, mode=0o600)
        try:
            probe.acquire(timeout=0)
        except Timeout:
            held.append(path.name)
        else:
            probe.release()
    return held


def lock_run(folder: Path, name: str) -> FileLock | None:
    """Return the held lock of one run, or None when another process holds it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = FileLock(folder / f"{name}.run", mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return None
    return lock
