"""OpenAI: models behind the Responses, Chat Completions or Batch API: OpenAI's, Azure's, or any compatible server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import httpx2
import openai
from pydantic import Field, ValidationError
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
from skillopt_mcp.backends.api.clients import LIMITS, Crew, PerLoop, Scouting, is_unsent, patience, tls
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
from skillopt_mcp.errors import BackendError, Unset
from skillopt_mcp.records.calls import CONFIGURATION, Call, Fault, Reply, Usage, served_name

Body = dict[str, object]
_FORMAT_WORDS = ("response_format", "text.format", "json_schema", "schema", "structured", "grammar", "guided")


@dataclass(frozen=True, slots=True)
class Manner:
    """How a server is spoken to: the API, replies held to a schema or not, and what a limit of tokens is called."""

    api: Literal["responses", "chat"]
    structured: bool
    limit: Literal["max_completion_tokens", "max_tokens"]

    @property
    def path(self) -> str:
        """Return the path of the API below the base URL."""
        return "/responses" if self.api == "responses" else "/chat/completions"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a request; None leaves a setting to the server."""

    model: str
    max_tokens: int | None
    temperature: float | None
    effort: str | None


def request_body(prompt: Prompt, settings: Settings, manner: Manner) -> Body:
    """Return the JSON body of a request."""
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    body: Body = {"model": settings.model} | _given(temperature=settings.temperature)
    schema = _schema(prompt) if manner.structured and prompt.reply else None
    if manner.api == "chat":
        body |= {"messages": messages} | _given(**{manner.limit: settings.max_tokens}, reasoning_effort=settings.effort)
        return body | ({"response_format": {"type": "json_schema", "json_schema": schema}} if schema else {})
    # Without `store` the vendor keeps every prompt and answer for a month.
    body |= {"instructions": prompt.system, "input": messages[1:], "store": False}
    body |= _given(
        max_output_tokens=settings.max_tokens, reasoning={"effort": settings.effort} if settings.effort else None
    )
    return body | ({"text": {"format": {"type": "json_schema", **schema}}} if schema else {})


def plainer(manner: Manner, rejected: Rejection, *, may_chat: bool, had_schema: bool) -> Manner | None:
    """Return how to speak to a server that rejected `manner`, None when the manner is not what it minds."""
    text = rejected.text.lower()
    if not rejected.is_of_request:
        return None
    if rejected.status in (404, 405, 501):
        no_model = "model" in text or "deployment" in text
        return replace(manner, api="chat") if manner.api == "responses" and may_chat and not no_model else None
    if had_schema and manner.structured and any(word in text for word in _FORMAT_WORDS):
        return replace(manner, structured=False)
    if manner.api == "chat" and manner.limit in text and "unsupported" in text:
        other: Literal["max_completion_tokens", "max_tokens"]
        other = "max_tokens" if manner.limit == "max_completion_tokens" else "max_completion_tokens"
        return replace(manner, limit=other)
    return None


class _Part(Wire):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(Wire):
    type: str
    content: list[_Part] | None = None
    summary: list[_Part] | None = None


class _Details(Wire):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Error(Wire):
    code: str | int | None = None
    message: str | None = None


class _Reason(Wire):
    reason: str | None = None


class _ResponsesUsage(Wire):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None


class ResponsesBody(Wire):
    """A response of the Responses API."""

    output: list[_Item]
    status: str | None = None
    error: _Error | None = None
    incomplete_details: _Reason | None = None
    usage: _ResponsesUsage | None = None
    model: object = None

    def answer(self) -> Answer:
        """Return what the model answered."""
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
        error = self.error or _Error()
        return _error_fault(str(error.code)), f"the response is '{self.status}': {error.code} {error.message or ''}"


class _ChatMessage(Wire):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(Wire):
    message: _ChatMessage
    finish_reason: str | None = None


class _ChatUsage(Wire):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None


class ChatBody(Wire):
    """A response of the Chat Completions API; some servers send an error with status 200."""

    choices: list[_Choice] | None = None
    error: _Error | None = None
    usage: _ChatUsage | None = None
    model: object = None
    system_fingerprint: object = None

    def answer(self) -> Answer:
        """Return what the model answered."""
        usage = self.usage or _ChatUsage()
        details = usage.prompt_tokens_details or _Details(cached_tokens=usage.prompt_cache_hit_tokens)
        tokens = _tokens(usage.prompt_tokens, usage.completion_tokens, details)
        if not self.choices:
            error = self.error or _Error(message="the response has no choices")
            return Answer("", "", tokens, _error_fault(str(error.code)), f"{error.code or ''} {error.message or ''}")
        message = self.choices[0].message
        ending = self.choices[0].finish_reason or "stop"
        fault, reason = _CUT.get(ending), f"the answer ended with '{ending}'"
        if message.refusal and fault is None:
            fault, reason = "refusal", f"the model refused: {message.refusal}"
        content = message.content or ""
        text = content if isinstance(content, str) else "".join(part.text or "" for part in content)
        return Answer(
            text,
            thoughts=message.reasoning_content or message.reasoning or "",
            tokens=tokens,
            fault=fault,
            reason=reason if fault else "",
            served=self._served,
        )

    @property
    def _served(self) -> str:
        """Return the model that answered, with how OpenAI had set it up; what others say there may differ each time."""
        configuration = self.system_fingerprint
        is_told = isinstance(configuration, str) and configuration.startswith(CONFIGURATION)
        return served_name(self.model, configuration if is_told else None)


