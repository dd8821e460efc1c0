"""Tool called: the judge that counts the recorded calls of a tool."""

from __future__ import annotations

import json
from typing import ClassVar

from pydantic import Field, JsonValue

from skillopt_mcp.core.calls import TOOL_CALL
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Judge, Outcome, Score, Unscored, judge
from skillopt_mcp.tasks.judges.base import QUOTED, is_name, quoted
from skillopt_mcp.tasks.judges.kinds.json_value import check_values, equal_values

_TOLERANCE = 1e-9


@judge("tool_called")
class ToolCalled(Judge):
    """The recorded messages hold `min` to `max` calls of the tool `name` with at least these `arguments`.

    Only recorded calls count, not what the answer says; an attempt without a record has no score.
    """

    needs_answer_only: ClassVar[bool] = False
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    min: int = Field(default=1, ge=0)
    max: int | None = Field(default=None, ge=0)

    def score(self, attempt: Attempt) -> Outcome:
        if not attempt.messages:
            return Unscored("no message of the attempt was recorded, so its tool calls are not known")
        named = [message for message in attempt.messages if message.role == TOOL_CALL and message.name == self.name]
        n_calls = sum(_has(message.content, self.arguments) for message in named)
        reason = f"{quoted(self.name)} called {n_calls} times as wanted, {len(named)} in all"
        if n_calls < self.min:
            reason = f"{reason}; {self.min} wanted"
            if self.arguments:
                reason += f" with {quoted(json.dumps(self.arguments, ensure_ascii=False), QUOTED)}"
            return Score(hard=False, soft=n_calls / self.min, reason=reason)
        if self.max is not None and n_calls > self.max:
            return Score(hard=False, soft=0.0, reason=f"{reason}; at most {self.max} allowed")
        return Score(hard=True, soft=1.0, reason=reason)

    def check(self) -> None:
        if not is_name(self.name):
            raise BadInput(f"tool_called judge: name must be a tool's, got {quoted(self.name, 40)}")
        if self.max is not None and self.max < self.min:
            raise BadInput(f'tool_called judge: "max" {self.max} is below "min" {self.min}')
        if self.min == 0 and self.max is None:
            raise BadInput('tool_called judge: "min" 0 without "max" passes every attempt; give one of them')
        check_values("tool_called", self.arguments)


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
