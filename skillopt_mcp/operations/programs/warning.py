"""Warning: what a program is told beside an outcome, at the line where it called."""

from __future__ import annotations

import sys
import warnings


class Caller:
    """Who called the function that makes this: its line is told, from whatever thread it is warned."""

    def __init__(self) -> None:
        self._frame = sys._getframe(2)

    def warn(self, message: str) -> None:
        """Warn of what the function found."""
        names = self._frame.f_globals
        warnings.warn_explicit(
            message, UserWarning, self._frame.f_code.co_filename, self._frame.f_lineno, names.get("__name__"),
            names.setdefault("__warningregistry__", {}),
        )  # fmt: skip
