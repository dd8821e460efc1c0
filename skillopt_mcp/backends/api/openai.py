"""Openai: models behind the Responses or the Chat Completions API: OpenAI's, Azure's, and any server that speaks it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import ClassVar, Literal

import httpx2
import openai
from pydantic import Field

from skillopt_mcp.backends.api.answers import parse_body, reply_of
from skillopt_mcp.backends.api.bounds import most_used
from skillopt_mcp.backends.api.clients import LIMITS, Crew, PerLoop, is_unsent, patience, tls
from skillopt_mcp.backends.api.endpoints import Endpoint, find_endpoint
from skillopt_mcp.backends.api.faults import Origin, Rejection, cause, rejection, rejection_fault
from skillopt_mcp.backends.api.messages import LAYOUT, Prompt, prompt_of
from skillopt_mcp.backends.api.openai_wire import (
    ChatBody,
    Manner,
    ResponsesBody,
    Settings,
    is_chat,
    plainer,
    request_body,
)
from skillopt_mcp.backends.api.options import PricedOptions, parse_options
from skillopt_mcp.backends.api.prices import Price, find_price
from skillopt_mcp.backends.api.scouting import Scouting
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.errors import Unset
from skillopt_mcp.records.calls import Call, Fault, Reply, Usage

HOME = "https://api.openai.com/v1"
_VENDOR = "api.openai.com"
_MANNERS = 4


class OpenAIOptions(PricedOptions):
    """What `openai:` may be told. With `azure=on` the model is the name of a deployment."""

    provider: ClassVar[str] = "openai"
    api: Literal["auto", "responses", "chat"] = "auto"
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    azure: bool = False
    api_version: str | None = None


class _Connections(Crew[openai.AsyncOpenAI]):
    """The clients of one event loop, and whose turn it is there to find out how the server wants to be asked."""

    def __init__(self, make: Callable[[], openai.AsyncOpenAI]) -> None:
        super().__init__(make)
        self.scouting = Scouting()


class OpenAIBackend:
    """Answers calls by one model; what a server turned out not to understand is not said to it again."""

    deferred = False
    n_slots = 16

    def __init__(self, options: OpenAIOptions, endpoint: Endpoint, price: Price | None) -> None:
        self.name = options.spelled()
        self.fingerprint = f"{options.identity()},at={endpoint.place},layout={LAYOUT}"
        self.options, self.endpoint, self.price = options, endpoint, price
        self.origin = Origin(options.model, endpoint)
        self._settings = Settings(options.model, options.max_tokens, options.temperature, options.effort)
        self.manner = Manner(
            api="chat" if options.api == "chat" else "responses",
            structured=options.structured,
            limit="max_completion_tokens" if options.azure or endpoint.host == _VENDOR else "max_tokens",
        )
        self._understood: set[tuple[Manner, bool]] = set()
        self._crews = PerLoop(lambda: _Connections(self._client))

    async def complete(self, call: Call) -> Reply:
        """Return the answer to one attempt at `call`. Raises BackendFault when the attempt failed."""
        prompt = prompt_of(call)
        crew = await self._crews.get()
        async with crew.scouting.turn(partial(self._is_unknown, prompt)), self.connected() as client:
            response, manner = await self._send(client, prompt)
        return self.reply_in(response.content, response.headers.get("content-type", ""), manner, prompt)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[openai.AsyncOpenAI]:
        """Enter with a client for one request; whatever it raises becomes a BackendFault."""
        crew = await self._crews.get()
        with openai_faults(self.origin):
            async with crew.client() as client, asyncio.timeout(self.options.timeout):
                yield client

    def request(self, call: Call) -> tuple[Manner, dict[str, object]]:
        """Return how a call is put now, and the JSON body of its request."""
        return self.manner, request_body(prompt_of(call), self._settings, self.manner)

    def reply_in(self, body: bytes, content_type: str, manner: Manner, prompt: Prompt | None = None) -> Reply:
        """Return the reply that a response to the prompt holds. Raises BackendFault when there is none in it."""
        if manner.api == "responses":
            answer = self._responses(body, content_type).answer()
        else:
            answer = parse_body(body, content_type, ChatBody, self.origin).answer()
        return reply_of(answer, self.origin, self.price, prompt.system + prompt.user if prompt else "")

    def _responses(self, body: bytes, content_type: str) -> ResponsesBody:
        try:
            return parse_body(body, content_type, ResponsesBody, self.origin)
        except BackendFault as fault:
            if not is_chat(body):
                raise
            what = "it answers /responses in the shape of the Chat Completions API"
            cure = f"name that API in the spec: openai:{self.options.model},api=chat"
            raise self.origin.fault("malformed", what, fix=cure) from fault

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt at `call` can use, None when nothing limits the answer."""
        return most_used(prompt_of(call), self.options.max_tokens, self.price)

    def _is_unknown(self, prompt: Prompt) -> bool:
        """Return whether the server may yet turn down the manner in which a prompt would be put."""
        manner, has_schema = self.manner, prompt.reply is not None and self.manner.structured
        is_tried = manner.api == "responses" and self.options.api == "auto"
        is_tried = is_tried or has_schema or (manner.api == "chat" and self.options.max_tokens is not None)
        understood = (manner, True) in self._understood or (manner, has_schema) in self._understood
        return is_tried and not understood and self.endpoint.host != _VENDOR

    async def _send(self, client: openai.AsyncOpenAI, prompt: Prompt) -> tuple[httpx2.Response, Manner]:
        """Return the response, and the manner in which it was got: each that is rejected gives way to a plainer one."""
        for more in reversed(range(_MANNERS)):
            manner = self.manner
            body = request_body(prompt, self._settings, manner)
            try:
                response = await client.post(manner.path, body=body, cast_to=httpx2.Response)
                self._understood.add((manner, prompt.reply is not None and manner.structured))
                return response, manner
            except openai.APIStatusError as error:
                may_chat, had_schema = self.options.api == "auto", prompt.reply is not None
                found = plainer(manner, _rejection(error), may_chat=may_chat, had_schema=had_schema)
                if found is None or not more:
                    raise
                if self.manner == manner:
                    self.manner = found
        raise AssertionError("unreachable")

    def _client(self) -> openai.AsyncOpenAI:
        timeout = patience(self.options.timeout)
        http = openai.DefaultAsyncHttpxClient(limits=LIMITS, timeout=timeout, verify=tls(), follow_redirects=False)
        key, at = self.endpoint.secret, self.endpoint.base_url
        if not self.options.azure:
            return openai.AsyncOpenAI(api_key=key.value, base_url=at, max_retries=0, timeout=timeout, http_client=http)
        version = self.options.api_version
        if key.name == _AZURE_TOKEN:
            return openai.AsyncAzureOpenAI(
                azure_ad_token=key.value, azure_endpoint=at, api_version=version, max_retries=0, timeout=timeout,
                http_client=http,
            )  # fmt: skip
        return openai.AsyncAzureOpenAI(
            api_key=key.value, azure_endpoint=at, api_version=version, max_retries=0, timeout=timeout, http_client=http
        )


