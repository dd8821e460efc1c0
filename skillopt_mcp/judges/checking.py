"""Checking: what is wrong with tasks before a model is paid: judges that tell nothing, tasks that are there twice."""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from skillopt_mcp.judges.answers import comparable, on_one_line, quoted
from skillopt_mcp.judges.judging import leaves
from skillopt_mcp.judges.references import reference_answers
from skillopt_mcp.judges.scoring import score
from skillopt_mcp.judges.shapes import is_shape_only
from skillopt_mcp.records.judging import ByEnvironment, ByHost, Command, JudgeSpec, Rubric, Score, ToolCalled
from skillopt_mcp.records.tasks import QUESTION, QUESTION_ENDING, Task

Problem = Literal[
    "passes empty", "passes parrot", "fails reference", "shape only", "duplicate", "near-duplicate", "leak",
]  # fmt: skip
SHAPE_ONLY = "only the form of an answer is judged; such a judge cannot promote alone: add another kind"
NEAR = 0.85
# Sets that overlap by NEAR share so many of the words of both.
_SHARE = NEAR / (1 + NEAR)
_ROUNDING = 1e-9
_MIN_WORDS = 5
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class TaskFinding:
    """One thing that is wrong with the task of this name; `other` names the task that it collides with."""

    task: str
    problem: Problem
    text: str
    other: str | None = None


def check_tasks(tasks: Sequence[Task], names: Collection[str] | None = None) -> list[TaskFinding]:
    """Return what is wrong with tasks, each alone and all together: twins within a split, and leaks between splits.

    With `names`, only what is wrong with the tasks of these names among all.
    """
    meant = [task for task in tasks if names is None or task.name in names]
    alone = [
        TaskFinding(task.name, problem, text)
        for task in meant
        for problem, text in _judge_problems(task.judge, task.prompt)
    ]
    return [*alone, *(found for _, found in _collisions(tasks, names) if names is None or found.task in names)]


def _judge_problems(spec: JudgeSpec, prompt: str) -> Iterator[tuple[Problem, str]]:
    """Yield what is wrong with a task's judge, by what it makes of answers that say nothing or all."""
    if is_shape_only(spec):
        yield "shape only", SHAPE_ONLY
    if any(isinstance(leaf, Rubric | Command | ToolCalled | ByEnvironment | ByHost) for leaf in leaves(spec)):
        # These need a model, a process or a recorded attempt; answers alone tell nothing of them.
        return
    if _passes(spec, ""):
        yield "passes empty", "an empty answer passes: the judge expects too little"
    elif _passes(spec, prompt):
        yield "passes parrot", "the prompt itself passes as an answer: whoever repeats it is right"
    references = reference_answers(spec)
    if references and not any(_passes(spec, answer) for answer in references):
        yield "fails reference", f"what the judge itself expects does not pass, such as {quoted(references[-1])}"


def _passes(spec: JudgeSpec, answer: str) -> bool:
    outcome = score(spec, answer)
    return isinstance(outcome, Score) and outcome.hard


