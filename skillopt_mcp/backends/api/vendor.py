"""Vendor: what the backends over HTTP share: one model behind an API."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Generic, TypeVar

from skillopt_mcp.backends.api.clients import ClientPools, Sdk, sdk_faults
from skillopt_mcp.backends.api.faults import Endpoint, Origin, find_endpoint
from skillopt_mcp.backends.api.prices import Price, PricedOptions, find_price, max_usage, parse_options
from skillopt_mcp.backends.api.prompts import LAYOUT, prompt_of
from skillopt_mcp.backends.registry import Resolved
from skillopt_mcp.backends.resolved import find_proxy, resolve_api
from skillopt_mcp.core.calls import Call, Reply, Usage

LOCAL_CONCURRENCY = 4
O = TypeVar("O", bound=PricedOptions)  # noqa: E741


def resolve_vendor(kind: type[PricedOptions], text: str, environ: Mapping[str, str]) -> Resolved:
    """What a spec leads to; no address of Azure is the usual one."""
    options = parse_options(text, kind)
    home, variable, _ = options.vendor
    return resolve_api(options, options.base_url or environ.get(variable) or home or "azure", home, environ)


def configure(options: O, environ: Mapping[str, str]) -> tuple[O, Endpoint, Price | None]:
    """The options with the address that is asked, its endpoint and its price. Raises BackendError."""
    home, variable, keys = options.vendor
    base_url = options.base_url or environ.get(variable) or home
    if base_url != home:
        options = options.model_copy(update={"base_url": base_url})
    endpoint = find_endpoint(options, base_url, keys, environ)
    return options, endpoint, find_price(options, endpoint.host, environ)


class ApiBackend(Generic[O]):
    """One model behind a vendor's API."""

    deferred = False
    sdk: ClassVar[Sdk]

    def __init__(self, options: O, endpoint: Endpoint, price: Price | None) -> None:
        self.name = options.spell()
        proxy = find_proxy(endpoint.base_url, os.environ)
        via = f",via={proxy}" if proxy else ""
        self.fingerprint = f"{options.identity()},at={endpoint.place}{via},layout={LAYOUT}"
        self.options, self.endpoint, self.price = options, endpoint, price
        self.concurrency = LOCAL_CONCURRENCY if endpoint.is_local else 16
        self.origin = Origin(options.model, endpoint)
        self.pools = ClientPools(self._client)

    async def complete(self, call: Call) -> Reply:
        """Return the answer to one attempt at `call`. Raises BackendFault when the attempt failed."""
        raise NotImplementedError

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt at `call` can use, None when nothing limits the answer."""
        return max_usage(prompt_of(call), getattr(self.options, "max_tokens", None), self.price)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        """Enter with an SDK client for one call; whatever it raises becomes a BackendFault."""
        pool = await self.pools.get()
        with sdk_faults(self.sdk, self.origin):
            timeout_s = self.options.timeout
            limit = pool.time_out(timeout_s) if self.endpoint.is_local else asyncio.timeout(timeout_s)
            async with pool.client() as client, limit:
                yield client

    def _client(self) -> object:
        """Return a client of the vendor's SDK."""
        raise NotImplementedError
