"""Callers: which session of a host a call comes from, as far as the host tells."""

from __future__ import annotations

import os
from collections.abc import Mapping

_MOST_CHARACTERS = 200
_VARIABLE = "CLAUDE_CODE_SESSION_ID"


def caller_of(meta: Mapping[str, object] | None) -> str:
    """Return the session that a call's `_meta`, or else the host's environment, names; empty where neither does."""
    for name in ("sessionId", "threadId"):
        said = meta.get(name) if meta else None
        if isinstance(said, str) and 0 < len(said) <= _MOST_CHARACTERS:
            return said
    return os.environ.get(_VARIABLE, "")[:_MOST_CHARACTERS]
