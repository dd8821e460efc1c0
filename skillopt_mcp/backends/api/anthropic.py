"""Anthropic: models behind the Messages API, with what a batch shares cached, so that it is paid once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import ClassVar, Literal

import anthropic
import httpx2
from pydantic import Field

from skillopt_mcp.backends.api.answers import body_of, reply_of
from skillopt_mcp.backends.api.anthropic_wire import FORMAT_WORDS, PATH, MessageBody, Settings, request_body
from skillopt_mcp.backends.api.bounds import most_used
from skillopt_mcp.backends.api.clients import LIMITS, Crew, PerLoop, is_unsent, patience, tls
from skillopt_mcp.backends.api.endpoints import Endpoint, find_endpoint
from skillopt_mcp.backends.api.faults import Origin, Rejection, cause, rejection, rejection_fault
from skillopt_mcp.backends.api.messages import LAYOUT, Prompt, prompt_of
from skillopt_mcp.backends.api.options import PricedOptions, parse_options
from skillopt_mcp.backends.api.prices import Price, find_price
from skillopt_mcp.backends.api.scouting import Scouting
from skillopt_mcp.backends.api.warming import Warming
from skillopt_mcp.errors import BackendError
from skillopt_mcp.records.calls import Call, Fault, Reply, Usage

HOME = "https://api.anthropic.com"


class AnthropicOptions(PricedOptions):
    """What `anthropic:` may be told."""

    provider: ClassVar[str] = "anthropic"
    max_tokens: int = Field(default=16_000, ge=1)
    thinking: Literal["adaptive", "disabled"] | int | None = Field(
        default=None, description="a number of tokens (1024 or more, and less than max_tokens), adaptive or disabled"
    )
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class _Connections(Crew[anthropic.AsyncAnthropic]):
    """The clients of one event loop, and whose turn it is there to write a cache, or to find out how to ask."""

    def __init__(self, make: Callable[[], anthropic.AsyncAnthropic]) -> None:
        super().__init__(make)
        self.warming, self.scouting = Warming(), Scouting()


class AnthropicBackend:
    """Answers calls by one model. Of a batch with a long skill the first call goes ahead and writes the cache."""

    deferred = False
    n_slots = 16

    def __init__(self, options: AnthropicOptions, endpoint: Endpoint, price: Price | None) -> None:
        self.name = options.spelled()
        self.fingerprint = f"{options.identity()},at={endpoint.place},layout={LAYOUT}"
        self.options, self.endpoint, self.price = options, endpoint, price
        self.origin = Origin(options.model, endpoint)
        self._settings = Settings(options.model, options.max_tokens, options.thinking, options.effort)
        # Whether replies are held to a schema, and whether the server is known to do that.
        self._structured, self._holds = options.structured, endpoint.base_url == HOME
        self._connections = PerLoop(lambda: _Connections(self._client))

    async def complete(self, call: Call) -> Reply:
        """Return the answer to one attempt at `call`. Raises BackendFault when the attempt failed."""
        prompt = prompt_of(call)
        connections = await self._connections.get()
        is_unknown = partial(self._is_unknown, prompt)
        async with connections.warming.turn(prompt.system + prompt.shared), connections.scouting.turn(is_unknown):
            async with self.connected() as client:
                response = await self._send(client, prompt)
            body = body_of(response, MessageBody, self.origin)
        return reply_of(body.answer(), self.origin, self.price, prompt.system + prompt.user)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[anthropic.AsyncAnthropic]:
        """Enter with a client for one request; whatever it raises becomes a BackendFault."""
        connections = await self._connections.get()
        with anthropic_faults(self.origin):
            async with connections.client() as client, asyncio.timeout(self.options.timeout):
                yield client

    def request(self, call: Call) -> dict[str, object]:
        """Return the JSON body of the request for a call, as it is put now."""
        return request_body(prompt_of(call), self._settings, structured=self._structured)

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt at `call` can use, None when nothing limits the answer."""
        return most_used(prompt_of(call), self.options.max_tokens, self.price)

    def _is_unknown(self, prompt: Prompt) -> bool:
        return prompt.reply is not None and self._structured and not self._holds

    async def _send(self, client: anthropic.AsyncAnthropic, prompt: Prompt) -> httpx2.Response:
        """Return the response; a server that cannot hold replies to a schema is not asked to again."""
        while True:
            structured = self._structured
            body = request_body(prompt, self._settings, structured=structured)
            try:
                response = await client.post(PATH, body=body, cast_to=httpx2.Response)
                self._holds = self._holds or (structured and prompt.reply is not None)
                return response
            except anthropic.APIStatusError as error:
                text = _rejection(error).text.lower()
                minds = error.status_code in (400, 422) and any(word in text for word in FORMAT_WORDS)
                if not (minds and structured and prompt.reply):
                    raise
                self._structured = False

    def _client(self) -> anthropic.AsyncAnthropic:
        timeout = patience(self.options.timeout)
        http = anthropic.DefaultAsyncHttpxClient(limits=LIMITS, timeout=timeout, verify=tls(), follow_redirects=False)
        key, at = self.endpoint.secret, self.endpoint.base_url
        return anthropic.AsyncAnthropic(
            api_key=key.value, base_url=at, max_retries=0, timeout=timeout, http_client=http
        )


_FAULTS: tuple[tuple[type[Exception], Fault, str], ...] = (
    (anthropic.APITimeoutError, "timeout", "no answer in time"),
    (anthropic.APIConnectionError, "connection", "the connection failed"),
    (anthropic.APIResponseValidationError, "malformed", "the response is not what the SDK expects"),
    (anthropic.APIWebhookValidationError, "malformed", "the response is not what the SDK expects"),
    (anthropic.CredentialsError, "auth", "no credentials could be had"),
    (anthropic.RetryableError, "server", "the SDK asks to try again"),
    (anthropic.AnthropicError, "internal", "the SDK failed"),
    (httpx2.TimeoutException, "timeout", "no answer in time"),
    (httpx2.HTTPError, "connection", "the connection failed"),
    (TimeoutError, "timeout", "no answer in time"),
)


@contextmanager
def anthropic_faults(origin: Origin) -> Iterator[None]:
    """Turn whatever the SDK raises into a BackendFault."""
    try:
        yield
    except anthropic.APIStatusError as error:
        raise rejection_fault(_rejection(error), origin) from None
    except (anthropic.AnthropicError, httpx2.HTTPError, TimeoutError) as error:
        if is_unsent(error):
            raise origin.unsent(error) from None
        fault, what = next((fault, what) for kind, fault, what in _FAULTS if isinstance(error, kind))
        raise origin.fault(fault, cause(what, error)) from None


def open_anthropic(text: str, environ: Mapping[str, str] = os.environ) -> AnthropicBackend:
    """Return the backend of "MODEL,name=value,...". Raises BackendError when it is not configured, saying how."""
    options = parse_options(text, AnthropicOptions)
    budget = options.thinking
    if isinstance(budget, int) and not 1024 <= budget < options.max_tokens:
        raise BackendError(
            f"'thinking' of 'anthropic:{options.model}' must be at least 1024, and less than max_tokens, "
            f"which is {options.max_tokens}"
        )
    base_url = options.base_url or environ.get("ANTHROPIC_BASE_URL") or HOME
    if base_url != HOME:
        options = options.model_copy(update={"base_url": base_url})
    endpoint = find_endpoint(options, base_url, ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), environ)
    return AnthropicBackend(options, endpoint, find_price(options, endpoint.host, environ))


def _rejection(error: anthropic.APIStatusError) -> Rejection:
    return rejection(error.status_code, error.body, error.response.headers)
