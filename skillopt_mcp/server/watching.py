"""Watching: what a tool call tells its host while it runs, and whether the host still waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from skillopt_mcp.errors import Stopped
from skillopt_mcp.optimizer.progress import Notify, Progress, silent

_LEAST_S = 0.2
T = TypeVar("T")


class Watch:
    """One call of a tool as its host sees it; `tell` is None where nobody can be told."""

    def __init__(self, tell: Callable[[Progress], None] | None) -> None:
        self._tell = tell
        self._told_at = 0.0
        self._cancelled = False

    def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns; what it starts can be watched."""
        token = _CURRENT.set(self)
        try:
            return work()
        finally:
            _CURRENT.reset(token)

    def cancel(self) -> None:
        """Stop the work at its next sign of progress: the host does not wait any more."""
        self._cancelled = True

    def close(self) -> None:
        """Say nothing more: the call is over, though its work may go on."""
        self._tell = None

    def notify(self, progress: Progress) -> None:
        """Tell the host, a few times a second at most. Raises Stopped when it has cancelled the call."""
        if self._cancelled:
            raise Stopped("the host cancelled the call: what was answered is kept, call again to go on")
        tell, now = self._tell, time.monotonic()
        if tell is not None and now - self._told_at >= _LEAST_S:
            self._told_at = now
            tell(progress)


_CURRENT: ContextVar[Watch | None] = ContextVar("watch", default=None)


def watcher() -> Notify:
    """Return whom to notify of the work that the current call of a tool starts."""
    watch = _CURRENT.get()
    return watch.notify if watch else silent
