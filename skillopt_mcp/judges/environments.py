"""Environments: the judge that takes over the score that an environment recorded for its own rollout."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.answers import is_encodable, quoted
from skillopt_mcp.records.calls import EVALUATION, Message
from skillopt_mcp.records.judging import ByEnvironment, Score, Unscored

MAX_NAME_CHARS = 200


class _Recorded(BaseModel):
    """A score as it stands in a message; the first releases wrote a hint beside it."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)
    hard: bool
    soft: float = Field(ge=0, le=1, allow_inf_nan=False)
    reason: str = ""


def evaluation(name: str, score: Score) -> Message:
    """Return the message in which the environment `name` records its score. Raises BadInput when it is none."""
    try:
        recorded = _Recorded(hard=score.hard, soft=score.soft, reason=score.reason)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise BadInput(f"the environment {quoted(name)} gave no score: {first['loc'][0]}: {first['msg']}") from None
    return Message(EVALUATION, recorded.model_dump_json(), name)


def score_environment(spec: ByEnvironment, messages: Sequence[Message]) -> Score | Unscored:
    """Return the one score that the environment recorded; without it, or with two, the attempt has none."""
    found = [each for each in messages if each.role == EVALUATION and each.name == spec.name]
    if len(found) != 1:
        return Unscored(f"{len(found)} scores of the environment {quoted(spec.name)} were recorded; 1 is needed")
    try:
        recorded = _Recorded.model_validate_json(found[0].content)
    except ValidationError:
        return Unscored(f"what the environment {quoted(spec.name)} recorded is no score")
    reason = f"scored by the environment {quoted(spec.name)}{': ' if recorded.reason else ''}{recorded.reason}"
    return Score(recorded.hard, recorded.soft, reason)


def check_environment(spec: ByEnvironment) -> None:
    """Raise BadInput when no environment can be called so."""
    if not spec.name.strip() or len(spec.name) > MAX_NAME_CHARS or not is_encodable(spec.name):
        raise BadInput(f"environment judge: name {quoted(spec.name, 40)} cannot be an environment's; give its name")
