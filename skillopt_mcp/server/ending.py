"""Ending: the one way out of the server."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

GRACE_S = 2.0


class Ending:
    """The one way out: open requests get the grace to be answered, then the process ends, whatever still runs.

    Every answer that was given stands for committed work, so leaving in the middle of a call loses nothing.
    """

    def __init__(self) -> None:
        self._begun = False
        self._finish: Callable[[], object] | None = None

    def attach(self, finish: Callable[[], object]) -> None:
        """Name what stops the serving; it is called once, from any thread."""
        self._finish = finish

    def begin(self, *_signal: object) -> None:
        """End the server; more calls change nothing."""
        if self._begun:
            return
        self._begun = True
        if self._finish is None:
            os._exit(0)
        timer = threading.Timer(GRACE_S, os._exit, (0,))
        timer.daemon = True
        timer.start()
        self._finish()
