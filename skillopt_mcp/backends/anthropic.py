"""Anthropic: models behind the Messages and the Message Batches API; what a batch shares is cached."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import ClassVar, Literal

import anthropic
import httpx2
from pydantic import Field
from pydantic_core import to_json

from skillopt_mcp.backends.api.answers import (
    DAY_S,
    MOST_BYTES,
    Answer,
    Wire,
    body_of,
    counted,
    expired,
    lines_of,
    not_immediate,
    parse_body,
    rejected,
    reply_of,
)
from skillopt_mcp.backends.api.clients import LIMITS, Crew, PerLoop, Scouting, Warming, is_unsent, patience, tls
from skillopt_mcp.backends.api.faults import (
    Endpoint,
    Origin,
    Rejection,
    cause,
    find_endpoint,
    rejection,
    rejection_fault,
)
from skillopt_mcp.backends.api.prices import Price, PricedOptions, Tokens, find_price, most_used, parse_options
from skillopt_mcp.backends.api.prompts import LAYOUT, Prompt, prompt_of, strict_schema
from skillopt_mcp.backends.base import Backend, BackendFault
from skillopt_mcp.backends.batches import Found, Item, Result, Standing, Tag
from skillopt_mcp.backends.registry import backend
from skillopt_mcp.errors import BackendError
from skillopt_mcp.records.calls import Call, Fault, Reply, Usage, served_name

Body = dict[str, object]
PATH = "/v1/messages"
FORMAT_WORDS = ("output_config", "output_format", "json_schema", "structured")
_ENDS: dict[str, Fault] = {
    "max_tokens": "truncated",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_too_long",
    "pause_turn": "truncated",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a request; None leaves a setting to the server."""

    model: str
    max_tokens: int
    thinking: int | str | None
    effort: str | None


def request_body(prompt: Prompt, settings: Settings, *, structured: bool) -> Body:
    """Return the JSON body of a request, with a cache breakpoint behind all that the batch shares."""
    body: Body = {"model": settings.model, "max_tokens": settings.max_tokens}
    body["system"] = [_text(prompt.system, cached=not prompt.shared)]
    parts = [_text(prompt.shared, cached=True), _text(prompt.own, cached=False)]
    body["messages"] = [{"role": "user", "content": [part for part in parts if part["text"]]}]
    if isinstance(settings.thinking, int):
        body["thinking"] = {"type": "enabled", "budget_tokens": settings.thinking}
    elif settings.thinking:
        body["thinking"] = {"type": settings.thinking}
    output: Body = {"effort": settings.effort} if settings.effort else {}
    if structured and prompt.reply:
        output["format"] = {"type": "json_schema", "schema": strict_schema(prompt.reply)}
    return body | ({"output_config": output} if output else {})


class _Block(Wire):
    type: str
    text: str | None = None
    thinking: str | None = None


class _Usage(Wire):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None

    def tokens(self) -> Tokens | None:
        """Return what was used, None when the server does not say so."""
        cached, written = max(0, self.cache_read_input_tokens or 0), max(0, self.cache_creation_input_tokens or 0)
        fresh, output = self.input_tokens, self.output_tokens
        if fresh is None or output is None or fresh < 0 or not counted(fresh + cached + written, output):
            return None
        return Tokens(fresh=fresh, cached=cached, cache_write=written, output=output)


class MessageBody(Wire):
    """A response of the Messages API."""

    content: list[_Block]
    stop_reason: str | None = None
    usage: _Usage | None = None
    model: object = None

    def answer(self) -> Answer:
        """Return what the model answered."""
        ending = self.stop_reason or "end_turn"
        fault = _ENDS.get(ending)
        return Answer(
            text="".join(block.text or "" for block in self.content if block.type == "text"),
            thoughts="\n\n".join(block.thinking or "" for block in self.content if block.type == "thinking"),
            tokens=self.usage.tokens() if self.usage else None,
            fault=fault,
            reason=f"the answer ended with '{ending}'" if fault else "",
            served=served_name(self.model),
        )


def _text(text: str, *, cached: bool) -> Body:
    block: Body = {"type": "text", "text": text}
    return block | ({"cache_control": {"type": "ephemeral"}} if cached else {})


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
    concurrency = 16

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
    (anthropic.APITimeoutError, "connection", "no answer in time"),
    (anthropic.APIConnectionError, "connection", "the connection failed"),
    (anthropic.APIResponseValidationError, "connection", "the response is not what the SDK expects"),
    (anthropic.APIWebhookValidationError, "connection", "the response is not what the SDK expects"),
    (anthropic.CredentialsError, "auth", "no credentials could be had"),
    (anthropic.RetryableError, "server", "the SDK asks to try again"),
    (anthropic.AnthropicError, "internal", "the SDK failed"),
    (httpx2.TimeoutException, "connection", "no answer in time"),
    (httpx2.HTTPError, "connection", "the connection failed"),
    (TimeoutError, "connection", "no answer in time"),
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


def _rejection(error: anthropic.APIStatusError) -> Rejection:
    return rejection(error.status_code, error.body, error.response.headers)


_BATCHES = f"{PATH}/batches"
_PAGE = 100
_STATUS = {
    "invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
    "not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429, "api_error": 500,
    "timeout_error": 504, "overloaded_error": 529,
}  # fmt: skip


class _Counts(Wire):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def n_done(self) -> int:
        return self.succeeded + self.errored + self.canceled + self.expired


class _Batch(Wire):
    id: str
    processing_status: str = "in_progress"
    request_counts: _Counts = _Counts()
    created_at: datetime | None = None
    cancel_initiated_at: datetime | None = None


