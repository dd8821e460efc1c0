"""Anthropic wire: requests and responses of the Messages API."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.backends.api.answers import Answer, Wire, counted
from skillopt_mcp.backends.api.messages import Prompt
from skillopt_mcp.backends.api.prices import Tokens
from skillopt_mcp.backends.api.schemas import strict_schema
from skillopt_mcp.records.calls import Fault, served_name

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