_AZURE_TOKEN = "AZURE_OPENAI_AD_TOKEN"
_FAULTS: tuple[tuple[type[Exception], Fault, str], ...] = (
    (openai.APITimeoutError, "timeout", "no answer in time"),
    (openai.APIConnectionError, "connection", "the connection failed"),
    (openai.APIResponseValidationError, "malformed", "the response is not what the SDK expects"),
    (openai.LengthFinishReasonError, "truncated", "the answer was cut off"),
    (openai.ContentFilterFinishReasonError, "refusal", "the answer was filtered"),
    (openai.WebSocketConnectionClosedError, "connection", "the connection was closed"),
    (openai.OpenAIError, "internal", "the SDK failed"),
    (httpx2.TimeoutException, "timeout", "no answer in time"),
    (httpx2.HTTPError, "connection", "the connection failed"),
    (TimeoutError, "timeout", "no answer in time"),
)


@contextmanager
def openai_faults(origin: Origin) -> Iterator[None]:
    """Turn whatever the SDK raises into a BackendFault."""
    try:
        yield
    except openai.APIStatusError as error:
        raise rejection_fault(_rejection(error), origin) from None
    except (openai.OpenAIError, httpx2.HTTPError, TimeoutError) as error:
        if is_unsent(error):
            raise origin.unsent(error) from None
        fault, what = next((fault, what) for kind, fault, what in _FAULTS if isinstance(error, kind))
        raise origin.fault(fault, cause(what, error)) from None


def open_openai(text: str, environ: Mapping[str, str] = os.environ) -> OpenAIBackend:
    """Return the backend of "MODEL,name=value,...". Raises BackendError when it is not configured, saying how."""
    options = parse_options(text, OpenAIOptions)
    if options.azure:
        return _open_azure(options, environ)
    base_url = options.base_url or environ.get("OPENAI_BASE_URL") or HOME
    if base_url != HOME:
        options = options.model_copy(update={"base_url": base_url})
    endpoint = find_endpoint(options, base_url, ("OPENAI_API_KEY",), environ)
    return OpenAIBackend(options, endpoint, find_price(options, endpoint.host, environ))


def _open_azure(options: OpenAIOptions, environ: Mapping[str, str]) -> OpenAIBackend:
    base_url = options.base_url or environ.get("AZURE_OPENAI_ENDPOINT")
    version = options.api_version or environ.get("OPENAI_API_VERSION")
    if not base_url or not version:
        missing = "AZURE_OPENAI_ENDPOINT (or base_url=)" if not base_url else "OPENAI_API_VERSION (or api_version=)"
        raise Unset(f"'openai:{options.model},azure=on' is not configured: set {missing}")
    options = options.model_copy(update={"base_url": base_url, "api_version": version})
    endpoint = find_endpoint(options, base_url, (_AZURE_TOKEN, "AZURE_OPENAI_API_KEY"), environ)
    return OpenAIBackend(options, endpoint, find_price(options, endpoint.host, environ))


def _rejection(error: openai.APIStatusError) -> Rejection:
    return rejection(error.status_code, error.body, error.response.headers)
