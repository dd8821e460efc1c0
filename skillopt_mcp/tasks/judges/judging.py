"""Judging: from a judge as callers write it to the scores of many attempts, whose questions go out together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import skillopt_mcp.tasks.judges.kinds  # noqa: F401 - registers every kind
from skillopt_mcp.core.calls import Ask, Message
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Attempted
from skillopt_mcp.core.judging import KINDS, Attempt, Combined, Judge, Outcome, Score, Unscored, judge_of
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.tasks.judges.base import Asking, quoted
from skillopt_mcp.tasks.judges.kinds.command import CommandJudge
from skillopt_mcp.tasks.judges.kinds.opens import Opens
from skillopt_mcp.tasks.judges.kinds.reported import ByEnvironment, ByHost
from skillopt_mcp.tasks.judges.kinds.rubric import Rubric

MAX_JUDGES = 100
MAX_DEPTH = 5
# What numbers of an answer that are too large, and its depth, can make a checked judge raise; all else is our fault.
_STUMBLES = (ArithmeticError, RecursionError)


def parse_judge(value: object) -> Judge:
    """Return the checked judge of a decoded JSON value. Raises BadInput, in one line."""
    level, n_judges, depth = [value], 0, 0
    while level:
        n_judges, depth = n_judges + len(level), depth + 1
        if n_judges > MAX_JUDGES or depth > MAX_DEPTH:
            raise BadInput(f"a judge combines at most {MAX_JUDGES} judges on {MAX_DEPTH} levels; use fewer")
        inside = [each for each in level if isinstance(each, dict)]
        parts = [part for each in inside if isinstance(each.get("judges"), list) for part in each["judges"]]
        parts = [part.get("judge", part) if "kind" not in part else part for part in parts if isinstance(part, dict)]
        level = parts + [each["judge"] for each in inside if "kind" in each and "judge" in each]
    judge = judge_of(value)
    check_judge(judge)
    return judge


def check_judge(judge: Judge) -> None:
    """Raise BadInput if the judge, or one that it combines, could never judge sensibly."""
    for part in judge.parts() if isinstance(judge, Combined) else ():
        check_judge(part)
    judge.check()


def kinds(*, of_evals: bool = False) -> dict[str, str]:
    """Return the help of every kind that people write, or that comes of reading evals, by its name."""
    chosen = [kind for kind in sorted(KINDS) if KINDS[kind].of_evals is of_evals]
    return {kind: " ".join((KINDS[kind].__doc__ or "").split()) for kind in chosen}


def usage() -> str:
    """Return the parameters that each kind needs, in one line: `{kind: exact|contains, expected} | ...`.

    Of a kind that needs none of them, those that are described, or else all.
    """
    kinds_of: dict[str, list[str]] = {}
    for kind in kinds():
        fields = [(field.alias or name, field) for name, field in KINDS[kind].model_fields.items()]
        needed = [each for each in fields if each[1].is_required()]
        needed = needed or [each for each in fields if each[1].description] or fields
        shown = [f"{name}: {field.description}" if field.description else name for name, field in needed]
        kinds_of.setdefault(", ".join(shown), []).append(kind)
    return " | ".join(f"{{kind: {'|'.join(kinds)}, {parameters}}}" for parameters, kinds in kinds_of.items())


def leaves(judge: Judge) -> Iterator[Judge]:
    """Yield the single judges of a judge, in order."""
    if isinstance(judge, Combined):
        for part in judge.parts():
            yield from leaves(part)
    else:
        yield judge


def asks_host(tasks: Iterable[Task]) -> bool:
    """Whether a judge of these tasks takes the score over that a host reports of its own attempt."""
    return any(isinstance(leaf, ByHost) for task in tasks for leaf in leaves(task.judge))


def asks_opening(judge: Judge) -> bool:
    """Whether a judge asks whether the skill was opened."""
    return any(isinstance(leaf, Opens) for leaf in leaves(judge))


def n_votes(task: Task, *, fewest: bool = False) -> int:
    """How many questions the rubrics of a task ask of each answer at most; the fewest: more than half of each."""
    rubrics = [leaf for leaf in leaves(task.judge) if isinstance(leaf, Rubric)]
    return sum(leaf.most_votes // 2 + 1 if fewest else leaf.most_votes for leaf in rubrics)


def missing_programs(judge: Judge, registered: Collection[str]) -> list[str]:
    """Return the programs that a judge names and that are not registered, sorted: such a task cannot be judged."""
    return sorted({leaf.name for leaf in leaves(judge) if isinstance(leaf, CommandJudge)} - set(registered))


def score(judge: Judge, answer: str, messages: Sequence[Message] = ()) -> Outcome:
    """Return the score of an answer under a checked judge that needs no model or program.

    Judges look at the last 100,000 characters of the trimmed answer (numeric and choice at the last 20,000).
    """
    return _fold(judge, Attempt(answer, messages))


def judge_all(ask: Ask, attempts: Sequence[Attempted]) -> list[Outcome]:
    """Return the score of each attempt under its task's judge, or why it has none.

    The questions of all judges of one kind go out together. A judge that fails, a reply that stays missing or unusable,
    and a score that is not in [0, 1] leave the attempt without a score: never with a made-up one.
    """
    looked_at = [
        Attempt(
            each.answer, each.messages, each.task.prompt, [(file.path, file.content) for file in each.task.files],
            each.draw,
        )
        for each in attempts
    ]  # fmt: skip
    asking: dict[type[Asking], list[tuple[int, Asking]]] = {}
    for n, each in enumerate(attempts):
        for leaf in leaves(each.task.judge):
            if isinstance(leaf, Asking):
                asking.setdefault(type(leaf), []).append((n, leaf))
    asked: list[list[tuple[Judge, Outcome]]] = [[] for _ in attempts]
    for kind in sorted(asking, key=lambda kind: kind.kind):
        outcomes = kind.score_all(ask, [(leaf, looked_at[n]) for n, leaf in asking[kind]])
        for (n, leaf), outcome in zip(asking[kind], outcomes, strict=True):
            asked[n].append((leaf, outcome))

    found = list[Outcome]()
    for each, attempt, outcomes_of in zip(attempts, looked_at, asked, strict=True):
        try:
            found.append(_valid(_fold(each.task.judge, attempt, outcomes_of)))
        # What an answer causes was scored before (`_fold`): this is a lack of memory, a library that is not there, a
        # fault of a judge that asks. It is no verdict on the answer, and must not end the run either.
        except Exception as error:  # noqa: BLE001
            found.append(Unscored(f"the judge failed: {type(error).__name__}: {error}"))
    return found


def _fold(judge: Judge, attempt: Attempt, asked: Sequence[tuple[Judge, Outcome]] = ()) -> Outcome:
    """The outcome of a judge, whose single ones are looked up in `asked`, or score it once, in order.

    What an answer makes a judge stumble over has failed.
    """
    if isinstance(judge, Combined):
        return judge.combine([_fold(part, attempt, asked) for part in judge.parts()])
    if outcome := next((outcome for other, outcome in asked if other is judge), None):
        return _valid(outcome)
    try:
        return _valid(judge.score(attempt))
    except _STUMBLES as error:
        text = quoted(attempt.answer)
        reason = f"the judge stumbled over {text}: {type(error).__name__}: {quoted(str(error))}"
        return Score(hard=False, soft=0.0, reason=reason)


def _valid(outcome: Outcome) -> Outcome:
    if isinstance(outcome, Score) and not 0.0 <= outcome.soft <= 1.0:
        return Unscored(f"the judge gave a score of {outcome.soft}, which is not between 0 and 1")
    return outcome


def environment_of(judge: Judge) -> str | None:
    """Return the environment whose own score the judge takes over, or None."""
    return next((leaf.name for leaf in leaves(judge) if isinstance(leaf, ByEnvironment)), None)
