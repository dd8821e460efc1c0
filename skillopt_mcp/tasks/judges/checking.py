"""Checking: what is wrong with tasks: judges that measure nothing, tasks that are there twice."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Judge, Score, judge_json
from skillopt_mcp.core.redacting import KnownSecrets, find_secrets
from skillopt_mcp.core.tasks import QUESTION, QUESTION_ENDING, NewTask, Task, describe_hosts_own
from skillopt_mcp.tasks.judges.base import comparable, on_one_line, quoted
from skillopt_mcp.tasks.judges.judging import leaves, missing_programs, score
from skillopt_mcp.tasks.judges.kinds.command import unregistered

Problem = Literal[
    "passes_empty", "passes_parrot", "fails_reference", "shape_only", "duplicate", "near_duplicate", "leak", "alike",
    "unknown_environment", "host_command", "program",
]  # fmt: skip
SHAPE_ONLY = "only the form of an answer is judged; such a judge cannot promote alone: add another kind"
# How much of their words, the rarer the heavier, two tasks share that ask the same, where only a few have their answer.
_NEAR_WITH_ANSWER, _FEW = 0.7, 5
# After so many tasks that ask nearly the same and expect other answers, a task is one of a form, and no twin.
_MAX_ALIKE = 20


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
    """What is wrong with tasks, each alone and all together: twins within a split, and leaks between splits.

    With `names`, only what is wrong with the tasks of these names among all.
    """
    meant = [task for task in tasks if names is None or task.name in names]
    alone = [
        TaskFinding(task.name, problem, text)
        for task in meant
        for problem, text in _judge_problems(task.judge, task.prompt)
    ]
    return [*alone, *(found for *_, found in _collisions(tasks, names) if names is None or found.task in names)]


def _judge_problems(spec: Judge, prompt: str) -> Iterator[tuple[Problem, str]]:
    """Yield what is wrong with a task's judge, by what it makes of answers that say nothing or all."""
    if spec.is_form_only():
        yield "shape_only", SHAPE_ONLY
    if not decides_by_answer(spec):
        return
    if passes(spec, ""):
        yield "passes_empty", "an empty answer passes: the judge expects too little"
    elif passes(spec, prompt):
        yield "passes_parrot", "the prompt itself passes as an answer"
    references = spec.references()
    if references and not any(passes(spec, answer) for answer in references):
        yield "fails_reference", f"what the judge itself expects does not pass, such as {quoted(references[-1])}"


def decides_by_answer(spec: Judge) -> bool:
    """Whether no judge needs a model, a program or a recorded message."""
    return all(leaf.needs_answer_only for leaf in leaves(spec))


def passes(spec: Judge, answer: str) -> bool:
    outcome = score(spec, answer)
    return isinstance(outcome, Score) and outcome.hard


def families(tasks: Sequence[Task]) -> list[tuple[Task, ...]]:
    """Return the tasks in units of evidence: those of a group, and those that say the same or nearly so.

    Tasks that no person has looked at change no unit of a person's, and add none that says the same as one.
    """
    looked_at = [task for task in tasks if task.looked_at]
    if 0 < len(looked_at) < len(tasks):
        others = [each for each in _families(tasks) if not any(task.looked_at for task in each)]
        return [*_families(looked_at), *others]
    return _families(tasks)


def _families(tasks: Sequence[Task]) -> list[tuple[Task, ...]]:
    """Return the families of tasks, in order, whoever has looked at them."""
    # Which words are looked up depends on the order, slightly: no matter in which one the tasks are given.
    in_order = sorted(tasks, key=lambda task: (task.digest, task.id))
    family = list(range(len(in_order)))
    members = {n: [n] for n in family}

    def join(n: int, m: int) -> None:
        if family[n] != family[m]:
            joined = members.pop(family[n])
            members[family[m]] += joined
            for each in joined:
                family[each] = family[m]

    first: dict[Hashable, int] = {}
    for n, task in enumerate(in_order):
        join(n, first.setdefault(exact_form(task), n))
        if task.group:
            join(n, first.setdefault(("group", task.group), n))
    words, asked = words_of(in_order)
    layers, weighed, expected = _layers(in_order, words, words, asked)
    for n, rows, in_turn in _candidates(weighed):
        n_alike = 0
        for m in chain.from_iterable(rows):
            is_same = expected[n] == expected[m]
            if family[n] == family[m] or not (is_same or n_alike < _MAX_ALIKE):
                continue
            if all(layer.are_near(n, m) for layer in (in_turn if is_same else [*in_turn, *layers])):
                if is_same or _agree(in_order[n].judge, in_order[m].judge):
                    join(n, m)
                else:
                    n_alike += 1
    family_of = {task.id: family[n] for n, task in enumerate(in_order)}
    found: dict[int, list[Task]] = {}
    for task in tasks:
        found.setdefault(family_of[task.id], []).append(task)
    return [tuple(each) for each in found.values()]


