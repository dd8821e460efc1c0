"""Clients: the SDK clients of one event loop, closed when that loop shuts down."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import httpx2

CALLS_EACH = 32
LIMITS = httpx2.Limits(max_connections=2 * CALLS_EACH, max_keepalive_connections=CALLS_EACH, keepalive_expiry=60)
CONNECT_S = 15.0


class Closable(Protocol):
    """What holds connections and can let go of them."""

    async def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class PerLoop(Generic[C]):
    """Hands out what belongs to the running event loop: connections serve the loop that opened them, and no other.

    Who runs a loop need not know: every runner closes the open asynchronous generators of its loop before the loop, and
    closing this one closes what is handed out.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[C, AsyncGenerator[None]]] = WeakKeyDictionary()

    async def get(self) -> C:
        """Return what belongs to the running loop, made on first use."""
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is None:
            made = self._make()
            closing = self._closing(made)
            self._held[loop] = held = (made, closing)
            await anext(closing)
        return held[0]

    async def _closing(self, made: C) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._held.pop(asyncio.get_running_loop(), None)
            await made.close()


@dataclass(slots=True)
class _Member(Generic[C]):
    client: C
    n_calls: int = 0


class Crew(Generic[C]):
    """As many clients as the calls in flight need, a few calls each: the work of a pool grows with its square."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._members: list[_Member[C]] = []

    @asynccontextmanager
    async def client(self) -> AsyncIterator[C]:
        """Enter with a client for one call."""
        member = next((member for member in self._members if member.n_calls < CALLS_EACH), None)
        if member is None:
            member = _Member(self._make())
            self._members.append(member)
        member.n_calls += 1
        try:
            yield member.client
        finally:
            member.n_calls -= 1

    async def close(self) -> None:
        """Close all clients."""
        for member in self._members:
            await member.client.close()


@cache
def tls() -> ssl.SSLContext:
    """Return the TLS settings of the environment; reading them takes as long as many calls do."""
    return httpx2.create_ssl_context()


def is_unsent(error: Exception) -> bool:
    """Return whether a request certainly never left: no address was found, nobody listened, or no connection came."""
    unsent = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
    return isinstance(error, unsent) or isinstance(error.__cause__, unsent)


def patience(timeout_s: float) -> httpx2.Timeout:
    """Return the time limits of one request; the whole of it is limited where it is sent."""
    return httpx2.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S))
