"""Host session: which session of a host a call comes from."""

from __future__ import annotations

from contextvars import ContextVar

# How Claude Code names its session to the servers and the commands that it starts.
VARIABLE = "CLAUDE_CODE_SESSION_ID"
MAX_CHARACTERS = 200
SESSION: ContextVar[str] = ContextVar("session", default="")
