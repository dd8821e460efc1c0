"""Claude events: the stream of JSON that Claude Code prints of its work."""

from __future__ import annotations

from pydantic import Field, JsonValue
from pydantic_core import to_json

from skillopt_mcp.backends.agents.backend import fault_of
from skillopt_mcp.backends.agents.events import AgentEvents, Event, parse_event, read_objects
from skillopt_mcp.core.calls import TOOL_CALL, Fault, Usage, served_name

_CODES: dict[str, Fault] = {
    "authentication_failed": "auth",
    "billing_error": "auth",
    "model_not_found": "model_not_found",
    "rate_limit": "rate_limit",
    "max_output_tokens": "truncated",
}
# The model of a message that it wrote itself.
_BY_ITSELF = "<synthetic>"
# Its finer word for what went wrong, where its version has one.
_ON_THE_WAY: dict[str, Fault] = {"connection_failed": "connection", "computer_slept": "connection"}


class _Block(Event):
    type: str = ""
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: JsonValue = None
    tool_use_id: str = ""
    content: JsonValue = None
    is_error: bool | None = None


class _Content(Event):
    content: str | list[_Block] = ""
    model: JsonValue = None

    @property
    def blocks(self) -> list[_Block]:
        return [_Block(type="text", text=self.content)] if isinstance(self.content, str) else self.content


class _MessageEvent(Event):
    """A message of the model or of a tool; `error` is a code, where the program itself reports a failure."""

    message: _Content
    parent_tool_use_id: str | None = None
    error: str | None = None


class _SystemEvent(Event):
    """At the beginning: the model that the program is going to ask."""

    subtype: str = ""
    model: JsonValue = None
    slash_commands: list[str] = Field(default_factory=list)


class _ModelUsage(Event):
    input: int = Field(default=0, alias="inputTokens")
    output: int = Field(default=0, alias="outputTokens")
    cached: int = Field(default=0, alias="cacheReadInputTokens")
    cache_write: int = Field(default=0, alias="cacheCreationInputTokens")


class _Result(Event):
    subtype: str = ""
    is_error: bool = False
    result: str = ""
    stop_reason: str | None = None
    api_error_status: int | None = None
    api_error: str | None = None
    errors: list[JsonValue] | None = None
    total_cost_usd: float | None = None
    usages: dict[str, _ModelUsage] = Field(default_factory=dict, alias="modelUsage")

    def usage(self) -> Usage:
        used = self.usages.values()
        cached = sum(each.cached for each in used)
        tokens_in = sum(each.input + each.cache_write for each in used) + cached
        return Usage(tokens_in, sum(each.output for each in used), self.total_cost_usd, tokens_cached=cached)


def read_claude(output: str) -> AgentEvents:
    """The work of Claude Code, by what it printed."""
    events = AgentEvents(mark="/")
    code: str | None = None
    calls: dict[str, int] = {}
    asked: JsonValue = None
    for kind, event in read_objects(output):
        if kind in ("assistant", "user"):
            sent = parse_event(event, _MessageEvent)
            if sent and not sent.parent_tool_use_id:
                code = sent.error
                if not code:
                    _read_message(sent.message, kind, calls, events)
        elif kind == "system" and (init := parse_event(event, _SystemEvent)) and init.subtype == "init":
            asked = init.model or asked
            events.commands += init.slash_commands
        elif kind == "result" and (result := parse_event(event, _Result)):
            _end(result, code, events)
    # It counts usage under the name that it asked for, too: only a message names the model that wrote it.
    events.by_itself = not events.models and events.usage == Usage(usd=events.usage.usd)
    events.models = events.models or [served_name(asked)]
    return events


def _read_message(message: _Content, kind: str, calls: dict[str, int], events: AgentEvents) -> None:
    """Keep the parts of a message; what the program itself sends, such as the skill's text, is kept apart."""
    if kind == "assistant" and message.model != _BY_ITSELF:
        events.models += filter(None, [served_name(message.model)])
    for block in message.blocks:
        if block.type == "tool_result":
            call = calls.get(block.tool_use_id)
            events.add("tool", text_of(block.content), None if call is None else events.messages[call].name)
            if block.is_error and call is not None:
                events.failed.add(call)
        elif kind != "assistant":
            events.loaded.append(block.text)
        elif block.type == "text" and block.text.strip():
            events.add("assistant", block.text)
        elif block.type == "thinking" and block.thinking.strip():
            events.add("assistant", block.thinking, "thinking")
        elif block.type == "tool_use":
            calls[block.id] = len(events.messages)
            events.add(TOOL_CALL, to_json(block.input or {}).decode(), block.name)


def _end(result: _Result, code: str | None, events: AgentEvents) -> None:
    events.usage = result.usage()
    if not result.is_error and result.subtype == "success":
        events.answer = result.result
        return
    words = " ".join(str(error) for error in result.errors or ())
    events.reason = words or result.result or result.subtype.replace("_", " ")
    if result.stop_reason == "refusal":
        events.fault = "refusal"
    elif result.subtype.startswith("error_max"):
        events.fault = "truncated"
    else:
        coded = _CODES.get(code or "") or _ON_THE_WAY.get(result.api_error or "")
        events.fault = coded or fault_of(events.reason, result.api_error_status)


def text_of(content: JsonValue) -> str:
    """Return the text of a message's content: one text, or parts, some of them texts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
