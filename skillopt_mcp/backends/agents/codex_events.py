"""Codex events: the stream of JSON that `codex exec` prints of its work."""

from __future__ import annotations

import re
import shlex

from pydantic import JsonValue
from pydantic_core import to_json

from skillopt_mcp.backends.agents.codex_session import SHELL, Tokens, read_session
from skillopt_mcp.backends.agents.faults import fault_of
from skillopt_mcp.backends.agents.telling import Event, Told, objects, parsed
from skillopt_mcp.records.calls import TOOL_CALL, Usage, served_name

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
    usage: Tokens = Tokens()


class _Error(Event):
    message: str = ""


class _Failed(Event):
    error: _Error = _Error()


def read_codex(output: str, session: str) -> Told:
    """Return what Codex told, by its events and, where it is there, by the file of its session."""
    told = _by_events(output)
    kept = read_session(session)
    if kept.messages:
        told.messages = kept.messages
    if kept.answer and told.fault is None:
        told.answer = kept.answer
    if kept.usage != Usage():
        told.usage = kept.usage
    # The session keeps what was asked for; that another one answers is told on the way.
    told.models = told.models or kept.models
    return told


def _by_events(output: str) -> Told:
    """Return what the events tell; the answer is the last thing that was said."""
    told = Told()
    last = ""
    for kind, line in objects(output):
        if kind == "item.completed" and (done := parsed(line, _Completed)):
            _hear(done.item, told)
            last = done.item.text if done.item.type == "agent_message" else last
        elif kind == "turn.completed" and (turn := parsed(line, _Turn)):
            told.usage = told.usage.plus(turn.usage.used)
            told.answer, told.fault = last, None
        elif kind == "turn.failed" and (failed := parsed(line, _Failed)):
            told.said = failed.error.message or "the turn failed"
            told.fault = fault_of(told.said)
    return told


def _hear(item: _Item, told: Told) -> None:
    if item.type == "agent_message" and item.text.strip():
        told.add("assistant", item.text)
    elif item.type == "reasoning" and item.text.strip():
        told.add("assistant", item.text, "thinking")
    elif item.type == "command_execution":
        told.add(TOOL_CALL, _json({"command": _bare(item.command)}), SHELL)
        ending = f"\n[exit code {item.exit_code}]" if item.exit_code else ""
        told.add("tool", item.aggregated_output + ending, SHELL)
    elif item.type == "file_change":
        told.add(TOOL_CALL, _json({"changes": item.changes}), "apply_patch")
        told.add("tool", item.status, "apply_patch")
    elif item.type == "mcp_tool_call":
        name = f"{item.server}.{item.tool}"
        told.add(TOOL_CALL, _json(item.arguments or {}), name)
        told.add("tool", _json(item.error or item.result), name)
    elif item.type == "web_search":
        told.add(TOOL_CALL, _json({"query": item.query}), "web_search")
    elif item.type == "error" and (rerouted := _REROUTED.match(item.message)):
        told.models.append(served_name(rerouted[1]))


def _bare(command: str) -> str:
    """Return what a shell is told to run, where the command is SHELL -lc WHAT."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    return words[2] if len(words) == _SHELL_WORDS and words[1] in ("-lc", "-c") else command


def _json(value: JsonValue) -> str:
    return to_json(value).decode()
