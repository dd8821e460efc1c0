"""Host: the agent that this server serves answers itself, by work that it takes and submits."""

from __future__ import annotations

import re

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.registry import Resolved, backend
from skillopt_mcp.core.calls import HOST, Call, Reply
from skillopt_mcp.core.errors import BackendError

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,63}")


class HostBackend:
    """A deferred backend: its calls stay open in the store until a host submits its replies."""

    deferred = True

    def __init__(self, name: str) -> None:
        self.name = self.fingerprint = name

    async def complete(self, call: Call) -> Reply:
        """Raise BackendFault: a host is handed work, and never asked to complete a call."""
        raise BackendFault("unsupported", "a host answers by submit_work alone")


@backend(
    "host",
    spec="host or host:LABEL",
    answers="the agent that the server serves, by sub-agents; only in `serve`, where it is the default",
    is_asked=False,
    resolve=lambda text, _: Resolved({"options": text}, is_usual=True),
)
def open_host(label: str) -> HostBackend:
    """Return the host as a backend; a label keeps the evidence of one model apart from that of another.

    Raises BackendError for any other label.
    """
    if label and not _LABEL.fullmatch(label):
        raise BackendError(f"a host's label may have letters, digits, '.', '_', '/' and '-', got '{label}'")
    return HostBackend(f"host:{label}" if label else HOST)
