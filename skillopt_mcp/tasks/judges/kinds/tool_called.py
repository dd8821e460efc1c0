"""Tool called: the judges of the recorded calls of tools: how many there are, and in which order."""

from __future__ import annotations

import json
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from skillopt_mcp.core.calls import TOOL_CALL
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Judge, Outcome, RecordedMessage, Score, Unscored, judge
from skillopt_mcp.tasks.judges.base import QUOTED, is_name, quoted
from skillopt_mcp.tasks.judges.javascript import compile_javascript
from skillopt_mcp.tasks.judges.kinds.json_value import check_values, equal_values

_TOLERANCE = 1e-9
_UNKNOWN = Unscored("no message of the attempt was recorded, so its tool calls are not known")


@judge("tool_called")
class ToolCalled(Judge):
    """The recorded messages hold `min` to `max` calls of the tool `name` with at least these `arguments`.

    `input_match` is a pattern of JavaScript that their JSON has to match. Only recorded calls count, not what the
    answer says; an attempt without a record has no score.
    """

    needs_answer_only: ClassVar[bool] = False
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    input_match: str = ""
    min: int = Field(default=1, ge=0)
    max: int | None = Field(default=None, ge=0)

    def score(self, attempt: Attempt) -> Outcome:
        if not attempt.messages:
            return _UNKNOWN
        named = [message for message in attempt.messages if message.role == TOOL_CALL and message.name == self.name]
        try:
            n_calls = sum(_matches(each, self.name, self.input_match, self.arguments) for each in named)
        except BadInput as error:
            return Unscored(str(error))
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
        compile_javascript(self.input_match)


class WantedCall(BaseModel):
    """A call of a tool whose input, as JSON, matches a pattern of JavaScript."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    tool: str = Field(min_length=1)
    input_match: str = ""


@judge("tool_order")
class ToolOrder(Judge):
    """The first recorded call that is as `before` says comes before the first as `after` says: {tool, input_match}."""

    needs_answer_only: ClassVar[bool] = False
    before: WantedCall
    after: WantedCall

    def score(self, attempt: Attempt) -> Outcome:
        if not attempt.messages:
            return _UNKNOWN
        calls = [message for message in attempt.messages if message.role == TOOL_CALL]
        try:
            first, second = (
                next((n for n, each in enumerate(calls) if _matches(each, wanted.tool, wanted.input_match, {})), None)
                for wanted in (self.before, self.after)
            )
        except BadInput as error:
            return Unscored(str(error))
        passes = first is not None and second is not None and first < second
        reason = f"{quoted(self.before.tool)} {'is' if passes else 'is not'} called before {quoted(self.after.tool)}"
        return Score(passes, float(passes), reason)

    def check(self) -> None:
        for wanted in (self.before, self.after):
            compile_javascript(wanted.input_match)


def _matches(call: RecordedMessage, tool: str, pattern: str, wanted: dict[str, JsonValue]) -> bool:
    """Whether a call is one of the tool with all the arguments that are wanted, and the pattern is found in its input.

    The input is searched as JSON.stringify writes it.
    """
    if call.name != tool:
        return False
    try:
        given = json.loads(call.content)
        text = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        given, text = None, call.content
    own = given if isinstance(given, dict) else {}
    has_all = all(name in own and equal_values(own[name], value, _TOLERANCE) for name, value in wanted.items())
    return has_all and compile_javascript(pattern).search(text)
