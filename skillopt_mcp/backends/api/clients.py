"""Clients: the SDK clients of one event loop, what the SDKs raise, and which call goes first where the others wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from typing import Any, NamedTuple, Protocol, cast
from weakref import WeakKeyDictionary

import httpx2

from skillopt_mcp.backends.api.faults import SLOW_FIX, Origin, Rejection, cause, retry_after_s
from skillopt_mcp.core.calls import Fault, Usage

CALLS_EACH = 32
LIMITS = httpx2.Limits(max_connections=2 * CALLS_EACH, max_keepalive_connections=CALLS_EACH, keepalive_expiry=60)
CONNECT_S = 15.0
# Of a body as it is decoded: no model answers as much, and parsing can take eighty times as much memory.
BODY_BYTES = 1_500_000


class ClientPool:
    """As many clients as the calls in flight need, a few calls each: the work of a pool grows with its square.

    `probe` and, by prefix, `warming` say which call goes first: to find out how the server is asked, to write a cache.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._clients: list[Any] = []
        self._n_calls: list[int] = []
        self._timers: list[asyncio.Timeout] = []
        self.probe = FirstCall(PROBE_S)
        self.warming: dict[str, FirstCall] = {}

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Any]:
        """Enter with a client for one call."""
        n = next((n for n, n_calls in enumerate(self._n_calls) if n_calls < CALLS_EACH), len(self._clients))
        if n == len(self._clients):
            self._clients.append(self._make())
            self._n_calls.append(0)
        self._n_calls[n] += 1
        try:
            yield self._clients[n]
        finally:
            self._n_calls[n] -= 1

    @asynccontextmanager
    async def time_out(self, timeout_s: float) -> AsyncIterator[None]:
        """Limit a call at a server of few slots: calls that were sent before go first, and may take as long each."""
        async with asyncio.timeout((len(self._timers) + 1) * timeout_s) as timer:
            self._timers.append(timer)
            try:
                yield
            finally:
                place = self._timers.index(timer)
                del self._timers[place]
                now = asyncio.get_running_loop().time()
                for n_before, later in enumerate(self._timers[place:], place):
                    if not later.expired():
                        later.reschedule(now + (n_before + 1) * timeout_s)

    async def close(self) -> None:
        """Close all clients."""
        for client in self._clients:
            await client.close()


class ClientPools:
    """The pool of each running event loop: connections serve the loop that opened them, and no other.

    Who runs a loop need not know: every runner closes the open asynchronous generators of its loop before the loop, and
    closing this one closes the pool.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[ClientPool, AsyncGenerator[None]]]
        self._held = WeakKeyDictionary()

    async def get(self) -> ClientPool:
        """Return the pool of the running loop, made on first use."""
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is None:
            pool = ClientPool(self._make)
            closing = self._closing(pool)
            self._held[loop] = held = (pool, closing)
            await anext(closing)
        return held[0]

    async def _closing(self, pool: ClientPool) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._held.pop(asyncio.get_running_loop(), None)
            await pool.close()


# Reading the TLS settings of the environment takes as long as many calls do.
_read_tls = cache(httpx2.create_ssl_context)


class TooLong(httpx2.HTTPError):
    """A body is longer than what is asked for can be."""

    def __init__(self) -> None:
        super().__init__(f"the response is over {BODY_BYTES / 1_000_000:g} MB")


LOADING_S = 1.0


class _Bounded(httpx2.AsyncClient):
    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send a request and read the response whole, once the server's model is loaded. Raises TooLong."""
        response = await self._read(request, **options)
        while response.status_code == 503 and b"loading" in response.content.lower():  # so says llama.cpp
            await asyncio.sleep(LOADING_S)
            response = await self._read(request, **options)
        return response

    async def _read(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        response = await super().send(request, stream=True, **options)
        body = bytearray()
        try:
            async for part in response.aiter_bytes():
                body += part
                if len(body) > BODY_BYTES:
                    raise TooLong
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.multi_items() if name != "content-encoding"]
        return httpx2.Response(
            response.status_code, headers=headers, content=bytes(body), request=request, extensions=response.extensions
        )


def client_options(default: type[httpx2.AsyncClient], timeout_s: float) -> dict[str, Any]:
    """What an SDK's client is made with: it sends a request once, is its `default` otherwise, and reads no long body.

    The whole of a request is limited where it is sent.
    """
    made: type[httpx2.AsyncClient] = type("BoundedClient", (_Bounded, default), {})
    timeout = httpx2.Timeout(None, connect=min(timeout_s, CONNECT_S))
    http = made(limits=LIMITS, timeout=timeout, verify=_read_tls(), follow_redirects=False)
    return {"max_retries": 0, "timeout": timeout, "http_client": http}


