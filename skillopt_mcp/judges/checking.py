"""Checking: what is wrong with tasks before a model is paid: judges that tell nothing, tasks that are there twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from skillopt_mcp.judges.answers import on_one_line, quoted
from skillopt_mcp.judges.judging import leaves
from skillopt_mcp.judges.nearness import NEAR, Layer, exact_form, near_pairs, with_numbers_of, words_of
from skillopt_mcp.judges.references import reference_answers
from skillopt_mcp.judges.scoring import score
from skillopt_mcp.judges.shapes import is_shape_only
from skillopt_mcp.records.judging import ByEnvironment, ByHost, Command, JudgeSpec, Rubric, Score, ToolCalled, spec_json
from skillopt_mcp.records.tasks import Task

Problem = Literal[
    "passes empty", "passes parrot", "fails reference", "shape only", "duplicate", "near-duplicate", "leak", "alike",
]  # fmt: skip
SHAPE_ONLY = "only the form of an answer is judged; such a judge cannot promote alone: add another kind"
# How much of their words, the rarer the heavier, two tasks share that ask the same, where only a few have their answer.
_NEAR_WITH_ANSWER, _FEW = 0.7, 5


@dataclass(frozen=True, slots=True)
class TaskFinding:
    """One thing that is wrong with the task of this name; `other` names the task that it collides with.

    Tasks that are "alike" may well be right: they ask nearly the same, but expect other answers, or differ in what
    little each of them has for itself.
    """

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
    return [*alone, *(found for *_, found in _collisions(tasks, names) if names is None or found.task in names)]


def _judge_problems(spec: JudgeSpec, prompt: str) -> Iterator[tuple[Problem, str]]:
    """Yield what is wrong with a task's judge, by what it makes of answers that say nothing or all."""
    if is_shape_only(spec):
        yield "shape only", SHAPE_ONLY
    if not _by_answer_alone(spec):
        return
    if _passes(spec, ""):
        yield "passes empty", "an empty answer passes: the judge expects too little"
    elif _passes(spec, prompt):
        yield "passes parrot", "the prompt itself passes as an answer: whoever repeats it is right"
    references = reference_answers(spec)
    if references and not any(_passes(spec, answer) for answer in references):
        yield "fails reference", f"what the judge itself expects does not pass, such as {quoted(references[-1])}"


def _by_answer_alone(spec: JudgeSpec) -> bool:
    """Return whether no judge of a spec needs a model, a process or a recorded attempt."""
    return not any(isinstance(leaf, Rubric | Command | ToolCalled | ByEnvironment | ByHost) for leaf in leaves(spec))


def _passes(spec: JudgeSpec, answer: str) -> bool:
    outcome = score(spec, answer)
    return isinstance(outcome, Score) and outcome.hard


def distinct(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks without those that say the same as an earlier one, or nearly so."""
    twins = {n for n, *_ in _collisions(tasks)}
    return [task for n, task in enumerate(tasks) if n not in twins]


def asked_in_train(tasks: Sequence[Task]) -> frozenset[int]:
    """Return the ids of the held-out tasks that ask what a train task asks, or nearly that with the same answer."""
    in_order = sorted(tasks, key=lambda task: task.split != "train")
    return frozenset(
        in_order[n].id
        for n, other, found in _collisions(in_order)
        if found.problem == "leak" and in_order[other].split == "train"
    )


def _collisions(tasks: Sequence[Task], names: Collection[str] | None = None) -> Iterator[tuple[int, int, TaskFinding]]:
    """Yield each task that says (nearly) the same as an earlier one, by the places of both; across splits it leaks.

    With `names`, tasks that cannot be near to those are not compared.
    """
    said, asked = words_of(tasks)
    words = said
    if names is not None:
        words = with_numbers_of(said, [n for n, task in enumerate(tasks) if task.name in names])
    expected = [_expected(task.judge) for task in tasks]
    n_with = Counter(expected)
    least = [_NEAR_WITH_ANSWER if n_with[each] <= _FEW else NEAR for each in expected]
    # What most tasks have in common, as a long form, weighs next to nothing.
    weighed = [Layer(words, least, among=said), Layer(asked, least, among=asked)]
    twins = near_pairs(weighed, expected)
    near = near_pairs([Layer(words), Layer(asked)])
    seen: dict[Hashable, int] = {}
    for n, task in enumerate(tasks):
        first = seen.setdefault(exact_form(task), n)
        if first != n:
            yield n, first, _collision(task, tasks[first], "duplicate")
        elif n in twins:
            yield n, twins[n], _collision(task, tasks[twins[n]], "near-duplicate")
        elif n in near:
            other = tasks[near[n]]
            is_twin = all(layer.are_near(n, near[n]) for layer in weighed) and _agree(task.judge, other.judge)
            yield n, near[n], _collision(task, other, "near-duplicate" if is_twin else "alike")


def _collision(task: Task, other: Task, problem: Literal["duplicate", "near-duplicate", "alike"]) -> TaskFinding:
    if problem == "alike":
        return TaskFinding(task.name, problem, f"nearly the same prompt as '{other.name}'", other.name)
    same = "the same prompt as" if problem == "duplicate" else "nearly the same prompt as"
    if task.split == other.split:
        return TaskFinding(task.name, problem, f"{same} '{other.name}': it counts twice", other.name)
    text = f"{same} '{other.name}', which is in {other.split}: what was learned or chosen there is tested here again"
    return TaskFinding(task.name, "leak", text, other.name)


def _expected(spec: JudgeSpec) -> Hashable:
    """Return what a judge expects, equal for judges that expect the same."""
    answers = reference_answers(spec) if _by_answer_alone(spec) else []
    return tuple(map(on_one_line, answers)) or spec_json(spec)


def _agree(first: JudgeSpec, second: JudgeSpec) -> bool:
    """Return whether what answers one task answers another one that asks nearly the same."""
    if not (_by_answer_alone(first) and _by_answer_alone(second)):
        return False
    ways = (first, second), (second, first)
    return any(_passes(judge, answer) for judge, other in ways for answer in reference_answers(other))
