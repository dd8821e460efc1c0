"""Codex events: what `codex exec` prints of its work, and the fuller file that it keeps of the session."""

from __future__ import annotations

import re
import shlex

from pydantic import Field, JsonValue
from pydantic_core import from_json, to_json

from skillopt_mcp.backends.agents.backend import fault_of
from skillopt_mcp.backends.agents.events import ARRIVED_CHARACTERS, AgentEvents, Event, parse_event, read_objects
from skillopt_mcp.core.calls import TOOL_CALL, Usage, served_name

SHELL = "shell"
_SHELLS = frozenset({"container.exec", "exec_command", "local_shell", "shell", "shell_command"})
_EXIT = re.compile(r"^Process exited with code (-?\d+)$", re.MULTILINE)
_FAILED = re.compile(r"\[exit code -?\d+\]$")
_OUTPUT = "Output:\n"


class CodexTokens(Event):
    """Tokens as Codex counts them; the cached ones are among those that went in."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0

    @property
    def used(self) -> Usage:
        """Return these tokens as the usage of a call."""
        return Usage(self.input_tokens, self.output_tokens, tokens_cached=self.cached_input_tokens)


class _Totals(Event):
    total_token_usage: CodexTokens = CodexTokens()


class _TextPart(Event):
    text: str = ""


class _Payload(Event):
    type: str = ""
    role: str = ""
    content: list[_TextPart] | None = None
    # The texts of a reasoning; how a turn summarizes is a word.
    summary: list[_TextPart] | str | None = None
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


def read_session(text: str) -> AgentEvents:
    """A conversation, by the file of its session; its answer is None until the task is complete."""
    events = AgentEvents()
    calls: dict[str, int] = {}
    for kind, event in read_objects(text):
        row = parse_event(event, _Row)
        if row is None:
            continue
        payload = row.payload
        if kind == "response_item":
            _read_payload(payload, calls, events)
        elif kind == "turn_context":
            events.models += filter(None, [served_name(payload.model)])
        elif payload.type == "token_count" and payload.info:
            events.usage = payload.info.total_token_usage.used
        elif payload.type == "task_complete":
            events.answer = payload.last_agent_message or ""
    return events


def _read_payload(payload: _Payload, calls: dict[str, int], events: AgentEvents) -> None:
    if payload.type == "message" and payload.role == "assistant":
        for text in _texts(payload.content):
            events.add("assistant", text)
    elif payload.type == "message" and payload.role == "user":
        events.loaded += _texts(payload.content)
    elif payload.type == "reasoning":
        for text in _texts(payload.summary):
            events.add("assistant", text, "thinking")
    elif payload.type in ("function_call", "custom_tool_call"):
        name, arguments = _read_call(payload)
        calls[payload.call_id] = len(events.messages)
        events.add(TOOL_CALL, arguments, name)
    elif payload.type in ("function_call_output", "custom_tool_call_output"):
        call, output = calls.get(payload.call_id), payload.output
        parts = [part for part in output if isinstance(part, dict)] if isinstance(output, list) else []
        text = output if isinstance(output, str) else "".join(str(part["text"]) for part in parts if "text" in part)
        head, mark, rest = text.partition(_OUTPUT)
        if mark and (found := _EXIT.search(head)):
            text = rest if found[1] == "0" else f"{rest}\n[exit code {found[1]}]"
        events.add("tool", text, None if call is None else events.messages[call].name)
        # A longer text may hold what was read before a later command failed.
        if call is not None and len(text) < ARRIVED_CHARACTERS and _FAILED.search(text):
            events.failed.add(call)


def _read_call(payload: _Payload) -> tuple[str, str]:
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
    # [shell, "-lc", what] runs what in a shell.
    words = command[-1] if isinstance(command, list) and command else command
    return SHELL, to_json({"command": words}).decode()


def _texts(parts: list[_TextPart] | str | None) -> list[str]:
    return [part.text for part in parts if part.text.strip()] if isinstance(parts, list) else []


_SHELL_WORDS = 3
_REROUTED = re.compile(r"model rerouted: \S+ -> (\S+)")


class _Item(Event):
    type: str = ""
    text: str = ""
    command: str = ""
    aggregated_output: str = ""
    exit_code: int | None = None
    changes: JsonValue = None
    status: str = ""
    server: str = ""
    tool: str = ""
    arguments: JsonValue = None
    result: JsonValue = None
    error: JsonValue = None
    query: str = ""
    message: str = ""


class _Completed(Event):
    item: _Item


class _Turn(Event):
    usage: CodexTokens = CodexTokens()


class _Error(Event):
    message: str = ""


class _Failed(Event):
    error: _Error = _Error()


def read_codex(output: str, session: str) -> AgentEvents:
    """The work of Codex, by what it printed, and what the file of its session adds where it is there."""
    events = _by_events(output)
    kept = read_session(session)
    if kept.messages:
        events.messages, events.loaded, events.failed = kept.messages, kept.loaded, kept.failed
    if kept.answer and events.fault is None:
        events.answer = kept.answer
    if kept.usage != Usage():
        events.usage = kept.usage
    # The session keeps what was asked for; an event reports that another one answers.
    events.models = events.models or kept.models
    return events


def _by_events(output: str) -> AgentEvents:
    """The work of Codex, by its events; the answer is the last message of the agent."""
    events = AgentEvents()
    last = ""
    for kind, event in read_objects(output):
        if kind == "item.completed" and (done := parse_event(event, _Completed)):
            _read_item(done.item, events)
            last = done.item.text if done.item.type == "agent_message" else last
        elif kind == "turn.completed" and (turn := parse_event(event, _Turn)):
            events.usage = events.usage.plus(turn.usage.used)
            events.answer, events.fault = last, None
        elif kind == "turn.failed" and (failed := parse_event(event, _Failed)):
            events.reason = failed.error.message or "the turn failed"
            events.fault = fault_of(events.reason)
    return events


def _read_item(item: _Item, events: AgentEvents) -> None:
    if item.type == "agent_message" and item.text.strip():
        events.add("assistant", item.text)
    elif item.type == "reasoning" and item.text.strip():
        events.add("assistant", item.text, "thinking")
    elif item.type == "command_execution":
        try:
            words = shlex.split(item.command)
        except ValueError:
            words = []
        # What the shell runs, where the command is SHELL -lc WHAT.
        is_wrapped = len(words) == _SHELL_WORDS and words[1] in ("-lc", "-c")
        events.add(TOOL_CALL, _json({"command": words[2] if is_wrapped else item.command}), SHELL)
        ending = f"\n[exit code {item.exit_code}]" if item.exit_code else ""
        events.add("tool", item.aggregated_output + ending, SHELL)
    elif item.type == "file_change":
        events.add(TOOL_CALL, _json({"changes": item.changes}), "apply_patch")
        events.add("tool", item.status, "apply_patch")
    elif item.type == "mcp_tool_call":
        name = f"{item.server}.{item.tool}"
        events.add(TOOL_CALL, _json(item.arguments or {}), name)
        events.add("tool", _json(item.error or item.result), name)
    elif item.type == "web_search":
        events.add(TOOL_CALL, _json({"query": item.query}), "web_search")
    elif item.type == "error" and (rerouted := _REROUTED.match(item.message)):
        events.models.append(served_name(rerouted[1]))


def _json(value: JsonValue) -> str:
    return to_json(value).decode()
