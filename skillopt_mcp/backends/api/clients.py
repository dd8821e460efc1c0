"""Clients: the SDK clients of one event loop, and which call goes first where the others wait for what it finds."""

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


LEAST_CHARACTERS = 4096
WARM_S = 240.0
AFTER_FAILURE_S = 10.0


class Warming:
    """Whose turn it is to write the cache of a prefix. Prefixes too short to be cached wait for nobody."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def turn(self, prefix: str) -> AsyncIterator[None]:
        """Enter when `prefix` is cached, or at once when it is this call's turn to write it.

        After a call that failed all go ahead: a cache saves money, and is not worth a queue of failures.
        """
        if len(prefix) < LEAST_CHARACTERS:
            yield
            return
        lock = self._locks.setdefault(prefix, asyncio.Lock())
        leads = not self._is_warm(prefix) and await lock.acquire()
        if leads and self._is_warm(prefix):
            lock.release()
            leads = False
        warm_s = AFTER_FAILURE_S
        try:
            yield
            warm_s = WARM_S
        finally:
            now = asyncio.get_running_loop().time()
            self._until[prefix] = max(self._until.get(prefix, 0.0), now + warm_s)
            if leads:
                lock.release()

    def _is_warm(self, prefix: str) -> bool:
        return asyncio.get_running_loop().time() < self._until.get(prefix, 0.0)


# Servers turn down at once what they do not understand; what takes longer is being answered.
PATIENCE_S = 5.0
_FREE_S = 10.0


class Scouting:
    """Whose turn it is to find out. Nobody waits for long, nor for what is known already."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._free_until = 0.0

    @asynccontextmanager
    async def turn(self, is_unknown: Callable[[], bool]) -> AsyncIterator[None]:
        """Enter when nothing `is_unknown` any more of how to ask, or at once when it is this call's turn to find out.

        After a call that failed all go ahead: a request that is turned down costs little, a queue of failures hours.
        """
        leads = await self._leads(is_unknown)
        try:
            yield
        except BaseException:
            if leads:
                self._free_until = asyncio.get_running_loop().time() + _FREE_S
            raise
        finally:
            if leads:
                self._lock.release()

    async def _leads(self, is_unknown: Callable[[], bool]) -> bool:
        """Return whether this call finds out, and holds the lock for that."""
        if not is_unknown() or self._is_free():
            return False
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._lock.acquire()
        except TimeoutError:
            return False
        if is_unknown() and not self._is_free():
            return True
        self._lock.release()
        return False

    def _is_free(self) -> bool:
        return asyncio.get_running_loop().time() < self._free_until
