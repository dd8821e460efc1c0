"""Scripted judge: an `Ask` whose judge model and commands are functions, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skillopt_mcp.core.calls import Call, Message, Question, Reply
from skillopt_mcp.core.evidence import Attempted
from skillopt_mcp.core.tasks import Task, TaskFile
from skillopt_mcp.tasks.judges.judging import parse_judge


class ScriptedJudge:
    """Answers each call by the function; `rounds` keeps what each `ask` was given."""

    def __init__(self, answer: Callable[[Call], str | Reply]) -> None:
        self.rounds: list[list[Call]] = []
        self._answer = answer

    def __call__(self, calls: Sequence[Call], /) -> list[Reply]:
        self.rounds.append(list(calls))
        answers = [self._answer(call) for call in calls]
        return [Reply(answer) if isinstance(answer, str) else answer for answer in answers]


def grade(name: str) -> str:
    """Return the reply of a judge model that gives this grade."""
    return f'```json\n{{"reasoning": "so it is", "grade": "{name}"}}\n```'


def attempted(
    answer: str, judge: object, n: int = 1, messages: tuple[Message, ...] = (), files: tuple[TaskFile, ...] = ()
) -> Attempted:
    """Return an attempt at task n, which has this judge."""
    task = Task(n, 1, f"t{n}", f"Question {n}?", parse_judge(judge), "train", f"d{n}", files=files)
    return Attempted(task, answer, messages, f"draw/{n}")


def question(call: Call) -> Question:
    """Return the question of a call."""
    assert isinstance(call.request, Question)
    return call.request