def find_asked_in_train(tasks: Sequence[Task]) -> frozenset[int]:
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
        # What has other numbers than all of these is near to none of them.
        meant = {_numbers(each) for each, task in zip(said, tasks, strict=True) if task.name in names}
        words = [each if _numbers(each) in meant else frozenset() for each in said]
    layers, weighed, expected = _layers(tasks, words, said, asked)
    twins = near_pairs(weighed, expected)
    near = near_pairs(layers)
    seen: dict[Hashable, int] = {}
    for n, task in enumerate(tasks):
        first = seen.setdefault(exact_form(task), n)
        if first != n:
            yield n, first, _collision(task, tasks[first], "duplicate")
        elif n in twins:
            yield n, twins[n], _collision(task, tasks[twins[n]], "near_duplicate")
        elif n in near:
            other = tasks[near[n]]
            is_twin = all(layer.are_near(n, near[n]) for layer in weighed) and _agree(task.judge, other.judge)
            yield n, near[n], _collision(task, other, "near_duplicate" if is_twin else "alike")


def _layers(
    tasks: Sequence[Task], words: Words, said: Words, asked: Words
) -> tuple[list[Layer], list[Layer], list[Hashable]]:
    """What is compared of tasks: their words, the same weighed by how rare they are, and what is expected."""
    expected = list[Hashable]()
    for spec in (task.judge for task in tasks):
        answers = spec.references() if decides_by_answer(spec) else []
        expected.append(tuple(map(on_one_line, answers)) or judge_json(spec))
    n_with = Counter(expected)
    least = [_NEAR_WITH_ANSWER if n_with[each] <= _FEW else NEAR for each in expected]
    # What most tasks have in common, as a long form, weighs next to nothing.
    weighed = [Layer(words, least, among=said), Layer(asked, least, among=asked)]
    return [Layer(words), Layer(asked)], weighed, expected


def _collision(task: Task, other: Task, problem: Literal["duplicate", "near_duplicate", "alike"]) -> TaskFinding:
    if problem == "alike":
        return TaskFinding(task.name, problem, f"nearly the same prompt as '{other.name}'", other.name)
    same = "the same prompt as" if problem == "duplicate" else "nearly the same prompt as"
    if task.split == other.split:
        return TaskFinding(task.name, problem, f"{same} '{other.name}': it counts twice", other.name)
    text = f"{same} '{other.name}', which is in {other.split}: what was learned or chosen there is tested here again"
    return TaskFinding(task.name, "leak", text, other.name)


def _agree(first: Judge, second: Judge) -> bool:
    """Whether what answers one task answers another one that asks nearly the same."""
    if not (decides_by_answer(first) and decides_by_answer(second)):
        return False
    ways = (first, second), (second, first)
    return any(passes(judge, answer) for judge, other in ways for answer in other.references())


NEAR = 0.85
_ROUNDING = 1e-9
_MIN_WORDS = 5
# So many of its rarest words find a text's twin: of two long texts that are twins, one can hardly lack all of them.
_MAX_LOOKED_UP = 8
_MAX_CHARACTERS = 20_000
_WORD = re.compile(r"\w+")
Words = Sequence[frozenset[str]]
_Key = tuple[frozenset[str], Hashable]


def exact_form(task: Task) -> Hashable:
    """What two tasks have in common that ask the very same: prompt, whatever its blanks, and files."""
    return on_one_line(task.prompt), *sorted((file.path, file.content) for file in task.files)


def words_of(tasks: Sequence[Task]) -> tuple[Words, Words]:
    """Return the words of each task, the text and files that it asks about among them, and those of its question."""
    asked = [_words(_question(task.prompt)) for task in tasks]
    has_text = [bool(task.files) or _question(task.prompt) is not task.prompt for task in tasks]
    rows = zip(tasks, asked, has_text, strict=True)
    return [_words(_whole(task)) if is_long else each for task, each, is_long in rows], asked


class Layer:
    """Sets of words, and what each word weighs: 1, or where they are weighed, more the fewer of `among` have it.

    `least` is how much each set must overlap with another; NEAR, if none is given.
    """

    def __init__(self, sets: Words, least: Sequence[float] = (), among: Words = ()) -> None:
        self.sets, self.least = sets, least or [NEAR] * len(sets)
        self._n_with = Counter[str]()
        for each in among or sets:
            self._n_with.update(each)
        self._weights = {word: math.log((len(among) + 1) / n) for word, n in self._n_with.items()} if among else None
        self.totals = [self._weight(each) for each in sets]
        self.rarest = [self._rarest(n) for n in range(len(sets))]

    def are_near(self, n: int, m: int) -> bool:
        """Whether two sets overlap as much as both must (Jaccard)."""
        common = self._weight(self.sets[n] & self.sets[m])
        least = max(self.least[n], self.least[m])
        return common >= least * (self.totals[n] + self.totals[m] - common) - _ROUNDING

    def _weight(self, words: Collection[str]) -> float:
        return len(words) if self._weights is None else sum(map(self._weights.__getitem__, words))

    def _rarest(self, n: int) -> list[tuple[float, str]]:
        """Return the rarest words of a set, each with what it and those after it weigh.

        Two sets that overlap enough share one of them (Bayardo et al., 2007), and the first that they share comes so
        early in both that enough follows (Xiao et al., 2008): few pairs are compared at all. Words that no other set
        has come first, and are left out; of a long text a few of the others are looked up.
        """
        shared = [(self._n_with[word], word) for word in self.sets[n] if self._n_with[word] > 1]
        rest, least, found = self._weight([word for _, word in shared]), self.least[n] * self.totals[n], []
        for _, word in heapq.nsmallest(_MAX_LOOKED_UP, shared):
            if rest < least - _ROUNDING:
                break
            found.append((rest, word))
            rest -= self._weight([word])
        return found


