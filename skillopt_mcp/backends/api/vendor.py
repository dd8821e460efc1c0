"""Vendor: what the backends over HTTP share: one model behind an API."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Generic, TypeVar

from skillopt_mcp.backends.api.clients import ClientPools, Sdk, sdk_faults
from skillopt_mcp.backends.api.faults import Endpoint, Origin
from skillopt_mcp.backends.api.prices import Price, PricedOptions, max_usage
from skillopt_mcp.backends.api.prompts import LAYOUT, prompt_of
from skillopt_mcp.backends.resolved import find_proxy
from skillopt_mcp.core.calls import Call, Reply, Usage

O = TypeVar("O", bound=PricedOptions)  # noqa: E741


class ApiBackend(Generic[O]):
    """One model behind a vendor's API."""

    deferred = False
    concurrency = 16
    sdk: ClassVar[Sdk]

    def __init__(self, options: O, endpoint: Endpoint, price: Price | None) -> None:
        self.name = options.spelled()
        proxy = find_proxy(endpoint.base_url, os.environ)
        via = f",via={proxy}" if proxy else ""
        self.fingerprint = f"{options.identity()},at={endpoint.place}{via},layout={LAYOUT}"
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

    def _client(self) -> object:
        """Return a client of the vendor's SDK."""
        raise NotImplementedError
