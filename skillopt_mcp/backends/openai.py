"""OpenAI: models behind the Responses or the Chat Completions API: OpenAI's, Azure's, or any compatible server."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import httpx2
import openai
from pydantic import Field, ValidationError

from skillopt_mcp.backends.api.answers import Answer, VendorPart, body_of, is_counted, reply_of
from skillopt_mcp.backends.api.clients import Sdk, client_options, rejection_of
from skillopt_mcp.backends.api.faults import CONTEXT, Endpoint, Rejection
from skillopt_mcp.backends.api.prices import Price, PricedOptions, Tokens, Vendor, parse_options
from skillopt_mcp.backends.api.prompts import Prompt, prompt_of, strict_schema
from skillopt_mcp.backends.api.vendor import ApiBackend, configure, resolve_vendor
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.registry import backend
from skillopt_mcp.core.calls import CONFIGURATION, Call, Fault, Reply, served_name
from skillopt_mcp.core.errors import Unset

HOME = "https://api.openai.com/v1"
_AZURE_TOKEN = "AZURE_OPENAI_AD_TOKEN"
_OPENAI = Vendor(HOME, "OPENAI_BASE_URL", ("OPENAI_API_KEY",))
_AZURE = Vendor("", "AZURE_OPENAI_ENDPOINT", (_AZURE_TOKEN, "AZURE_OPENAI_API_KEY"))
_FORMAT_WORDS = ("response_format", "text.format", "json_schema", "schema", "structured", "grammar", "guided")
_MAX_DIALECTS = 4
Body = dict[str, object]
LimitName = Literal["max_completion_tokens", "max_tokens"]
Api = Literal["responses", "chat"]


class OpenAIOptions(PricedOptions):
    """The options of `openai:`. With `azure=on` the model is the name of a deployment."""

    provider: ClassVar[str] = "openai"
    api: Literal["auto", "responses", "chat"] = "auto"
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    azure: bool = False
    api_version: str | None = None

    @property
    def vendor(self) -> Vendor:
        return _AZURE if self.azure else _OPENAI


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a server is asked: the API, replies held to a schema or not, and the name of its limit of tokens.

    `keyed`: calls that begin alike name that by one key, which leads them to one cache. OpenAI's own servers know it.
    """

    api: Api
    structured: bool
    limit: LimitName
    keyed: bool = False

    @property
    def path(self) -> str:
        """Return the path of the API below the base URL."""
        return "/responses" if self.api == "responses" else "/chat/completions"


def request_body(prompt: Prompt, options: OpenAIOptions, dialect: Dialect) -> Body:
    """Return the JSON body of a request; None leaves a setting to the server."""
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    schema: Body = {}
    if dialect.structured and prompt.reply:
        schema = {"name": prompt.reply.__name__, "strict": True, "schema": strict_schema(prompt.reply)}
    body: Body = {"model": options.model, "temperature": options.temperature}
    if dialect.keyed and prompt.parts:
        body["prompt_cache_key"] = hashlib.sha256(prompt.parts[0].encode()).hexdigest()[:32]
    if dialect.api == "chat":
        body |= {"messages": messages, dialect.limit: options.max_tokens, "reasoning_effort": options.effort}
        body["response_format"] = {"type": "json_schema", "json_schema": schema} if schema else None
    else:
        # Without `store` the vendor keeps every prompt and answer for a month.
        body |= {"instructions": prompt.system, "input": messages[1:], "store": False}
        body["max_output_tokens"] = options.max_tokens
        body["reasoning"] = {"effort": options.effort} if options.effort else None
        body["text"] = {"format": {"type": "json_schema", **schema}} if schema else None
    return {name: value for name, value in body.items() if value is not None}


def simpler_dialect(dialect: Dialect, rejected: Rejection, *, second: Api | None, had_schema: bool) -> Dialect | None:
    """The next way to ask a server that rejected `dialect`, None when the dialect is not the reason.

    `second` is the API that is asked where a server has not the first, None where the spec names one.
    """
    text = rejected.text.lower()
    # Only these say that the server could not use the request as it was put.
    if rejected.status not in (400, 404, 405, 415, 422, 501):
        return None
    if rejected.status in (404, 405, 501):
        no_model = "model" in text or "deployment" in text
        return replace(dialect, api=second) if second and second != dialect.api and not no_model else None
    if had_schema and dialect.structured and any(word in text for word in _FORMAT_WORDS):
        return replace(dialect, structured=False)
    if dialect.api == "chat" and dialect.limit in text and "unsupported" in text:
        other: LimitName = "max_tokens" if dialect.limit == "max_completion_tokens" else "max_completion_tokens"
        return replace(dialect, limit=other)
    return None


class _OutputText(VendorPart):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _OutputItem(VendorPart):
    type: str
    content: list[_OutputText] | None = None
    summary: list[_OutputText] | None = None


class _Details(VendorPart):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OpenAIError(VendorPart):
    code: str | int | None = None
    message: str | None = None

    @property
    def fault(self) -> Fault:
        """The fault that it means."""
        is_too_long = CONTEXT.search(f"{self.code} {self.message}")
        return "context_too_long" if is_too_long else _ERRORS.get(str(self.code), "server")


