"""Lifecycle: what a server is started with, and its one way out."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LEASE_MINUTES = 15.0
GRACE_S = 2.0
# Longer than any call takes that waits for no work in the background.
ANSWERS_S = 30.0


class Shutdown:
    """The one way out: open requests get the time to be answered, then the process ends, whatever still runs.

    That time is short when the host is gone or sends a signal, and as long as a call may take when it has only closed
    its end of the input and still reads. Every answer that was given stands for committed work, so leaving in the
    middle of a call loses nothing.
    """

    def __init__(self) -> None:
        # Locks that are taken once and never given back: any thread may come first, and a signal in the middle of it.
        self._begun = threading.Lock()
        self._closing = threading.Lock()
        self._finish: Callable[[], object] | None = None

    @property
    def is_closing(self) -> bool:
        """Whether no more requests come, and those that came are being answered."""
        return self._closing.locked()

    def attach(self, finish: Callable[[], object]) -> None:
        """Name what stops the serving; it is called once, from any thread."""
        self._finish = finish

    def close(self) -> None:
        """End the server as soon as all that was asked is answered; more calls change nothing."""
        if not self._closing.acquire(blocking=False):
            return
        if self._finish is None:
            os._exit(0)
        _leave_in(ANSWERS_S)
        self._finish()

    def begin(self, *_signal: object) -> None:
        """End the server within the grace; more calls change nothing."""
        if not self._begun.acquire(blocking=False):
            return
        if self._finish is not None:
            _leave_in(GRACE_S)
        self.close()


def _leave_in(seconds: float) -> None:
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()


@dataclass(frozen=True, slots=True)
class Setup:
    """The store, the backends that were named, and whether every change of a live file needs a person's approval.

    `lease_minutes` is how long work is in a host's hands; `caps` (calls, tokens, dollars, minutes)
    are those of every test and proposal.
    """

    store_path: Path
    target: str | None = None
    optimizer: str | None = None
    judge: str | None = None
    require_approval: bool = False
    lease_minutes: float = LEASE_MINUTES
    caps: tuple[int | None, int | None, float | None, float | None] = (None, None, None, None)