def is_chat(body: bytes) -> bool:
    """Return whether a body is an answer of the Chat Completions API, wherever it was asked for."""
    try:
        return bool(ChatBody.model_validate_json(body).choices)
    except ValidationError:
        return False


_CUT: dict[str, Fault] = {
    "length": "truncated",
    "max_output_tokens": "truncated",
    "max_tokens": "truncated",
    "content_filter": "refusal",
    "insufficient_system_resource": "overloaded",
}
_ERRORS: dict[str, Fault] = {
    "rate_limit_exceeded": "rate_limit",
    "429": "rate_limit",
    "503": "overloaded",
    "529": "overloaded",
    "401": "auth",
    "402": "auth",
    "403": "auth",
    "invalid_prompt": "refusal",
    "None": "connection",
}


def _error_fault(code: str) -> Fault:
    return _ERRORS.get(code, "server")


def _tokens(n_in: int | None, n_out: int | None, details: _Details | None) -> Tokens | None:
    """Return what was used, None when the server does not say so."""
    if n_in is None or n_out is None or not counted(n_in, n_out):
        return None
    cached = max(0, min(n_in, (details and details.cached_tokens) or 0))
    written = max(0, min(n_in - cached, (details and details.cache_write_tokens) or 0))
    return Tokens(fresh=n_in - cached - written, cached=cached, cache_write=written, output=n_out)


def _schema(prompt: Prompt) -> Body:
    if prompt.reply is None:
        return {}
    return {"name": prompt.reply.__name__, "strict": True, "schema": strict_schema(prompt.reply)}


def _given(**values: object) -> Body:
    return {name: value for name, value in values.items() if value is not None}


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
    concurrency = 16

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
    (openai.APITimeoutError, "connection", "no answer in time"),
    (openai.APIConnectionError, "connection", "the connection failed"),
    (openai.APIResponseValidationError, "connection", "the response is not what the SDK expects"),
    (openai.LengthFinishReasonError, "truncated", "the answer was cut off"),
    (openai.ContentFilterFinishReasonError, "refusal", "the answer was filtered"),
    (openai.WebSocketConnectionClosedError, "connection", "the connection was closed"),
    (openai.OpenAIError, "internal", "the SDK failed"),
    (httpx2.TimeoutException, "connection", "no answer in time"),
    (httpx2.HTTPError, "connection", "the connection failed"),
    (TimeoutError, "connection", "no answer in time"),
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


def _rejection(error: openai.APIStatusError) -> Rejection:
    return rejection(error.status_code, error.body, error.response.headers)


TAG = "skillopt_batch"
_PATH = "/batches"
_PAGE = 100
_OVER = frozenset({"completed", "expired", "cancelled", "failed"})
_TOO_MUCH = "token_limit"


class _BatchCounts(Wire):
    completed: int = 0
    failed: int = 0


class _LineError(Wire):
    code: str | int | None = None
    message: str | None = None

    def fault(self, status: int, origin: Origin) -> BackendFault:
        return rejected(status, str(self.code or ""), self.message or "", origin)


class _Errors(Wire):
    data: list[_LineError] | None = None


class _Batch(Wire):
    id: str
    status: str = ""
    created_at: float | None = None
    metadata: dict[str, str] | None = None
    request_counts: _BatchCounts | None = None
    input_file_id: str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Errors | None = None


class _BatchPage(Wire):
    data: list[_Batch]
    has_more: bool = False


class _Response(Wire):
    status_code: int = 200
    body: object = None


class _Line(Wire):
    custom_id: str
    response: _Response | None = None
    error: _LineError | None = None


