"""Vendor: what the backends over HTTP share: one model behind an API, and the same model behind a batch API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Generic, TypeVar

import httpx2

from skillopt_mcp.backends.api.answers import Wire, body_of, lines_of
from skillopt_mcp.backends.api.clients import ClientPools, Sdk, sdk_faults
from skillopt_mcp.backends.api.faults import UNPAID, Endpoint, Origin, Rejection, rejection_fault
from skillopt_mcp.backends.api.prices import Price, PricedOptions, max_usage
from skillopt_mcp.backends.api.prompts import LAYOUT, prompt_of
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.batches import Batching, Result
from skillopt_mcp.records.calls import Call, Reply, Usage

O = TypeVar("O", bound=PricedOptions)  # noqa: E741
W = TypeVar("W", bound=Wire)
DAY_S = 86_400.0


class ApiBackend(Generic[O]):
    """One model behind a vendor's API."""

    deferred = False
    concurrency = 16
    sdk: ClassVar[Sdk]

    def __init__(self, options: O, endpoint: Endpoint, price: Price | None) -> None:
        self.name = options.spelled()
        self.fingerprint = f"{options.identity()},at={endpoint.place},layout={LAYOUT}"
        self.options, self.endpoint, self.price = options, endpoint, price
        self.origin = Origin(options.model, endpoint)
        self.pools = ClientPools(self._client)

    async def complete(self, call: Call) -> Reply:
        """Return the answer to one attempt at `call`. Raises BackendFault when the attempt failed."""
        raise NotImplementedError

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt at `call` can use, None when nothing limits the answer."""
        return max_usage(prompt_of(call), getattr(self.options, "max_tokens", None), self.price)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        """Enter with an SDK client for one call; whatever it raises becomes a BackendFault."""
        pool = await self.pools.get()
        with sdk_faults(self.sdk, self.origin):
            async with pool.client() as client, asyncio.timeout(self.options.timeout):
                yield client

    async def send(self, method: str, path: str, **request: object) -> httpx2.Response:
        """Return the response to one request. Raises BackendFault."""
        async with self.connected() as client:
            response: httpx2.Response = await getattr(client, method)(path, cast_to=httpx2.Response, **request)
        return response

    def _client(self) -> object:
        """Return a client of the vendor's SDK."""
        raise NotImplementedError


class VendorBatch(Wire):
    """A batch as the vendor describes it."""

    id: str


class ResultLine(Wire):
    """The outcome of a call of a batch."""

    custom_id: str


# Has the SDKs leave a body unread.
_STREAMED = {"X-Stainless-Raw-Response": "stream"}
R = TypeVar("R", bound=ResultLine)
B = TypeVar("B", bound=ApiBackend[Any])
L = TypeVar("L", bound=VendorBatch)


class Page(Wire, Generic[L]):
    """A page of a vendor's list of batches, the newest first."""

    data: list[L]
    has_more: bool = False


class ApiBatch(Batching, Generic[B]):
    """A vendor's batch API at `path`, which answers for a backend at the price of batches.

    `cursor` is how its lists name the last batch of the page before.
    """

    deferred = True
    max_calls = 20_000
    max_bytes = 90_000_000
    path: ClassVar[str]
    cursor: ClassVar[str]

    def __init__(self, backend: B) -> None:
        self.name, self.fingerprint, self.concurrency = backend.name, backend.fingerprint, backend.concurrency
        price = backend.price
        self.discount = price.batch if price else 1.0
        self._backend = type(backend)(backend.options, backend.endpoint, price.by_batch() if price else None)
        self._origin = backend.origin

    async def complete(self, call: Call) -> Reply:
        """Raise BackendFault: a batch API answers nothing at once."""
        raise BackendFault("unsupported", "a batch API answers later: its calls are sent in batches alone")

    def worst_case(self, call: Call) -> Usage | None:
        return self._backend.worst_case(call)

    async def cancel(self, vendor_id: str) -> None:
        await self._backend.send("post", f"{self.path}/{vendor_id}/cancel")

    async def _get(self, vendor_id: str, model: type[W]) -> W:
        return body_of(await self._backend.send("get", f"{self.path}/{vendor_id}"), model, self._origin)

    async def _list(self, page_model: type[Page[L]]) -> AsyncIterator[L]:
        """Yield the batches of the account, the newest first."""
        after: str | None = None
        while True:
            query = f"?limit=100&{self.cursor}={after}" if after else "?limit=100"
            page = body_of(await self._backend.send("get", f"{self.path}{query}"), page_model, self._origin)
            for batch in page.data:
                yield batch
            last = page.data[-1].id if page.data else None
            if last is None or not page.has_more or last == after:
                return
            after = last

    async def _results(self, path: str, model: type[R], result_of: Callable[[R], Result]) -> dict[str, Result]:
        """Return the outcome of each line of a file of results, which may be too long to be held as a whole."""
        async with self._backend.connected() as client:
            response = await client.get(path, cast_to=httpx2.Response, options={"headers": _STREAMED})
            try:
                return {line.custom_id: result_of(line) async for line in lines_of(response, model, self._origin)}
            finally:
                await response.aclose()

    def _expired(self) -> BackendFault:
        """Return the fault of a call that the vendor did not get to in time; it costs nothing."""
        return self._origin.fault("timeout", "the batch expired before this call was answered", usage=UNPAID)

    def _rejected(self, status: int, code: str, message: str) -> BackendFault:
        """Return the fault of a call that the vendor rejected; it costs nothing."""
        fault = rejection_fault(Rejection(status, code, "", message, None), self._origin)
        fault.usage = UNPAID
        return fault
