"""Batches: the seam between calls and a vendor's batch API, which answers many of them later, and for less."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.records.calls import Call, Reply, Usage


class Item(NamedTuple):
    """A call in a batch, under the name that its answer comes back with."""

    name: str
    call: Call


class Tag(NamedTuple):
    """What a batch is known by at the vendor: its id, its number of calls, and since when (seconds since 1970)."""

    id: str
    n_calls: int
    opened_at: float


class Located(NamedTuple):
    """The vendor's id of a batch, None when it has none; without `is_certain` only time will show."""

    vendor_id: str | None
    is_certain: bool = True


class BatchStatus(NamedTuple):
    """How far a vendor is with a batch; `refused` is why it answers none of it."""

    is_over: bool
    n_done: int
    was_cancelled: bool = False
    refused: BackendFault | None = None


class Patience(NamedTuple):
    """How often a batch is looked at: after `first_s` seconds, then ever more rarely, up to `max_s`."""

    first_s: float = 2.0
    growth: float = 1.5
    max_s: float = 60.0


# The outcome of a call: None where it was cancelled before it was answered.
Result = Reply | BackendFault | None


@runtime_checkable
class Batching(Protocol):
    """A deferred backend whose calls a vendor takes in batches. Every method may raise BackendFault."""

    name: str
    fingerprint: str
    discount: float
    """The share of the usual price that is paid."""
    max_calls: int
    max_bytes: int

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that a call can use, None when nothing limits the answer."""
        ...

    def line(self, item: Item) -> bytes:
        """Return a call as the vendor takes it."""
        ...

    async def submit(self, tag: Tag, lines: Sequence[bytes]) -> str:
        """Return the vendor's id of a new batch of these lines."""
        ...

    async def find(self, tag: Tag, known: Collection[str]) -> Located:
        """Return where a batch is that was sent, but whose id was never learned; `known` ids are of others."""
        ...

    async def look(self, vendor_id: str) -> BatchStatus:
        """Return how far a batch is."""
        ...

    async def results(self, vendor_id: str) -> Mapping[str, Result]:
        """Return the outcome of each call of a batch that is over, by its name; what is missing has no answer."""
        ...

    async def cancel(self, vendor_id: str) -> None:
        """Ask the vendor to answer no more of a batch."""
        ...

    async def forget(self, vendor_id: str) -> None:
        """Have the vendor delete what it keeps of a batch that is over."""
        ...


def batching(backend: object) -> Batching | None:
    """Return what sends the backend's calls in batches, None where they are not sent so."""
    if isinstance(backend, Batching):
        return backend
    behind: object = getattr(backend, "batching", None)
    return behind if isinstance(behind, Batching) else None