class OpenAIBatch:
    """Has calls answered by OpenAI's Batch API, on the endpoint that the backend is set to, at the price of that."""

    deferred = True
    most_calls = 20_000
    most_bytes = MOST_BYTES

    def __init__(self, backend: OpenAIBackend) -> None:
        self.name, self.fingerprint, self.concurrency = backend.name, backend.fingerprint, backend.concurrency
        price = backend.price
        self.discount = price.batch if price else 1.0
        self._asked = OpenAIBackend(backend.options, backend.endpoint, price.by_batch() if price else None)
        self._origin = backend.origin

    async def complete(self, call: Call) -> Reply:
        """Raise BackendFault: a batch API answers nothing at once."""
        raise not_immediate()

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that a call can use, None when nothing limits the answer."""
        return self._asked.worst_case(call)

    def line(self, item: Item) -> bytes:
        """Return a call as a line of the file that goes up."""
        manner, body = self._asked.request(item.call)
        return to_json({"custom_id": item.name, "method": "POST", "url": f"/v1{manner.path}", "body": body})

    async def submit(self, tag: Tag, lines: Sequence[bytes]) -> str:
        """Return the id of a new batch, which carries the tag."""
        async with self._asked.connected() as client:
            file = await client.files.create(file=(f"{tag.id}.jsonl", b"\n".join(lines) + b"\n"), purpose="batch")
            body = {
                "input_file_id": file.id,
                "endpoint": f"/v1{self._asked.manner.path}",
                "completion_window": "24h",
                "metadata": {TAG: tag.id},
            }
            response = await client.post(_PATH, body=body, cast_to=httpx2.Response)
        return body_of(response, _Batch, self._origin).id

    async def find(self, tag: Tag, known: Collection[str]) -> Found:
        """Return the batch that carries the tag: among the newest ones, for it was sent since the tag was made."""
        after: str | None = None
        while True:
            query = f"?limit={_PAGE}" + (f"&after={after}" if after else "")
            async with self._asked.connected() as client:
                response = await client.get(f"{_PATH}{query}", cast_to=httpx2.Response)
            page = body_of(response, _BatchPage, self._origin)
            for batch in page.data:
                if (batch.metadata or {}).get(TAG) == tag.id:
                    return Found(batch.id)
            last = page.data[-1] if page.data else None
            if last is None or not page.has_more or last.id == after:
                return Found(None)
            if last.created_at is not None and last.created_at < tag.opened_at - DAY_S:
                return Found(None)
            after = last.id

    async def look(self, vendor_id: str) -> Standing:
        """Return how far a batch is."""
        batch = await self._get(vendor_id)
        counts = batch.request_counts or _BatchCounts()
        refused = self._refused(batch) if batch.status == "failed" else None
        return Standing(batch.status in _OVER, counts.completed + counts.failed, batch.status == "cancelled", refused)

    async def results(self, vendor_id: str) -> Mapping[str, Result]:
        """Return what became of each call, from the files of responses and of errors."""
        batch = await self._get(vendor_id)
        found: dict[str, Result] = {}
        for file_id in (batch.output_file_id, batch.error_file_id):
            if file_id:
                async with self._asked.connected() as client:
                    response = await client.get(f"/files/{file_id}/content", cast_to=httpx2.Response)
                found |= {
                    line.custom_id: self._result(line) for line in lines_of(response.content, _Line, self._origin)
                }
        return found

    async def cancel(self, vendor_id: str) -> None:
        """Ask for no more answers of a batch."""
        async with self._asked.connected() as client:
            await client.post(f"{_PATH}/{vendor_id}/cancel", cast_to=httpx2.Response)

    async def forget(self, vendor_id: str) -> None:
        """Delete the files of a batch: prompts and answers."""
        batch = await self._get(vendor_id)
        for file_id in (batch.input_file_id, batch.output_file_id, batch.error_file_id):
            if file_id:
                async with self._asked.connected() as client:
                    await client.delete(f"/files/{file_id}", cast_to=httpx2.Response)

    async def _get(self, vendor_id: str) -> _Batch:
        async with self._asked.connected() as client:
            response = await client.get(f"{_PATH}/{vendor_id}", cast_to=httpx2.Response)
        return body_of(response, _Batch, self._origin)

    def _refused(self, batch: _Batch) -> BackendFault:
        errors = (batch.errors.data if batch.errors else None) or [_LineError()]
        # So many tokens may wait in the queue: later there is room again.
        return errors[0].fault(429 if _TOO_MUCH in str(errors[0].code) else 400, self._origin)

    def _result(self, line: _Line) -> Result:
        error = line.error
        if error and error.code == "batch_cancelled":
            return None
        if error and error.code == "batch_expired":
            return expired(self._origin)
        answered = line.response
        if answered is None:
            return (error or _LineError()).fault(500, self._origin)
        if answered.status_code != 200:
            return _error_in(answered.body).fault(answered.status_code, self._origin)
        try:
            return self._asked.reply_in(to_json(answered.body), "application/json", self._asked.manner)
        except BackendFault as fault:
            return fault


def _error_in(body: object) -> _LineError:
    found = rejection(0, body, {})
    return _LineError(code=found.code, message=found.message)


def batched(backend: Backend) -> OpenAIBatch | None:
    """Return the backend as its Batch API answers for it. Raises BackendError where that API is another one."""
    if not isinstance(backend, OpenAIBackend):
        return None
    if backend.options.azure:
        raise BackendError(
            f"'{backend.name}' is a deployment of Azure's, whose batches are others: leave out --batch-api"
        )
    return OpenAIBatch(backend)


@backend(
    "openai",
    answers="the vendor's API, Azure, or any server that speaks it (`base_url=URL`)",
    needs="`OPENAI_API_KEY`",
    has_options=True,
    batched=batched,
)
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