# A cached prefix has at least so many characters, and stays in the vendor's cache for so long.
LEAST_CHARACTERS = 4096
WARM_S = 240.0
AFTER_FAILURE_S = 10.0
# Servers turn down at once what they do not understand; what takes longer is being answered.
PROBE_S = 5.0


class FirstCall:
    """Lets one call go first where the others can use what it finds out or writes.

    They wait for it, at most `patience_s` where that is given. After a call that failed all go ahead for a while: a
    queue of failures costs more than what could be saved; after one that succeeded they do for `known_s`.
    """

    def __init__(self, patience_s: float | None = None, known_s: float = 0.0) -> None:
        self._patience_s, self._known_s = patience_s, known_s
        self._lock = asyncio.Lock()
        self._free_until = 0.0

    @asynccontextmanager
    async def take_turn(self, is_needed: Callable[[], bool] = lambda: True) -> AsyncIterator[None]:
        """Enter when a first call `is_needed` no more, or at once when this is the first call."""
        leads = await self._leads(is_needed)
        free_s = AFTER_FAILURE_S
        try:
            yield
            free_s = self._known_s
        finally:
            self._free_until = max(self._free_until, asyncio.get_running_loop().time() + free_s)
            if leads:
                self._lock.release()

    async def _leads(self, is_needed: Callable[[], bool]) -> bool:
        """Wait to be the first call, which holds the lock; False when none is needed, or none comes in time."""
        if not is_needed() or self._is_free():
            return False
        try:
            async with asyncio.timeout(self._patience_s):
                await self._lock.acquire()
        except TimeoutError:
            return False
        if is_needed() and not self._is_free():
            return True
        self._lock.release()
        return False

    def _is_free(self) -> bool:
        return asyncio.get_running_loop().time() < self._free_until


class StatusError(Protocol):
    """An error status, as both SDKs raise it."""

    @property
    def status_code(self) -> int: ...

    @property
    def body(self) -> object: ...

    @property
    def response(self) -> httpx2.Response: ...


class Sdk(NamedTuple):
    """The exceptions of an SDK: the root of its tree, those of an error status, and what the others mean in order."""

    error: type[Exception]
    status_error: type[Exception]
    faults: Mapping[type[Exception], tuple[Fault, str]]


_HTTP_FAULTS: dict[type[Exception], tuple[Fault, str]] = {
    httpx2.TimeoutException: ("connection", "no answer in time"),
    httpx2.HTTPError: ("connection", "the connection failed"),
    TimeoutError: ("connection", "no answer in time"),
    Exception: ("internal", "the SDK failed"),
}
# What never left costs nothing: no address was found, the connection was refused, or none came.
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)


@contextmanager
def sdk_faults(sdk: Sdk, origin: Origin) -> Iterator[None]:
    """Turn whatever an SDK raises into a BackendFault."""
    try:
        yield
    except (sdk.error, httpx2.HTTPError, TimeoutError) as error:
        if isinstance(error, sdk.status_error):
            rejected = rejection_of(cast(StatusError, error))
            what = f"{rejected.status} {rejected.message or rejected.code}".strip()
            raise origin.fault(rejected.fault, what, retry_after=rejected.retry_after) from None
        if isinstance(error, _UNSENT) or isinstance(error.__cause__, _UNSENT):
            raise origin.fault("connection", cause("the connection failed", error), usage=Usage(usd=0.0)) from None
        too_long = next((each for each in (error, error.__cause__) if isinstance(each, TooLong)), None)
        if too_long:
            fix = "check the base URL in the spec: no model answers as much"
            raise origin.fault("unsupported", str(too_long), fix=fix) from None
        known = {**sdk.faults, **_HTTP_FAULTS}
        fault, what = next(found for kind, found in known.items() if isinstance(error, kind))
        is_overload = isinstance(error, TimeoutError) and origin.endpoint.is_local
        failed = origin.fault(fault, cause(what, error), fix=SLOW_FIX if is_overload else "")
        failed.is_overload = is_overload
        raise failed from None


def rejection_of(error: StatusError) -> Rejection:
    """A response with an error status, from the shapes of body that are about; an unknown one gives no message."""
    body = error.body[0] if isinstance(error.body, list) and error.body else error.body
    found = body.get("error", body) if isinstance(body, dict) else body
    wait_s = retry_after_s(error.response.headers)
    if not isinstance(found, dict):
        # A page of HTML says nothing that helps.
        words = found if isinstance(found, str) and not found.lstrip().startswith("<") else ""
        return Rejection(error.status_code, "", "", words, wait_s)
    code = " ".join(str(found[name]) for name in ("type", "code") if isinstance(found.get(name), str))
    message = found.get("message") or found.get("detail") or ""
    return Rejection(error.status_code, code, str(found.get("param") or ""), str(message), wait_s)
