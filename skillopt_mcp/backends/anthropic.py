"""Anthropic: models behind the Messages API; what many calls share is cached."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Literal

import anthropic
import httpx2
from pydantic import Field

from skillopt_mcp.backends.api.answers import Answer, VendorPart, body_of, is_counted, reply_of
from skillopt_mcp.backends.api.clients import LEAST_CHARACTERS, WARM_S, FirstCall, Sdk, client_options, rejection_of
from skillopt_mcp.backends.api.faults import Endpoint
from skillopt_mcp.backends.api.prices import Price, PricedOptions, Tokens, Vendor, parse_options
from skillopt_mcp.backends.api.prompts import Prompt, prompt_of, strict_schema
from skillopt_mcp.backends.api.vendor import ApiBackend, configure, resolve_vendor
from skillopt_mcp.backends.registry import backend
from skillopt_mcp.core.calls import Call, Fault, Reply, served_name
from skillopt_mcp.core.errors import BackendError

HOME = "https://api.anthropic.com"
PATH = "/v1/messages"
_ANTHROPIC = Vendor(HOME, "ANTHROPIC_BASE_URL", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"))
_FORMAT_WORDS = ("output_config", "output_format", "json_schema", "structured")
_ENDS: dict[str, Fault] = {
    "max_tokens": "truncated",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_too_long",
    "pause_turn": "truncated",
}
# A prompt is in the cache when its answer begins, after about so long: longer no call waits for the first.
READ_S = 2.0
Body = dict[str, object]


class AnthropicOptions(PricedOptions):
    """The options of `anthropic:`."""

    provider: ClassVar[str] = "anthropic"
    max_tokens: int = Field(default=16_000, ge=1)
    thinking: Literal["adaptive", "disabled"] | int | None = Field(
        default=None, description="a number of tokens (1024 or more, and less than max_tokens), adaptive or disabled"
    )
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None

    @property
    def vendor(self) -> Vendor:
        return _ANTHROPIC


def request_body(prompt: Prompt, options: AnthropicOptions, *, structured: bool) -> Body:
    """Return the JSON body of a request, with a cache breakpoint behind each part that other calls share."""
    body: Body = {"model": options.model, "max_tokens": options.max_tokens}
    body["system"] = [{"type": "text", "text": part, "cache_control": {"type": "ephemeral"}} for part in prompt.parts]
    body["messages"] = [{"role": "user", "content": [{"type": "text", "text": prompt.user}]}]
    if isinstance(options.thinking, int):
        body["thinking"] = {"type": "enabled", "budget_tokens": options.thinking}
    elif options.thinking:
        body["thinking"] = {"type": options.thinking}
    output: Body = {"effort": options.effort} if options.effort else {}
    if structured and prompt.reply:
        output["format"] = {"type": "json_schema", "schema": strict_schema(prompt.reply)}
    return body | ({"output_config": output} if output else {})


class _AnthropicBlock(VendorPart):
    type: str
    text: str | None = None
    thinking: str | None = None


class _Usage(VendorPart):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None

    def tokens(self) -> Tokens | None:
        """The tokens that were used, None when the server does not say so."""
        cached, written = max(0, self.cache_read_input_tokens or 0), max(0, self.cache_creation_input_tokens or 0)
        fresh, output = self.input_tokens, self.output_tokens
        if fresh is None or output is None or fresh < 0 or not is_counted(fresh + cached + written, output):
            return None
        return Tokens(fresh=fresh, cached=cached, cache_write=written, output=output)


class MessageBody(VendorPart):
    """A response of the Messages API."""

    content: list[_AnthropicBlock]
    stop_reason: str | None = None
    usage: _Usage | None = None
    model: object = None

    def answer(self) -> Answer:
        """The model's answer."""
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
    """Answers calls by one model. Of calls that share a long skill the first goes ahead and writes the cache."""

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
        prefix, cache = prompt.system, FirstCall(READ_S, WARM_S)
        # One that is too short to be cached waits for no other.
        if len(prefix) >= LEAST_CHARACTERS:
            cache = pool.warming.setdefault(prefix, cache)
        async with cache.take_turn(), pool.probe.take_turn(partial(self._is_unknown, prompt)):
            async with self.connect() as client:
                response = await self._send(client, prompt)
            body = body_of(response, MessageBody, self.origin)
        return reply_of(body.answer(), self.origin, self.price, self.options.max_tokens, prompt)

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
        options = client_options(anthropic.DefaultAsyncHttpxClient, self.options.timeout)
        return anthropic.AsyncAnthropic(api_key=self.endpoint.secret.value, base_url=self.endpoint.base_url, **options)


@backend(
    "anthropic",
    answers="the vendor's API",
    needs="`ANTHROPIC_API_KEY`",
    has_options=True,
    resolve=partial(resolve_vendor, AnthropicOptions),
)
def open_anthropic(text: str, environ: Mapping[str, str] = os.environ) -> AnthropicBackend:
    """Return the backend of "MODEL,name=value,...". Raises BackendError when it is not configured."""
    options = parse_options(text, AnthropicOptions)
    budget = options.thinking
    if isinstance(budget, int) and not 1024 <= budget < options.max_tokens:
        raise BackendError(
            f"'thinking' of 'anthropic:{options.model}' must be at least 1024, and less than max_tokens, "
            f"which is {options.max_tokens}"
        )
    return AnthropicBackend(*configure(options, environ))
