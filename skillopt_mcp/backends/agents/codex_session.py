"""Codex session: the file in which Codex keeps a conversation. Its printed events may miss some; this has them all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import Field, JsonValue
from pydantic_core import from_json, to_json

from skillopt_mcp.backends.agents.telling import Event, Told, objects, parsed
from skillopt_mcp.records.calls import TOOL_CALL, Usage, served_name

SHELL = "shell"
_SHELLS = frozenset({"container.exec", "exec_command", "local_shell", "shell", "shell_command"})
_EXIT = re.compile(r"^Process exited with code (-?\d+)$", re.MULTILINE)
_OUTPUT = "Output:\n"


class Tokens(Event):
    """Tokens as Codex counts them; the cached ones are among those that went in."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0

    @property
    def used(self) -> Usage:
        """Return what that is of a call."""
        return Usage(self.input_tokens, self.output_tokens, tokens_cached=self.cached_input_tokens)


class _Totals(Event):
    total_token_usage: Tokens = Tokens()


class _Part(Event):
    text: str = ""


class _Payload(Event):
    type: str = ""
    role: str = ""
    content: list[_Part] | None = None
    summary: list[_Part] | None = None
    namespace: str | None = None
    name: str = ""
    arguments: str = ""
    input: str = ""
    call_id: str = ""
    output: JsonValue = None
    info: _Totals | None = None
    last_agent_message: str | None = None
    model: JsonValue = None


class _Row(Event):
    payload: _Payload = Field(default_factory=_Payload)


def read_session(text: str) -> Told:
    """Return what a conversation holds; its answer is None until the task is complete."""
    told = Told()
    names: dict[str, str] = {}
    for kind, line in objects(text):
        row = parsed(line, _Row)
        if row is None:
            continue
        payload = row.payload
        if kind == "response_item":
            _hear(payload, names, told)
        elif kind == "turn_context":
            told.models += filter(None, [served_name(payload.model)])
        elif payload.type == "token_count" and payload.info:
            told.usage = payload.info.total_token_usage.used
        elif payload.type == "task_complete":
            told.answer = payload.last_agent_message or ""
    return told


def _hear(payload: _Payload, names: dict[str, str], told: Told) -> None:
    if payload.type == "message" and payload.role == "assistant":
        for text in _texts(payload.content):
            told.add("assistant", text)
    elif payload.type == "reasoning":
        for text in _texts(payload.summary):
            told.add("assistant", text, "thinking")
    elif payload.type in ("function_call", "custom_tool_call"):
        name, arguments = _called(payload)
        names[payload.call_id] = name
        told.add(TOOL_CALL, arguments, name)
    elif payload.type in ("function_call_output", "custom_tool_call_output"):
        told.add("tool", _result(payload.output), names.get(payload.call_id))


def _called(payload: _Payload) -> tuple[str, str]:
    """Return the name of a tool and its arguments as a JSON object; a command is one of the shell's, however sent."""
    if payload.type == "custom_tool_call":
        return payload.name, to_json({"input": payload.input}).decode()
    name = f"{payload.namespace}.{payload.name}" if payload.namespace else payload.name
    if name not in _SHELLS:
        return name, payload.arguments
    try:
        given: JsonValue = from_json(payload.arguments)
    except ValueError:
        return SHELL, payload.arguments
    command = (given.get("cmd") or given.get("command")) if isinstance(given, dict) else None
    # [shell, "-lc", what] is the shell told to run what.
    words = command[-1] if isinstance(command, list) and command else command
    return SHELL, to_json({"command": words}).decode()


def _result(output: JsonValue) -> str:
    text = "".join(_strings(output))
    head, mark, rest = text.partition(_OUTPUT)
    found = _EXIT.search(head)
    if not mark or not found:
        return text
    return rest if found[1] == "0" else f"{rest}\n[exit code {found[1]}]"


def _strings(output: JsonValue) -> Iterator[str]:
    if isinstance(output, str):
        yield output
    elif isinstance(output, list):
        yield from (str(part["text"]) for part in output if isinstance(part, dict) and "text" in part)


def _texts(parts: list[_Part] | None) -> list[str]:
    return [part.text for part in parts or () if part.text.strip()]