def distinct(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks without those that say the same as an earlier one, or nearly so."""
    twins = {n for n, _ in _collisions(tasks)}
    return [task for n, task in enumerate(tasks) if n not in twins]


def _collisions(tasks: Sequence[Task], names: Collection[str] | None = None) -> Iterator[tuple[int, TaskFinding]]:
    """Yield each task, by its place, that says the same as an earlier one, or nearly so; across splits it leaks.

    With `names`, tasks that cannot be near to those are not compared.
    """
    seen: dict[str, int] = {}
    words = [_words(task.prompt) for task in tasks]
    if names is not None:
        numbers = {_numbers(each) for task, each in zip(tasks, words, strict=True) if task.name in names}
        words = [each if _numbers(each) in numbers else frozenset() for each in words]
    asked = [_question(task.prompt) for task in tasks]
    near = _near_pairs(
        words,
        [each if text is task.prompt else _words(text) for task, text, each in zip(tasks, asked, words, strict=True)],
    )
    for n, task in enumerate(tasks):
        key = on_one_line(task.prompt)
        first = seen.setdefault(key, n)
        if first != n:
            yield n, _collision(task, tasks[first], "duplicate")
        elif n in near:
            yield n, _collision(task, tasks[near[n]], "near-duplicate")


def _collision(task: Task, other: Task, problem: Literal["duplicate", "near-duplicate"]) -> TaskFinding:
    same = "the same prompt as" if problem == "duplicate" else "nearly the same prompt as"
    if task.split == other.split:
        return TaskFinding(task.name, problem, f"{same} '{other.name}': it counts twice", other.name)
    text = f"{same} '{other.name}', which is in {other.split}: what was learned or chosen there is tested here again"
    return TaskFinding(task.name, "leak", text, other.name)


def _near_pairs(words: Sequence[frozenset[str]], questions: Sequence[frozenset[str]]) -> dict[int, int]:
    """Return, per task, the first one whose words overlap by NEAR (Jaccard) and whose numbers are the same.

    So must the words of what is asked: two questions about one text are two tasks. Both must be alike, so that the one
    which is like fewer others tells which to compare: one question is asked about many texts, or many about one.
    """
    indexes = [_Rarest(words)] if all(map(operator.is_, words, questions)) else [_Rarest(words), _Rarest(questions)]
    found: dict[int, int] = {}
    for n, each in enumerate(words):
        if len(each) < _MIN_WORDS:
            continue
        numbers = _numbers(each)
        rows = min((index.near(n, numbers) for index in indexes if index.sets[n]), key=_length)
        near = [
            first
            for row in rows
            if (first := next((m for m in row if _alike(questions[n], questions[m]) and _alike(each, words[m])), None))
            is not None
        ]
        if near:
            found[n] = min(near)
        for index in indexes:
            index.add(n, numbers)
    return found


def _length(rows: Sequence[Sequence[int]]) -> int:
    return sum(map(len, rows))


class _Rarest:
    """Sets by their rarest words, of which two that overlap by NEAR share one (Bayardo et al., 2007).

    The first word that they share comes so early in both that enough words follow (Xiao et al., 2008): few pairs are
    compared at all.
    """

    def __init__(self, sets: Sequence[frozenset[str]]) -> None:
        self.sets = sets
        self._common = Counter(word for each in sets for word in each)
        self._rows: dict[tuple[frozenset[str], str], dict[tuple[int, int], list[int]]] = {}

    def near(self, n: int, numbers: frozenset[str]) -> list[list[int]]:
        """Return rows of what was added with these numbers, in which all are that overlap with one by NEAR."""
        size = len(self.sets[n])
        return [
            row
            for at, word in enumerate(self._rarest(n))
            for (other_size, other_at), row in self._rows.get((numbers, word), {}).items()
            if min(size - at, other_size - other_at) >= _SHARE * (size + other_size) - _ROUNDING
        ]

    def add(self, n: int, numbers: frozenset[str]) -> None:
        """Add a set, to be found by those that come later."""
        for at, word in enumerate(self._rarest(n)):
            self._rows.setdefault((numbers, word), {}).setdefault((len(self.sets[n]), at), []).append(n)

    def _rarest(self, n: int) -> list[str]:
        size = len(self.sets[n])
        ordered = sorted(self.sets[n], key=lambda word: (self._common[word], word))
        return ordered[: size - math.ceil(NEAR * size - _ROUNDING) + 1]


def _alike(first: frozenset[str], second: frozenset[str]) -> bool:
    n_common = len(first & second)
    return n_common >= NEAR * (len(first) + len(second) - n_common)


def _numbers(words: frozenset[str]) -> frozenset[str]:
    # Most words are letters alone.
    return frozenset(word for word in words if not word.isalpha() and any(map(str.isdigit, word)))


def _question(prompt: str) -> str:
    """Return what a prompt asks, without the text that it asks about: all of it, but for a row of a data set."""
    return prompt.rpartition(f"\n\n{QUESTION}")[2] if prompt.endswith(QUESTION_ENDING) else prompt


def _words(prompt: str) -> frozenset[str]:
    return frozenset(_WORD.findall(comparable(prompt.removesuffix(QUESTION_ENDING))))