class _Page(Wire):
    data: list[_Batch]
    has_more: bool = False


class _Error(Wire):
    type: str = ""
    message: str = ""


class _Errored(Wire):
    type: str = ""
    message: str = ""
    error: _Error | None = None


class _Outcome(Wire):
    type: str
    message: object = None
    error: _Errored | None = None


class _Line(Wire):
    custom_id: str
    result: _Outcome


class AnthropicBatch:
    """Has calls answered by Anthropic's Message Batches API, at the price of that.

    A batch has no tag there: the names of its calls carry it, and are only told once it is over.
    """

    deferred = True
    most_calls = 20_000
    most_bytes = MOST_BYTES

    def __init__(self, backend: AnthropicBackend) -> None:
        self.name, self.fingerprint, self.concurrency = backend.name, backend.fingerprint, backend.concurrency
        price = backend.price
        self.discount = price.batch if price else 1.0
        self._price = price.by_batch() if price else None
        self._asked = AnthropicBackend(backend.options, backend.endpoint, self._price)
        self._origin = backend.origin

    async def complete(self, call: Call) -> Reply:
        """Raise BackendFault: a batch API answers nothing at once."""
        raise not_immediate()

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that a call can use, None when nothing limits the answer."""
        return self._asked.worst_case(call)

    def line(self, item: Item) -> bytes:
        """Return a call as one of the requests of a batch."""
        return to_json({"custom_id": item.name, "params": self._asked.request(item.call)})

    async def submit(self, tag: Tag, lines: Sequence[bytes]) -> str:
        """Return the id of a new batch."""
        content = b'{"requests":[' + b",".join(lines) + b"]}"
        async with self._asked.connected() as client:
            response = await client.post(
                _BATCHES,
                content=content,
                options={"headers": {"content-type": "application/json"}},
                cast_to=httpx2.Response,
            )
        return body_of(response, _Batch, self._origin).id

    async def find(self, tag: Tag, known: Collection[str]) -> Found:
        """Return the batch whose calls carry the tag. One of as many calls that is not over may be it, or not."""
        is_certain = True
        for batch in await self._since(tag.opened_at - DAY_S):
            n_calls = batch.request_counts.processing + batch.request_counts.n_done
            if batch.id in known or n_calls != tag.n_calls:
                continue
            if batch.processing_status != "ended":
                is_certain = False
            elif any(name.startswith(f"{tag.id}-") for name in await self.results(batch.id)):
                return Found(batch.id)
        return Found(None, is_certain)

    async def look(self, vendor_id: str) -> Standing:
        """Return how far a batch is."""
        async with self._asked.connected() as client:
            response = await client.get(f"{_BATCHES}/{vendor_id}", cast_to=httpx2.Response)
        batch = body_of(response, _Batch, self._origin)
        is_cancelled = batch.cancel_initiated_at is not None
        return Standing(batch.processing_status == "ended", batch.request_counts.n_done, is_cancelled)

    async def results(self, vendor_id: str) -> Mapping[str, Result]:
        """Return what became of each call."""
        # By its path, not by the URL that the response names: the key goes to our endpoint alone.
        async with self._asked.connected() as client:
            response = await client.get(f"{_BATCHES}/{vendor_id}/results", cast_to=httpx2.Response)
        return {line.custom_id: self._result(line.result) for line in lines_of(response.content, _Line, self._origin)}

    async def cancel(self, vendor_id: str) -> None:
        """Ask for no more answers of a batch."""
        async with self._asked.connected() as client:
            await client.post(f"{_BATCHES}/{vendor_id}/cancel", cast_to=httpx2.Response)

    async def forget(self, vendor_id: str) -> None:
        """Delete a batch that is over: prompts and answers."""
        async with self._asked.connected() as client:
            await client.delete(f"{_BATCHES}/{vendor_id}", cast_to=httpx2.Response)

    async def _since(self, seconds: float) -> list[_Batch]:
        """Return the batches that the vendor began since then, newest first."""
        found: list[_Batch] = []
        after: str | None = None
        while True:
            query = f"?limit={_PAGE}" + (f"&after_id={after}" if after else "")
            async with self._asked.connected() as client:
                response = await client.get(f"{_BATCHES}{query}", cast_to=httpx2.Response)
            page = body_of(response, _Page, self._origin)
            young = [batch for batch in page.data if not batch.created_at or batch.created_at.timestamp() >= seconds]
            found += young
            if not page.data or len(young) < len(page.data) or not page.has_more or page.data[-1].id == after:
                return found
            after = page.data[-1].id

    def _result(self, outcome: _Outcome) -> Result:
        if outcome.type == "canceled":
            return None
        if outcome.type == "expired":
            return expired(self._origin)
        if outcome.type != "succeeded":
            error = (outcome.error and outcome.error.error) or outcome.error or _Error()
            return rejected(_STATUS.get(error.type, 500), error.type, error.message, self._origin)
        try:
            body = parse_body(to_json(outcome.message), "application/json", MessageBody, self._origin)
            return reply_of(body.answer(), self._origin, self._price)
        except BackendFault as fault:
            return fault


def batched(backend: Backend) -> AnthropicBatch | None:
    """Return the backend as its Message Batches API answers for it, None where it is another vendor's."""
    return AnthropicBatch(backend) if isinstance(backend, AnthropicBackend) else None


@backend("anthropic", answers="the vendor's API", needs="`ANTHROPIC_API_KEY`", has_options=True, batched=batched)
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
