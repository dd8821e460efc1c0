"""Judging: the scores of many attempts at once, those among them that need a model or a process asked for together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from skillopt_mcp.judges.checks import check_call, score_check
from skillopt_mcp.judges.rubric import is_settled, rubric_calls, score_rubric
from skillopt_mcp.judges.scoring import folded, score_leaf
from skillopt_mcp.prompts.asking import Parsed, ask_parsed
from skillopt_mcp.records.calls import Ask, Call
from skillopt_mcp.records.evidence import Attempted
from skillopt_mcp.records.judging import All, Command, JudgeSpec, Leaf, Rubric, Score, Unscored, Weighted
from skillopt_mcp.records.replies import RubricReply

Outcome = Score | Unscored
_Asked = tuple[int, Leaf, Outcome]
_SLOW = (Rubric, Command)


def judge_all(ask: Ask, attempts: Sequence[Attempted]) -> list[Outcome]:
    """Return the score of each attempt under its task's judge, or why it has none.

    All rubrics are asked in one batch, of several votes a majority, and the others in a second one where that is not of
    one mind; all commands in another. A judge that fails, a reply that stays missing or
    unusable, and a score that is no number in [0, 1] leave the attempt without a score: never with a made-up one.
    """
    asked: list[list[tuple[Leaf, Outcome]]] = [[] for _ in attempts]
    slow = [(n, leaf) for n, each in enumerate(attempts) for leaf in leaves(each.task.judge) if isinstance(leaf, _SLOW)]
    if slow:
        for n, leaf, outcome in (*_rubrics(ask, attempts, slow), *_commands(ask, attempts, slow)):
            asked[n].append((leaf, outcome))
    return [_judged(each, found) for each, found in zip(attempts, asked, strict=True)]


def _judged(attempted: Attempted, asked: list[tuple[Leaf, Outcome]]) -> Outcome:
    def outcome(leaf: Leaf) -> Outcome:
        if isinstance(leaf, _SLOW):
            return _valid(next(found for spec, found in asked if spec is leaf))
        return _valid(score_leaf(leaf, attempted.answer, attempted.messages))

    return _guarded(lambda: _valid(folded(attempted.task.judge, outcome)))


def _rubrics(ask: Ask, attempts: Sequence[Attempted], slow: Sequence[tuple[int, Leaf]]) -> Iterator[_Asked]:
    found = [(n, leaf) for n, leaf in slow if isinstance(leaf, Rubric)]
    calls = [rubric_calls(leaf, attempts[n]) for n, leaf in found]
    first = _votes(ask, [each[: len(each) // 2 + 1] for each in calls])
    # What more than half of the votes agree on is the median, whatever the others say.
    rest = _votes(
        ask, [[] if is_settled(votes) else each[len(votes) :] for each, votes in zip(calls, first, strict=True)]
    )
    for (n, leaf), majority, others in zip(found, first, rest, strict=True):
        yield n, leaf, score_rubric(leaf, [*majority, *others])


def _votes(ask: Ask, calls: Sequence[Sequence[Call]]) -> list[list[Parsed[RubricReply]]]:
    """Return the votes of each rubric's calls, all asked together."""
    votes = iter(ask_parsed(ask, [call for each in calls for call in each], RubricReply))
    return [[next(votes) for _ in each] for each in calls]


def _commands(ask: Ask, attempts: Sequence[Attempted], slow: Sequence[tuple[int, Leaf]]) -> Iterator[_Asked]:
    found = [(n, leaf) for n, leaf in slow if isinstance(leaf, Command)]
    calls = [check_call(leaf, attempts[n]) for n, leaf in found]
    for (n, leaf), reply in zip(found, ask(calls) if calls else [], strict=True):
        yield n, leaf, score_check(leaf, reply)


def leaves(spec: JudgeSpec) -> Iterator[Leaf]:
    """Yield the single judges of a spec, in order."""
    match spec:
        case All():
            for judge in spec.judges:
                yield from leaves(judge)
        case Weighted():
            for part in spec.judges:
                yield from leaves(part.judge)
        case _:
            yield spec


def _valid(outcome: Outcome) -> Outcome:
    if isinstance(outcome, Score) and not 0.0 <= outcome.soft <= 1.0:
        return Unscored(f"the judge gave a score of {outcome.soft}, which is not between 0 and 1")
    return outcome


def _guarded(judge: Callable[[], Outcome]) -> Outcome:
    try:
        return judge()
    # What an answer causes was scored before (`scoring.score_leaf`): this is a lack of memory, a library that is not
    # there, a fault of a judge that asks. It is no verdict on the answer, and must not end the run either.
    except Exception as error:  # noqa: BLE001
        return Unscored(f"the judge failed: {type(error).__name__}: {error}")
