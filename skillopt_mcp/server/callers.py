"""Callers: which session of a host a call comes from, as far as the host tells."""

from __future__ import annotations

from collections.abc import Mapping

from skillopt_mcp.operations.callers import MOST_CHARACTERS


def caller_of(meta: Mapping[str, object] | None) -> str:
    """Return the session that a call's `_meta` names; empty where it names none."""
    for name in ("sessionId", "threadId"):
        said = meta.get(name) if meta else None
        if isinstance(said, str) and 0 < len(said) <= MOST_CHARACTERS:
            return said
    return ""
