"""Nearness: which tasks ask nearly the same, by the words of what they ask, without comparing all with all."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Collection, Hashable, Sequence

from skillopt_mcp.judges.answers import comparable, on_one_line
from skillopt_mcp.records.tasks import QUESTION, QUESTION_ENDING, Task

NEAR = 0.85
_ROUNDING = 1e-9
_MIN_WORDS = 5
# So many of its rarest words find a text's twin: of two long texts that are twins, one can hardly lack all of them.
_MOST_LOOKED_UP = 8
_FILES_LOOKED_AT = 20_000
_WORD = re.compile(r"\w+")
Words = Sequence[frozenset[str]]
_Key = tuple[frozenset[str], Hashable]


def exact_form(task: Task) -> Hashable:
    """Return what two tasks have in common that ask the very same: prompt, whatever its blanks, and files."""
    return on_one_line(task.prompt), *sorted((file.path, file.content) for file in task.files)


def words_of(tasks: Sequence[Task]) -> tuple[Words, Words]:
    """Return the words of each task, the text and files that it asks about among them, and those of its question."""
    asked = [_words(_question(task.prompt)) for task in tasks]
    return [_words(_whole(task)) if _has_text(task) else each for task, each in zip(tasks, asked, strict=True)], asked


def with_numbers_of(words: Words, meant: Sequence[int]) -> Words:
    """Return the words, none for what has other numbers than all of those that are `meant`: it is near to none."""
    numbers = {_numbers(words[n]) for n in meant}
    return [each if _numbers(each) in numbers else frozenset() for each in words]


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
        """Return whether two sets overlap as much as the first must (Jaccard)."""
        common = self._weight(self.sets[n] & self.sets[m])
        return common >= self.least[n] * (self.totals[n] + self.totals[m] - common) - _ROUNDING

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
        for _, word in heapq.nsmallest(_MOST_LOOKED_UP, shared):
            if rest < least - _ROUNDING:
                break
            found.append((rest, word))
            rest -= self._weight([word])
        return found


def near_pairs(layers: Sequence[Layer], kinds: Sequence[Hashable] | None = None) -> dict[int, int]:
    """Return, per task, the first one whose words overlap as much as they must (Jaccard), with the same numbers.

    So must the words of each further layer: two questions about one text are two tasks. All must be alike, so that the
    layer in which one is like fewer others tells which to compare: one question is asked about many texts, or many
    about one. With `kinds` both are of one kind.
    """
    first_of = {tuple(map(id, layer.sets)): layer for layer in reversed(layers)}
    indexes = [_Index(layer) for layer in first_of.values()]
    of_kind = Counter(kinds or ())
    found: dict[int, int] = {}
    for n, each in enumerate(layers[0].sets):
        if len(each) < _MIN_WORDS or (kinds and of_kind[kinds[n]] < 2):
            continue
        key = (_numbers(each), kinds[n] if kinds else None)
        asked = [(index.near(n, key), index) for index in indexes if index.layer.sets[n]]
        rows, chosen = min(asked, key=lambda each: _length(each[0]))
        # By its words in that layer it was found; the others are more likely to tell it apart.
        others = [index.layer for index in indexes if index is not chosen]
        near = [_first_near([*others, chosen.layer], n, row) for row in rows]
        if (first := min((m for m in near if m is not None), default=None)) is not None:
            found[n] = first
        for index in indexes:
            index.add(n, key)
    return found


def _first_near(layers: Sequence[Layer], n: int, row: Sequence[int]) -> int | None:
    return next((m for m in row if all(layer.are_near(n, m) for layer in layers)), None)


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


def _length(rows: Sequence[Sequence[int]]) -> int:
    return sum(map(len, rows))


def _numbers(words: frozenset[str]) -> frozenset[str]:
    # Most words are letters alone.
    return frozenset(word for word in words if not word.isalpha() and any(map(str.isdigit, word)))


def _has_text(task: Task) -> bool:
    """Return whether a task asks about something beside its question."""
    return bool(task.files) or _question(task.prompt) is not task.prompt


def _whole(task: Task) -> str:
    """Return all that a task shows, its files as far as they are looked at."""
    files = "\n".join(f"{file.path}\n{file.content[:_FILES_LOOKED_AT]}" for file in task.files)[:_FILES_LOOKED_AT]
    return f"{task.prompt.removesuffix(QUESTION_ENDING)}\n{files}" if files else task.prompt


def _question(prompt: str) -> str:
    """Return what a prompt asks, without the text that it asks about: all of it, but for a row of a data set."""
    return prompt.rpartition(f"\n\n{QUESTION}")[2] if prompt.endswith(QUESTION_ENDING) else prompt


def _words(prompt: str) -> frozenset[str]:
    return frozenset(_WORD.findall(comparable(prompt.removesuffix(QUESTION_ENDING))))
