"""Batch: what both vendors' batch APIs have in common: lines of JSON, and what becomes of calls without an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from skillopt_mcp.backends.api.answers import Wire, parse_body
from skillopt_mcp.backends.api.faults import UNPAID, Origin, Rejection, rejection_fault
from skillopt_mcp.backends.base import BackendFault

MOST_BYTES = 90_000_000
DAY_S = 86_400.0
W = TypeVar("W", bound=Wire)


def lines_of(content: bytes, model: type[W], origin: Origin) -> Iterator[W]:
    """Yield the lines of a file of JSON lines. Raises BackendFault (malformed) when one is not what it should be."""
    for line in content.split(b"\n"):
        if line.strip():
            yield parse_body(line, "application/jsonl", model, origin)


def expired(origin: Origin) -> BackendFault:
    """Return the fault of a call that the vendor did not get to in time; nothing was paid for it."""
    return origin.fault("timeout", "the batch expired before this call was answered", usage=UNPAID)


def rejected(status: int, code: str, message: str, origin: Origin) -> BackendFault:
    """Return the fault of a call that the vendor would not answer; nothing was paid for it."""
    fault = rejection_fault(Rejection(status, code, "", message, None), origin)
    fault.usage = UNPAID
    return fault


def not_immediate() -> BackendFault:
    """Return the fault of asking for one answer at once."""
    return BackendFault("unsupported", "a batch API answers later: its calls are sent in batches alone")
