"""Scoring: the one way from an answer to its score."""

from __future__ import annotations

from skillopt_mcp.judges.choices import score_choice
from skillopt_mcp.judges.combined import combine_all
from skillopt_mcp.judges.numbers import score_numeric
from skillopt_mcp.judges.patterns import score_regex
from skillopt_mcp.judges.text import score_contains, score_exact
from skillopt_mcp.records.judging import All, Choice, Contains, Exact, JudgeSpec, Numeric, Regex, Score


def score(spec: JudgeSpec, answer: str) -> Score:
    """Return the score of an answer under a checked spec; it takes milliseconds whatever the answer is.

    Judges look at the last 100,000 characters of the trimmed answer (numeric and choice at the last 20,000).
    """
    match spec:
        case Exact():
            return score_exact(spec, answer)
        case Contains():
            return score_contains(spec, answer)
        case Regex():
            return score_regex(spec, answer)
        case Numeric():
            return score_numeric(spec, answer)
        case Choice():
            return score_choice(spec, answer)
        case All():
            return combine_all([score(judge, answer) for judge in spec.judges])
