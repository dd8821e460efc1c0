"""Openai wire: requests and responses of the Responses and the Chat Completions API."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pydantic import ValidationError

from skillopt_mcp.backends.api.answers import Answer, Wire, counted
from skillopt_mcp.backends.api.faults import Rejection
from skillopt_mcp.backends.api.messages import Prompt
from skillopt_mcp.backends.api.prices import Tokens
from skillopt_mcp.backends.api.schemas import strict_schema
from skillopt_mcp.records.calls import CONFIGURATION, Fault, served_name

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
    "None": "malformed",
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