class _Reason(VendorPart):
    reason: str | None = None


class _ResponsesUsage(VendorPart):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None


class ResponsesBody(VendorPart):
    """A response of the Responses API."""

    output: list[_OutputItem]
    status: str | None = None
    error: _OpenAIError | None = None
    incomplete_details: _Reason | None = None
    usage: _ResponsesUsage | None = None
    model: object = None

    def answer(self) -> Answer:
        """The model's answer."""
        parts = [part for item in self.output if item.type == "message" for part in item.content or []]
        thoughts = [part for item in self.output if item.type == "reasoning" for part in item.summary or []]
        refusals = [part.refusal for part in parts if part.refusal]
        fault, reason = self._ending()
        if refusals and fault is None:
            fault, reason = "refusal", f"the model refused: {' '.join(refusals)}"
        usage = self.usage or _ResponsesUsage()
        return Answer(
            text="".join(part.text or "" for part in parts),
            thoughts="\n\n".join(part.text or "" for part in thoughts),
            tokens=_tokens(usage.input_tokens, usage.output_tokens, usage.input_tokens_details),
            fault=fault,
            reason=reason,
            served=served_name(self.model),
        )

    def _ending(self) -> tuple[Fault | None, str]:
        if self.status in (None, "completed"):
            return None, ""
        if self.status == "incomplete":
            reason = (self.incomplete_details.reason if self.incomplete_details else None) or "no reason given"
            return _CUT.get(reason, "truncated"), f"the answer is incomplete: {reason}"
        error = self.error or _OpenAIError()
        return error.fault, f"the response is '{self.status}': {error.code} {error.message or ''}"


class _ChatMessage(VendorPart):
    content: str | list[_OutputText] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(VendorPart):
    message: _ChatMessage
    finish_reason: str | None = None


class _ChatUsage(VendorPart):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None


class ChatBody(VendorPart):
    """A response of the Chat Completions API; some servers send an error with status 200."""

    choices: list[_Choice] | None = None
    error: _OpenAIError | None = None
    usage: _ChatUsage | None = None
    model: object = None
    system_fingerprint: object = None

    def answer(self) -> Answer:
        """The model's answer."""
        usage = self.usage or _ChatUsage()
        details = usage.prompt_tokens_details or _Details(cached_tokens=usage.prompt_cache_hit_tokens)
        tokens = _tokens(usage.prompt_tokens, usage.completion_tokens, details)
        if not self.choices:
            error = self.error or _OpenAIError(message="the response has no choices")
            return Answer("", "", tokens, error.fault, f"{error.code or ''} {error.message or ''}")
        message = self.choices[0].message
        ending = self.choices[0].finish_reason or "stop"
        fault, reason = _CUT.get(ending), f"the answer ended with '{ending}'"
        if message.refusal and fault is None:
            fault, reason = "refusal", f"the model refused: {message.refusal}"
        content = message.content or ""
        text = content if isinstance(content, str) else "".join(part.text or "" for part in content)
        # OpenAI's configuration of the model names it; that of others may differ each time.
        configuration = self.system_fingerprint
        is_openais = isinstance(configuration, str) and configuration.startswith(CONFIGURATION)
        return Answer(
            text,
            thoughts=message.reasoning_content or message.reasoning or "",
            tokens=tokens,
            fault=fault,
            reason=reason if fault else "",
            served=served_name(self.model, configuration if is_openais else None),
        )


_CUT: dict[str, Fault] = {
    "length": "truncated", "max_output_tokens": "truncated", "max_tokens": "truncated", "content_filter": "refusal",
    "insufficient_system_resource": "overloaded",
}  # fmt: skip
_ERRORS: dict[str, Fault] = {
    "rate_limit_exceeded": "rate_limit", "429": "rate_limit", "503": "overloaded", "529": "overloaded", "401": "auth",
    "402": "auth", "403": "auth", "invalid_prompt": "refusal", "None": "connection",
}  # fmt: skip


def _tokens(n_in: int | None, n_out: int | None, details: _Details | None) -> Tokens | None:
    """The tokens that were used, None when the server does not say so."""
    if n_in is None or n_out is None or not is_counted(n_in, n_out):
        return None
    cached = max(0, min(n_in, (details and details.cached_tokens) or 0))
    written = max(0, min(n_in - cached, (details and details.cache_write_tokens) or 0))
    return Tokens(fresh=n_in - cached - written, cached=cached, cache_write=written, output=n_out)


