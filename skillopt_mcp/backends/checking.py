"""Checking: one cheap call that shows whether a backend can be used, and what is wrong when it cannot."""

from __future__ import annotations

import asyncio

from skillopt_mcp.backends.base import Backend, BackendFault
from skillopt_mcp.backends.redacting import Redacting
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.errors import BackendError
from skillopt_mcp.records.calls import Call, Rollout
from skillopt_mcp.records.judging import Exact
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.redaction.redacting import Redactor

PATIENCE_S = 60.0
_ASKED = ("openai:", "anthropic:", "claude-code:", "codex:", "plugin:")
_TASK = Task(0, 0, "check", "Answer with the word: ok", Exact(kind="exact", expected="ok"), "train", "check")


def check_backend(spec: str) -> str | None:
    """Return what is wrong with a backend in a sentence, None when it answers. A paid one is asked one short call."""
    try:
        backend = open_backend(spec)
        return asyncio.run(_problem(backend)) if backend.name.startswith(_ASKED) else None
    except BackendError as error:
        return str(error)


async def _problem(backend: Backend) -> str | None:
    call = Call("target", "rollout", Rollout(SkillFiles(()), _TASK), "check")
    try:
        async with asyncio.timeout(PATIENCE_S):
            await Redacting(backend, Redactor()).complete(call)
    except BackendFault as fault:
        return str(fault)
    except TimeoutError:
        return f"'{backend.name}' gave no answer within {PATIENCE_S:.0f} s; check its address, or try again later"
    return None
