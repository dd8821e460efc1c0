"""Owners: who may send a claimed call, known by a lock that dies with its process (no clock, no process ids)."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import Protocol


class Lock(Protocol):
    """A lock file that this process holds; it is released when the process ends, however that happens."""

    def release(self) -> None:
        """Release it."""
        ...


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
        """Return whether the owner `name` still runs."""
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


def held_locks(folder: Path) -> list[str]:
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
    """Return whether the lock of a run is held; no system can tell without taking it for a moment."""
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