class OpenAIBackend(ApiBackend[OpenAIOptions]):
    """Answers calls by one model; what a server turned out not to understand is not sent to it again."""

    sdk = Sdk(
        openai.OpenAIError,
        openai.APIStatusError,
        {
            openai.APITimeoutError: ("connection", "no answer in time"),
            openai.APIConnectionError: ("connection", "the connection failed"),
            openai.APIResponseValidationError: ("connection", "the response is not what the SDK expects"),
            openai.LengthFinishReasonError: ("truncated", "the answer was cut off"),
            openai.ContentFilterFinishReasonError: ("refusal", "the answer was filtered"),
            openai.WebSocketConnectionClosedError: ("connection", "the connection was closed"),
        },
    )

    def __init__(self, options: OpenAIOptions, endpoint: Endpoint, price: Price | None) -> None:
        super().__init__(options, endpoint, price)
        is_vendors = options.azure or endpoint.is_vendors
        # Other servers translate /responses: llama.cpp calls a cut answer "completed" there, and drops the schema.
        first: Api = "responses" if is_vendors else "chat"
        self._second: Api | None = None
        if options.api == "auto":
            self._second = "chat" if is_vendors else "responses"
        self.dialect = Dialect(
            api=first if options.api == "auto" else options.api,
            structured=options.structured,
            limit="max_completion_tokens" if is_vendors else "max_tokens",
            keyed=endpoint.host.endswith("api.openai.com"),
        )
        self._understood: set[tuple[Dialect, bool]] = set()

    async def complete(self, call: Call) -> Reply:
        prompt = prompt_of(call)
        pool = await self.pools.get()
        async with pool.probe.take_turn(partial(self._is_unknown, prompt)), self.connect() as client:
            response, dialect = await self._send(client, prompt)
        is_chat = dialect.api == "chat"
        body = body_of(response, ChatBody, self.origin) if is_chat else self._responses(response)
        return reply_of(body.answer(), self.origin, self.price, self.options.max_tokens, prompt)

    def _responses(self, response: httpx2.Response) -> ResponsesBody:
        try:
            return body_of(response, ResponsesBody, self.origin)
        except BackendFault as fault:
            try:
                is_chat = bool(ChatBody.model_validate_json(response.content).choices)
            except ValidationError:
                is_chat = False
            if not is_chat:
                raise
            what = "it answers /responses in the shape of the Chat Completions API"
            fix = f"name that API in the spec: openai:{self.options.model},api=chat"
            raise self.origin.fault("unsupported", what, fix=fix) from fault

    def _is_unknown(self, prompt: Prompt) -> bool:
        """True where the server may yet reject the dialect in which a prompt would be sent."""
        dialect, has_schema = self.dialect, prompt.reply is not None and self.dialect.structured
        is_tried = self._second not in (None, dialect.api)
        is_tried = is_tried or has_schema or (dialect.api == "chat" and self.options.max_tokens is not None)
        understood = (dialect, True) in self._understood or (dialect, has_schema) in self._understood
        return is_tried and not understood and not self.endpoint.is_vendors

    async def _send(self, client: openai.AsyncOpenAI, prompt: Prompt) -> tuple[httpx2.Response, Dialect]:
        """Return the response and the dialect that it is in; one that is rejected gives way to a simpler one."""
        for n_left in reversed(range(_MAX_DIALECTS)):
            dialect = self.dialect
            body = request_body(prompt, self.options, dialect)
            try:
                response = await client.post(dialect.path, body=body, cast_to=httpx2.Response)
                self._understood.add((dialect, prompt.reply is not None and dialect.structured))
                return response, dialect
            except openai.APIStatusError as error:
                had_schema = prompt.reply is not None
                found = simpler_dialect(dialect, rejection_of(error), second=self._second, had_schema=had_schema)
                if found is None or not n_left:
                    raise
                if self.dialect == dialect:
                    self.dialect = found
        raise AssertionError("unreachable")

    def _client(self) -> openai.AsyncOpenAI:
        key, at = self.endpoint.secret, self.endpoint.base_url
        options = client_options(openai.DefaultAsyncHttpxClient, self.options.timeout)
        if not self.options.azure:
            return openai.AsyncOpenAI(api_key=key.value, base_url=at, **options)
        by_token = key.name == _AZURE_TOKEN
        return openai.AsyncAzureOpenAI(
            api_key=None if by_token else key.value, azure_ad_token=key.value if by_token else None,
            azure_endpoint=at, api_version=self.options.api_version, **options,
        )  # fmt: skip


@backend(
    "openai",
    answers="the vendor's API, Azure, or any server that speaks it (`base_url=URL`)",
    needs="`OPENAI_API_KEY`",
    has_options=True,
    resolve=partial(resolve_vendor, OpenAIOptions),
)
def open_openai(text: str, environ: Mapping[str, str] = os.environ) -> OpenAIBackend:
    """Return the backend of "MODEL,name=value,...". Raises BackendError when it is not configured."""
    options = parse_options(text, OpenAIOptions)
    if options.azure:
        base_url = options.base_url or environ.get(_AZURE.address_variable)
        version = options.api_version or environ.get("OPENAI_API_VERSION")
        if not base_url or not version:
            missing = "AZURE_OPENAI_ENDPOINT (or base_url=)" if not base_url else "OPENAI_API_VERSION (or api_version=)"
            raise Unset(f"'openai:{options.model},azure=on' is not configured: set {missing}")
        options = options.model_copy(update={"base_url": base_url, "api_version": version})
    return OpenAIBackend(*configure(options, environ))
