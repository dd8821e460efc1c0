"""Callers: which session of a host an operation is asked by, where there is one."""

from __future__ import annotations

from contextvars import ContextVar

SESSION: ContextVar[str] = ContextVar("session", default="")
