"""Scoring: the one way from an answer to its score."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skillopt_mcp.judges.answers import quoted
from skillopt_mcp.judges.choices import score_choice
from skillopt_mcp.judges.combined import combine_all, combine_weighted
from skillopt_mcp.judges.environments import score_environment
from skillopt_mcp.judges.hosts import score_host
from skillopt_mcp.judges.json_values import score_json
from skillopt_mcp.judges.numbers import score_numeric
from skillopt_mcp.judges.overlap import score_anls, score_f1
from skillopt_mcp.judges.patterns import score_regex
from skillopt_mcp.judges.shapes import score_heading, score_length
from skillopt_mcp.judges.tables import score_table
from skillopt_mcp.judges.text import score_contains, score_exact
from skillopt_mcp.judges.tools import score_tool_called
from skillopt_mcp.records.calls import Message
from skillopt_mcp.records.judging import (
    F1,
    All,
    Anls,
    ByEnvironment,
    ByHost,
    Choice,
    Command,
    Contains,
    Exact,
    Heading,
    Json,
    JudgeSpec,
    Leaf,
    Length,
    Numeric,
    Regex,
    Rubric,
    Rule,
    Score,
    Table,
    ToolCalled,
    Unscored,
    Weighted,
)

# What numbers of an answer that are too large, and its depth, can make a checked rule raise; all else is our fault.
_STUMBLES = (ArithmeticError, RecursionError)


def score(spec: JudgeSpec, answer: str, messages: Sequence[Message] = ()) -> Score | Unscored:
    """Return the score of an answer under a checked spec, in time linear in what is looked at of the answer.

    Judges look at the last 100,000 characters of the trimmed answer (numeric and choice at the last 20,000). What needs
    a model or a process has no score here: see `judging.judge_all`.
    """
    return folded(spec, lambda leaf: score_leaf(leaf, answer, messages))


def folded(spec: JudgeSpec, score_of: Callable[[Leaf], Score | Unscored]) -> Score | Unscored:
    """Return the score of a spec whose single judges `score_of` scores, each asked once, in the order of the spec."""
    match spec:
        case All():
            return combine_all([folded(judge, score_of) for judge in spec.judges])
        case Weighted():
            scores = [folded(part.judge, score_of) for part in spec.judges]
            return combine_weighted(scores, [part.weight for part in spec.judges], spec.threshold)
        case _:
            return score_of(spec)


def score_leaf(spec: Leaf, answer: str, messages: Sequence[Message]) -> Score | Unscored:
    """Return the score that a single judge gives: what an answer makes a judge stumble over has failed."""
    match spec:
        case ByEnvironment():
            return score_environment(spec, messages)
        case ByHost():
            return score_host(spec, messages)
        case Rubric():
            return Unscored("a rubric needs a judge model")
        case Command():
            return Unscored(f"the command '{spec.name}' has not been run")
        case _:
            try:
                return _score_rule(spec, answer, messages)
            except _STUMBLES as error:
                reason = f"the judge stumbled over {quoted(answer)}: {type(error).__name__}: {quoted(str(error))}"
                return Score(hard=False, soft=0.0, reason=reason)


def _score_rule(spec: Rule, answer: str, messages: Sequence[Message]) -> Score | Unscored:
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
        case F1():
            return score_f1(spec, answer)
        case Anls():
            return score_anls(spec, answer)
        case Json():
            return score_json(spec, answer)
        case Table():
            return score_table(spec, answer)
        case Length():
            return score_length(spec, answer)
        case Heading():
            return score_heading(spec, answer)
        case ToolCalled():
            return score_tool_called(spec, messages)