def near_pairs(layers: Sequence[Layer], kinds: Sequence[Hashable] | None = None) -> dict[int, int]:
    """Return, per task, the first one whose words overlap as much as they must (Jaccard), with the same numbers.

    So must the words of each further layer: two questions about one text are two tasks. All must be alike, so that the
    layer in which one is like fewer others decides which to compare: one question is asked about many texts, or many
    about one. With `kinds` both are of one kind.
    """
    found: dict[int, int] = {}
    for n, rows, in_turn in _candidates(layers, kinds):
        near = [next((m for m in row if all(layer.are_near(n, m) for layer in in_turn)), None) for row in rows]
        if (first := min((m for m in near if m is not None), default=None)) is not None:
            found[n] = first
    return found


def _candidates(
    layers: Sequence[Layer], kinds: Sequence[Hashable] | None = None
) -> Iterator[tuple[int, list[list[int]], list[Layer]]]:
    """Yield, per task, rows of the earlier ones that may be near to it, and the layers in which to compare them."""
    first_of = {tuple(map(id, layer.sets)): layer for layer in reversed(layers)}
    indexes = [_Index(layer) for layer in first_of.values()]
    of_kind = Counter(kinds or ())
    for n, each in enumerate(layers[0].sets):
        if len(each) < _MIN_WORDS or (kinds and of_kind[kinds[n]] < 2):
            continue
        key = (_numbers(each), kinds[n] if kinds else None)
        asked = [(index.near(n, key), index) for index in indexes if index.layer.sets[n]]
        rows, chosen = min(asked, key=lambda each: sum(map(len, each[0])))
        # By its words in that layer it was found; the others are more likely to differ.
        yield n, rows, [*(index.layer for index in indexes if index is not chosen), chosen.layer]
        for index in indexes:
            index.add(n, key)


class _Index:
    """Which sets were met so far, by their numbers, their kind and their rarest words."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self._rows: dict[tuple[_Key, str], dict[tuple[float, float], list[int]]] = {}

    def near(self, n: int, key: _Key) -> list[list[int]]:
        """Return rows of what was added with this key, in which all are that overlap enough with one."""
        total, least = self.layer.totals[n], self.layer.least[n]
        # Sets that overlap by so much share so much of what both weigh.
        share = least / (1 + least)
        return [
            row
            for rest, word in self.layer.rarest[n]
            for (other_total, other_rest), row in self._rows.get((key, word), {}).items()
            if min(rest, other_rest) >= share * (total + other_total) - _ROUNDING
        ]

    def add(self, n: int, key: _Key) -> None:
        """Add a set, to be found by those that come later."""
        for rest, word in self.layer.rarest[n]:
            self._rows.setdefault((key, word), {}).setdefault((self.layer.totals[n], rest), []).append(n)


def _numbers(words: frozenset[str]) -> frozenset[str]:
    # Most words are letters alone.
    return frozenset(word for word in words if not word.isalpha() and any(map(str.isdigit, word)))


def _whole(task: Task) -> str:
    """Return all that a task shows, its files as far as they are looked at."""
    files = "\n".join(f"{file.path}\n{file.content[:_MAX_CHARACTERS]}" for file in task.files)[:_MAX_CHARACTERS]
    return f"{task.prompt.removesuffix(QUESTION_ENDING)}\n{files}" if files else task.prompt


def _question(prompt: str) -> str:
    """What a prompt asks, without the text that it asks about: all of it, but for a row of a data set."""
    return prompt.rpartition(f"\n\n{QUESTION}")[2] if prompt.endswith(QUESTION_ENDING) else prompt


def _words(prompt: str) -> frozenset[str]:
    return frozenset(_WORD.findall(comparable(prompt.removesuffix(QUESTION_ENDING))))


def check_usable(task: NewTask, registered: Collection[str], secrets: KnownSecrets) -> None:
    """Raise BadInput for a task that sets up hosts, holds a secret, or needs a program that is not `registered`."""
    if fault := next(filter(None, (describe_hosts_own(file.path) for file in task.files)), None):
        raise BadInput(fault)
    files = (text for file in task.files for text in (file.path, file.content))
    text = "\n".join((task.prompt, task.name or "", task.group, *task.tags, *files, judge_json(task.judge)))
    if found := find_secrets(text.encode("utf-8", "replace"), secrets):
        raise BadInput(f"contains a secret ({found[0].kind}): use a made-up value")
    if lacking := missing_programs(task.judge, registered):
        raise BadInput(unregistered(lacking[0]))
