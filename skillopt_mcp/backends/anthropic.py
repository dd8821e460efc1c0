"""Anthropic: models behind the Messages and the Message Batches API; what a batch shares is cached."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import ClassVar, Literal

import anthropic
import httpx2
from pydantic import Field
from pydantic_core import to_json

from skillopt_mcp.backends.api.answers import Answer, Wire, body_of, counted, parse_body, reply_of
from skillopt_mcp.backends.api.clients import Sdk, http_client, rejection_of, time_limits
from skillopt_mcp.backends.api.faults import Endpoint, find_endpoint
from skillopt_mcp.backends.api.prices import Price, PricedOptions, Tokens, find_price, parse_options
from skillopt_mcp.backends.api.prompts import Prompt, prompt_of, strict_schema
from skillopt_mcp.backends.api.vendor import DAY_S, ApiBackend, ApiBatch, Page, ResultLine, VendorBatch
from skillopt_mcp.backends.base import Backend, BackendFault
from skillopt_mcp.backends.batches import BatchStatus, Item, Located, Result, Tag
from skillopt_mcp.backends.registry import backend
from skillopt_mcp.errors import BackendError
from skillopt_mcp.records.calls import Call, Fault, Reply, served_name

HOME = "https://api.anthropic.com"
PATH = "/v1/messages"
_FORMAT_WORDS = ("output_config", "output_format", "json_schema", "structured")
_ENDS: dict[str, Fault] = {
    "max_tokens": "truncated",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_too_long",
    "pause_turn": "truncated",
}
Body = dict[str, object]


class AnthropicOptions(PricedOptions):
    """The options of `anthropic:`."""

    provider: ClassVar[str] = "anthropic"
    max_tokens: int = Field(default=16_000, ge=1)
    thinking: Literal["adaptive", "disabled"] | int | None = Field(
        default=None, description="a number of tokens (1024 or more, and less than max_tokens), adaptive or disabled"
    )
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


def request_body(prompt: Prompt, options: AnthropicOptions, *, structured: bool) -> Body:
    """Return the JSON body of a request, with a cache breakpoint behind all that the batch shares."""
    body: Body = {"model": options.model, "max_tokens": options.max_tokens}
    body["system"] = [_text(prompt.system, cached=not prompt.shared)]
    parts = [_text(prompt.shared, cached=True), _text(prompt.own, cached=False)]
    body["messages"] = [{"role": "user", "content": [part for part in parts if part["text"]]}]
    if isinstance(options.thinking, int):
        body["thinking"] = {"type": "enabled", "budget_tokens": options.thinking}
    elif options.thinking:
        body["thinking"] = {"type": options.thinking}
    output: Body = {"effort": options.effort} if options.effort else {}
    if structured and prompt.reply:
        output["format"] = {"type": "json_schema", "schema": strict_schema(prompt.reply)}
    return body | ({"output_config": output} if output else {})


def _text(text: str, *, cached: bool) -> Body:
    block: Body = {"type": "text", "text": text}
    return block | ({"cache_control": {"type": "ephemeral"}} if cached else {})


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


class AnthropicBackend(ApiBackend[AnthropicOptions]):
    """Answers calls by one model. Of a batch with a long skill the first call goes ahead and writes the cache."""

    sdk = Sdk(
        anthropic.AnthropicError,
        anthropic.APIStatusError,
        {
            anthropic.APITimeoutError: ("connection", "no answer in time"),
            anthropic.APIConnectionError: ("connection", "the connection failed"),
            anthropic.APIResponseValidationError: ("connection", "the response is not what the SDK expects"),
            anthropic.APIWebhookValidationError: ("connection", "the response is not what the SDK expects"),
            anthropic.CredentialsError: ("auth", "no credentials were found"),
            anthropic.RetryableError: ("server", "the SDK asks for a retry"),
        },
    )

    def __init__(self, options: AnthropicOptions, endpoint: Endpoint, price: Price | None) -> None:
        super().__init__(options, endpoint, price)
        # Whether replies are held to a schema, and whether the server is known to do that.
        self.structured, self._is_known = options.structured, endpoint.base_url == HOME

    async def complete(self, call: Call) -> Reply:
        prompt = prompt_of(call)
        pool = await self.pools.get()
        cache, probe = pool.warming(prompt.system + prompt.shared), pool.probe
        async with cache.taken(), probe.taken(partial(self._is_unknown, prompt)):
            async with self.connected() as client:
                response = await self._send(client, prompt)
            body = body_of(response, MessageBody, self.origin)
        return reply_of(body.answer(), self.origin, self.price, prompt.system + prompt.user)

    def _is_unknown(self, prompt: Prompt) -> bool:
        return prompt.reply is not None and self.structured and not self._is_known

    async def _send(self, client: anthropic.AsyncAnthropic, prompt: Prompt) -> httpx2.Response:
        """Return the response; a server that cannot hold replies to a schema is asked for that once."""
        while True:
            structured = self.structured
            body = request_body(prompt, self.options, structured=structured)
            try:
                response = await client.post(PATH, body=body, cast_to=httpx2.Response)
                self._is_known = self._is_known or (structured and prompt.reply is not None)
                return response
            except anthropic.APIStatusError as error:
                text = rejection_of(error).text.lower()
                is_of_schema = error.status_code in (400, 422) and any(word in text for word in _FORMAT_WORDS)
                if not (is_of_schema and structured and prompt.reply):
                    raise
                self.structured = False

    def _client(self) -> anthropic.AsyncAnthropic:
        timeout = time_limits(self.options.timeout)
        http = http_client(anthropic.DefaultAsyncHttpxClient, self.options.timeout)
        key, at = self.endpoint.secret, self.endpoint.base_url
        return anthropic.AsyncAnthropic(
            api_key=key.value, base_url=at, max_retries=0, timeout=timeout, http_client=http
        )


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


class _Batch(VendorBatch):
    processing_status: str = "in_progress"
    request_counts: _Counts = _Counts()
    created_at: datetime | None = None
    cancel_initiated_at: datetime | None = None


class _Error(Wire):
    type: str = ""
    message: str = ""


class _Errored(_Error):
    error: _Error | None = None


class _Outcome(Wire):
    type: str
    message: object = None
    error: _Errored | None = None


class _Line(ResultLine):
    result: _Outcome


class AnthropicBatch(ApiBatch[AnthropicBackend]):
    """Anthropic's Message Batches API.

    A batch has no tag there: the names of its calls carry it, and can be read once it is over.
    """

    path = f"{PATH}/batches"
    cursor = "after_id"

    def line(self, item: Item) -> bytes:
        asked = self._backend
        body = request_body(prompt_of(item.call), asked.options, structured=asked.structured)
        return to_json({"custom_id": item.name, "params": body})

    async def submit(self, tag: Tag, lines: Sequence[bytes]) -> str:
        content = b'{"requests":[' + b",".join(lines) + b"]}"
        options = {"headers": {"content-type": "application/json"}}
        response = await self._backend.send("post", self.path, content=content, options=options)
        return body_of(response, _Batch, self._origin).id

    async def find(self, tag: Tag, known: Collection[str]) -> Located:
        """Return the batch whose calls carry the tag. One of as many calls that is not over may be it, or not."""
        is_certain = True
        async for batch in self._list(Page[_Batch]):
            if batch.created_at and batch.created_at.timestamp() < tag.opened_at - DAY_S:
                break
            n_calls = batch.request_counts.processing + batch.request_counts.n_done
            if batch.id in known or n_calls != tag.n_calls:
                continue
            if batch.processing_status != "ended":
                is_certain = False
            elif any(name.startswith(f"{tag.id}-") for name in await self.results(batch.id)):
                return Located(batch.id)
        return Located(None, is_certain)

    async def look(self, vendor_id: str) -> BatchStatus:
        batch = await self._get(vendor_id, _Batch)
        is_cancelled = batch.cancel_initiated_at is not None
        return BatchStatus(batch.processing_status == "ended", batch.request_counts.n_done, is_cancelled)

    async def results(self, vendor_id: str) -> Mapping[str, Result]:
        # By its path, not by the URL that the response names: the key goes to our endpoint alone.
        return await self._results(f"{self.path}/{vendor_id}/results", _Line, self._result)

    async def forget(self, vendor_id: str) -> None:
        await self._backend.send("delete", f"{self.path}/{vendor_id}")

    def _result(self, line: _Line) -> Result:
        outcome = line.result
        if outcome.type == "canceled":
            return None
        if outcome.type == "expired":
            return self._expired()
        if outcome.type != "succeeded":
            error = (outcome.error and outcome.error.error) or outcome.error or _Error()
            return self._rejected(_STATUS.get(error.type, 500), error.type, error.message)
        try:
            body = parse_body(to_json(outcome.message), "application/json", MessageBody, self._origin)
            return reply_of(body.answer(), self._origin, self._backend.price)
        except BackendFault as fault:
            return fault


def batched(backend: Backend) -> AnthropicBatch | None:
    """Return the backend as its Message Batches API answers for it, None where it is another vendor's."""
    return AnthropicBatch(backend) if isinstance(backend, AnthropicBackend) else None


@backend("anthropic", answers="the vendor's API", needs="`ANTHROPIC_API_KEY`", has_options=True, batched=batched)
def open_anthropic(text: str, environ: Mapping[str, str] = os.environ) -> AnthropicBackend:
    """Return the backend of "MODEL,name=value,...". Raises BackendError when it is not configured."""
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
