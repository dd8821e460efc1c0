"""Reported: judges that take over the score that the environment or the host which made an attempt recorded for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillopt_mcp.core.calls import EVALUATION, Message
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Judge, Outcome, Score, Unscored, judge
from skillopt_mcp.tasks.judges.base import is_encodable, is_name, quoted

HOST = "host"
MAX_CRITERIA_CHARS = 4_000


class _Recorded(BaseModel):
    """A score as an environment's message holds it."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)
    hard: bool
    soft: float = Field(ge=0, le=1, allow_inf_nan=False)
    reason: str = ""


@judge("environment")
class ByEnvironment(Judge):
    """The environment `name` scored the attempt itself: only what its backend recorded with the answer counts.

    An attempt that another backend made has no score. Verdicts on such tasks say who scored them.
    """

    needs_answer_only: ClassVar[bool] = False
    name: str

    def score(self, attempt: Attempt) -> Outcome:
        found = _evaluations(attempt, self.name)
        if len(found) != 1:
            return Unscored(f"{len(found)} scores of the environment {quoted(self.name)} were recorded; 1 is needed")
        try:
            recorded = _Recorded.model_validate_json(found[0])
        except ValidationError:
            return Unscored(f"what the environment {quoted(self.name)} recorded is not a score")
        reason = f"scored by the environment {quoted(self.name)}{': ' if recorded.reason else ''}{recorded.reason}"
        return Score(recorded.hard, recorded.soft, reason)

    def check(self) -> None:
        if not is_name(self.name):
            raise BadInput(f"environment judge: name must be an environment's, got {quoted(self.name, 40)}")


@judge(HOST)
class ByHost(Judge):
    """The host that made the attempt reports how far it fulfils `criteria`: verdicts on such tasks say so.

    It passes from `threshold` on. An attempt that no host reported a score for has none.
    """

    needs_answer_only: ClassVar[bool] = False
    criteria: str
    threshold: float = Field(default=0.75, gt=0, le=1)

    def score(self, attempt: Attempt) -> Outcome:
        found = _evaluations(attempt, HOST)
        try:
            [soft] = [float(content) for content in found]
        except ValueError:
            return Unscored(f"{len(found)} scores of the host itself were reported; 1 is needed")
        if not 0 <= soft <= 1:
            return Unscored("what the host reported is not a score")
        return Score(soft >= self.threshold, soft, f"scored by the host itself: {soft:g}")

    def check(self) -> None:
        if not 1 <= len(self.criteria.strip()) <= MAX_CRITERIA_CHARS or not is_encodable(self.criteria):
            raise BadInput(f"host judge: criteria must have 1-{MAX_CRITERIA_CHARS:,} characters")


def environment_evaluation(name: str, score: Score) -> Message:
    """Return the message in which the environment `name` records its score. Raises BadInput if it is not one."""
    try:
        recorded = _Recorded(hard=score.hard, soft=score.soft, reason=score.reason)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise BadInput(f"the environment {quoted(name)} gave no score: {first['loc'][0]}: {first['msg']}") from None
    return Message(EVALUATION, recorded.model_dump_json(), name)


def host_evaluation(soft: float) -> Message:
    """Return the message that records a host's score of its own attempt. Raises BadInput."""
    if not 0 <= soft <= 1:
        raise BadInput(f"score must be 0-1, got {soft}")
    return Message(EVALUATION, repr(float(soft)), HOST)


def _evaluations(attempt: Attempt, name: str) -> Sequence[str]:
    return [each.content for each in attempt.messages if each.role == EVALUATION and each.name == name]
