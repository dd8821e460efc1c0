"""Tools: the judge that counts the recorded calls of a tool."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import JsonValue

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.answers import TOLD, is_encodable, quoted
from skillopt_mcp.judges.json_values import check_values, equal_values
from skillopt_mcp.records.calls import TOOL_CALL, Message
from skillopt_mcp.records.judging import Score, ToolCalled, Unscored

MAX_NAME_CHARS = 200
_TOLERANCE = 1e-9


def score_tool_called(spec: ToolCalled, messages: Sequence[Message]) -> Score | Unscored:
    """Return whether the tool was called often enough and not too often, as the backend recorded it.

    An attempt of which no message was recorded has no score: nobody knows what was called.
    """
    if not messages:
        return Unscored("no message of the attempt was recorded, so nobody knows which tools it called")
    named = [message for message in messages if message.role == TOOL_CALL and message.name == spec.name]
    n_calls = sum(_has(message.content, spec.arguments) for message in named)
    told = f"{quoted(spec.name)} called {n_calls} times as wanted, {len(named)} in all"
    if n_calls < spec.min:
        reason = f"{told}; {spec.min} wanted"
        if spec.arguments:
            reason += f" with {quoted(json.dumps(spec.arguments, ensure_ascii=False), TOLD)}"
        return Score(hard=False, soft=n_calls / spec.min, reason=reason)
    if spec.max is not None and n_calls > spec.max:
        return Score(hard=False, soft=0.0, reason=f"{told}; at most {spec.max} allowed")
    return Score(hard=True, soft=1.0, reason=told)


def check_tool_called(spec: ToolCalled) -> None:
    """Raise BadInput when the tool has no name, or every attempt or none would pass."""
    if not spec.name.strip() or len(spec.name) > MAX_NAME_CHARS or not is_encodable(spec.name):
        raise BadInput(f"tool_called judge: name {quoted(spec.name, 40)} cannot be a tool's; give its name")
    if spec.max is not None and spec.max < spec.min:
        raise BadInput(f'tool_called judge: "max" {spec.max} is below "min" {spec.min}; correct one of them')
    if spec.min == 0 and spec.max is None:
        raise BadInput('tool_called judge: "min" 0 without "max" passes every attempt; give one of them')
    check_values("tool_called", spec.arguments)


def _has(content: str, wanted: dict[str, JsonValue]) -> bool:
    """Return whether recorded arguments (a JSON object) hold all that are wanted."""
    if not wanted:
        return True
    try:
        given = json.loads(content)
    except (ValueError, RecursionError):
        return False
    if not isinstance(given, dict):
        return False
    return all(name in given and equal_values(given[name], value, _TOLERANCE) for name, value in wanted.items())
