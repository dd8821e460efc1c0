"""Anthropic wire: requests and responses of the Messages API."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.backends.api.answers import Answer, Wire
from skillopt_mcp.backends.api.messages import Prompt
from skillopt_mcp.backends.api.prices import Tokens
from skillopt_mcp.backends.api.schemas import strict_schema
from skillopt_mcp.records.calls import Fault

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
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class MessageBody(Wire):
    """A response of the Messages API."""

    content: list[_Block]
    stop_reason: str | None = None
    usage: _Usage = _Usage()

    def answer(self) -> Answer:
        """Return what the model answered."""
        ending = self.stop_reason or "end_turn"
        fault = _ENDS.get(ending)
        return Answer(
            text="".join(block.text or "" for block in self.content if block.type == "text"),
            thoughts="\n\n".join(block.thinking or "" for block in self.content if block.type == "thinking"),
            tokens=Tokens(
                fresh=self.usage.input_tokens,
                cached=self.usage.cache_read_input_tokens or 0,
                cache_write=self.usage.cache_creation_input_tokens or 0,
                output=self.usage.output_tokens,
            ),
            fault=fault,
            reason=f"the answer ended with '{ending}'" if fault else "",
        )


def _text(text: str, *, cached: bool) -> Body:
    block: Body = {"type": "text", "text": text}
    return block | ({"cache_control": {"type": "ephemeral"}} if cached else {})
