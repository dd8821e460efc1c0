"""Hosts: a score that the agent which made an attempt gives it itself. Only judges of this kind take one over."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.answers import is_encodable
from skillopt_mcp.records.calls import EVALUATION, Message
from skillopt_mcp.records.judging import ByHost, Score, Unscored

HOST = "host"
MAX_CRITERIA_CHARS = 4_000


def host_evaluation(soft: float) -> Message:
    """Return the message that records what a host thinks of its own attempt, from 0 to 1. Raises BadInput."""
    if not 0 <= soft <= 1:
        raise BadInput("the score is none: give a number from 0 to 1")
    return Message(EVALUATION, repr(float(soft)), HOST)


def score_host(spec: ByHost, messages: Sequence[Message]) -> Score | Unscored:
    """Return the one score that the host reported; without it, or with two, the attempt has none."""
    found = [each.content for each in messages if each.role == EVALUATION and each.name == HOST]
    try:
        [soft] = [float(content) for content in found]
    except ValueError:
        return Unscored(f"{len(found)} scores of the host itself were reported; 1 is needed")
    if not 0 <= soft <= 1:
        return Unscored("what the host reported is no score")
    return Score(soft >= spec.threshold, soft, f"scored by the host itself: {soft:g}")


def check_host(spec: ByHost) -> None:
    """Raise BadInput when the criteria say nothing, or too much."""
    text = spec.criteria.strip()
    if not text or len(text) > MAX_CRITERIA_CHARS or not is_encodable(text):
        raise BadInput(f"host judge: give criteria in 1 to {MAX_CRITERIA_CHARS:,} characters")
