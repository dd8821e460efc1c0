"""Clients: one SDK client per event loop, closed when that loop shuts down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import httpx2

LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=1000, keepalive_expiry=60)
CONNECT_S = 15.0


class Closable(Protocol):
    """What holds connections and can let go of them."""

    async def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class PerLoop(Generic[C]):
    """Hands out the client of the running event loop: connections belong to the loop that opened them.

    Who runs a loop need not know: an open asynchronous generator is closed by every runner before its loop, and
    closing this one closes the client.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[C, AsyncGenerator[None]]] = WeakKeyDictionary()

    async def get(self) -> C:
        """Return the client of the running loop, made on first use."""
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is None:
            client = self._make()
            closing = self._closing(client)
            self._held[loop] = held = (client, closing)
            await anext(closing)
        return held[0]

    async def _closing(self, client: C) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._held.pop(asyncio.get_running_loop(), None)
            await client.close()


def patience(timeout_s: float) -> httpx2.Timeout:
    """Return the time limits of one request; the whole of it is limited where it is sent."""
    return httpx2.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S))
