"""Scorer: inspect_ai's scorers, with the verdicts that they give there (release 0.3.285)."""

from __future__ import annotations

import ast
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from math import isfinite
from typing import Any

from pydantic import Field

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Judge, Outcome, Score, Unscored, judge
from skillopt_mcp.tasks.judges.base import QUOTED, is_encodable, quoted
from skillopt_mcp.tasks.judges.kinds.choice import MAX_OPTIONS

# The first value of each option is its default.
_OPTIONS: dict[str, dict[str, tuple[object, ...]]] = {
    "match": {
        "location": ("end", "begin", "any", "exact"), "ignore_case": (True, False), "numeric": (False, True),
    },
    "includes": {"ignore_case": (True, False)},
    "exact": {},
    "f1": {},
    "choice": {},
}  # fmt: skip
SCORERS = 'match, match(location="any"), match(numeric=True), includes, includes(ignore_case=False), exact, f1, choice'
MAX_TARGETS = 100
_MAX_SCORER_CHARS = 100

_EDGES = string.whitespace + string.punctuation
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_ESCAPED, _MARKS, _FULL_STOP = re.compile(r"\\([$,£€*_])"), re.compile(r"[$,£€*_]"), re.compile(r"\.(?=\D|\Z)")
_AROUND_NUMBER = "!?:;()[]{}'\"`"
_MINUS = "-−﹣－"
_IN_NUMBERS = frozenset(f"{_MINUS}+.,'’eE＋﹢正负負點点○，﹐、٬ʼ＇٫．⁻⁺{string.digits}")

# An option in dollars, in asterisks or in parentheses counts as the option.
_LETTERS = r"[A-Za-z\d](?:[A-Za-z\d ,]*[A-Za-z\d,])?"
_WRAPPED = [
    (re.compile(rf"\$\s*({_LETTERS})\s*\$"), r"\1"),
    (re.compile(rf"\*\*\s*({_LETTERS})\s*\*\*"), r"\1"),
    (re.compile(r"(^|[:,])(\s*)\(([A-Za-z\d])\)(?=\s*(?:[,.\n]|\Z))", re.IGNORECASE), r"\1\2\3"),
]
# A line of its own goes first. Possessive, so that the time is linear; the last branches find blanks alone.
_RUN = r"([A-Za-z\d ,]++)"
_ON_ITS_LINE = re.compile(rf"^ANSWER\s*:(?:\s*+{_RUN}|[^\S ]*+[ ])\s*(?:$|\n|\.)", re.IGNORECASE | re.MULTILINE)
_ANYWHERE = re.compile(
    rf"ANSWER\s*:(?:\s*+(?:{_RUN}(?=\W|\Z)|([A-Za-z\d,][A-Za-z\d ,]*)(?=[ ,]))|\s*[ ](?=\W|\Z))", re.IGNORECASE
)


class _OtherNumeralsError(ValueError):
    """A text is a number in numerals that are not read here."""


@lru_cache(maxsize=64)
def parse_scorer(text: str) -> tuple[str, Mapping[str, Any]]:
    """Read a scorer as inspect_ai's tasks write it, `match` or `match(numeric=True)`: its name and all its options.

    Raises BadInput that lists the scorers there are.
    """
    with suppress(SyntaxError, ValueError, TypeError, KeyError, MemoryError, RecursionError, AttributeError):
        tree = ast.parse(text.strip() if len(text) <= _MAX_SCORER_CHARS else "", mode="eval").body
        call: Any = tree if isinstance(tree, ast.Call) else ast.Call(tree, [], [])
        known = _OPTIONS[call.func.id]
        given = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
        given |= dict(zip(list(known)[:1], map(ast.literal_eval, call.args), strict=bool(call.args)))
        if all(any(value is each or value == each != 1 for each in known[name]) for name, value in given.items()):
            return call.func.id, {name: given.get(name, values[0]) for name, values in known.items()}
    raise BadInput(f"there is no scorer {quoted(text)} here: give one of {SCORERS}")


@judge("scorer", of_evals=True)
class Scorer(Judge):
    """The answer is right for one of `target` by a `scorer` of inspect_ai, as its tasks write it: match, includes, ...

    `choice` takes the letters of `choices` in the form that its prompt asks for, with `multiple` several of them.
    """

    scorer: str
    target: str | list[str]
    choices: list[str] = Field(default=[], max_length=MAX_OPTIONS)
    multiple: bool = False

    @property
    def targets(self) -> list[str]:
        """The targets as a list."""
        return [self.target] if isinstance(self.target, str) else self.target

    def score(self, attempt: Attempt) -> Outcome:
        """The whole answer is looked at; of `f1` its value is soft, and hard where it is 1."""
        name, options = parse_scorer(self.scorer)
        if name == "choice":
            positions = _selected(attempt.answer, len(self.choices), multiple=self.multiple)
            soft = float(positions == sorted(_positions(self.targets)))
            found = ", ".join(map(name_option, positions)) or "no option in the form ANSWER: A"
        elif name == "f1":
            given, soft, found = Counter(_normalise(attempt.answer).split()), 0.0, quoted(attempt.answer, QUOTED)
            for words in filter(None, (Counter(_normalise(target).split()) for target in self.targets)):
                common = (given & words).total()
                precision, recall = common / (given.total() or 1), common / words.total()
                soft = max(soft, 2 * precision * recall / (precision + recall) if common else 0.0)
            soft = round(soft, 2)
        else:
            found = quoted(attempt.answer, QUOTED)
            try:
                soft = float(any(_is_right(name, options, attempt.answer, target) for target in self.targets))
            except _OtherNumeralsError as error:
                return Unscored(f"{self.scorer} cannot judge {found}: {error}")
        wanted = (" and " if name == "choice" else " or ").join(quoted(target, QUOTED) for target in self.targets[:3])
        verdict = "is right" if soft == 1 else f"is wrong ({soft:g})" if soft else "is wrong"
        return Score(soft == 1, soft, f"{found} {verdict} by {self.scorer} for {wanted}")

    def check(self) -> None:
        name, _ = parse_scorer(self.scorer)
        if not 1 <= len(self.targets) <= MAX_TARGETS or not all(map(is_encodable, [*self.targets, *self.choices])):
            raise BadInput(f"scorer judge: target must be 1-{MAX_TARGETS} texts of UTF-8")
        if name == "choice" and not all(at < len(self.choices) for at in _positions(self.targets)):
            raise BadInput(f"scorer judge: target {quoted(str(self.target))} is none of {len(self.choices)} choices")

    def references(self) -> list[str]:
        is_choice = parse_scorer(self.scorer)[0] == "choice"
        return [f"ANSWER: {','.join(map(name_option, _positions(self.targets)))}"] if is_choice else self.targets


def _is_right(name: str, options: Mapping[str, Any], answer: str, target: str) -> bool:
    if name == "exact":
        expected = _normalise(target)
        return bool(expected) and _normalise(answer) == expected
    if options["ignore_case"]:
        answer, target = answer.casefold(), target.casefold()
    if name == "includes":
        return target in answer
    answer, target, location = answer.strip(), target.strip(), options["location"]
    if options["numeric"]:
        target = _without_marks(target)
        if (number := _read_number(target.strip(_AROUND_NUMBER))) is not None:
            return _has_number(_without_marks(answer), number, location)
    answer, target = answer.strip(_EDGES), target.strip(_EDGES)
    if location == "exact":
        return answer == target
    places = {"begin": answer.startswith, "end": answer.endswith, "any": answer.__contains__}
    return places[location](target)


def _has_number(answer: str, number: float, location: str) -> bool:
    """Whether the number stands there in the answer, to five digits: the whole, the first, the last or any word."""
    wanted = f"{number:.5g}"
    if location == "exact":
        own = _read_number(answer)
        return wanted == (answer if own is None else f"{own:.5g}")
    words = re.split(r"\s+", answer)
    for word in reversed(words) if location == "end" else words:
        own = _read_number(word.strip(_AROUND_NUMBER))
        if own is not None and (f"{own:.5g}" == wanted or location != "any"):
            return f"{own:.5g}" == wanted
    return False


def _without_marks(text: str) -> str:
    return _FULL_STOP.sub("", _MARKS.sub("", _ESCAPED.sub(r"\1", text)))


def _read_number(text: str) -> float | None:
    """The number that a text is, None for none. Raises _OtherNumeralsError where its numerals are not read here."""
    unsigned = text.strip().lstrip(f"{_MINUS}+＋﹢{string.whitespace}")
    bare = "".join(unsigned.replace("'", "").split())
    with suppress(ValueError):
        if isfinite(number := unicodedata.numeric(bare) if len(bare) == 1 else float(bare)):
            return -number if sum(map(text.strip().removesuffix(unsigned).count, _MINUS)) % 2 else number
    numerals = {each for each in text if not each.isascii() and unicodedata.numeric(each, None) is not None}
    if numerals and all(each in numerals or each in _IN_NUMBERS or each.isspace() for each in set(text)):
        raise _OtherNumeralsError(f"the numerals of {quoted(text)} are not read")
    return None


def _normalise(text: str) -> str:
    """Lower case, without punctuation and articles, numbers as numbers, word by word."""
    found = list[str]()
    for word in re.split(" |-", text.casefold()):
        bare = word.translate(_PUNCTUATION)
        numbers = [number for each in (word, word.strip(_EDGES), bare) if (number := _read_float(each)) is not None]
        found += [str(numbers[0])] if numbers else _ARTICLES.sub(" ", bare).split()
    return " ".join(found)


def _read_float(text: str) -> float | None:
    with suppress(ValueError):
        return number if isfinite(number := float(text)) else None
    return None


def name_option(position: int) -> str:
    """The letter of an option, or its number from the 27th on."""
    return chr(ord("A") + position) if position < len(string.ascii_uppercase) else str(position - 25)


def _positions(targets: list[str]) -> list[int]:
    """The positions of the options that letters, and numbers from the 27th on, name. Raises BadInput."""
    found = list[int]()
    for word in (word for target in targets for word in target.replace(",", " ").split()):
        for name in [word] if word.isnumeric() else word:
            upper = name.upper()
            number = int(name) if name.isdecimal() and len(name) < 9 else 0
            if not number and upper not in string.ascii_uppercase:
                raise BadInput(f"scorer judge: {quoted(name)} names no choice: they are A, B, ...")
            found.append(25 + number if number else string.ascii_uppercase.index(upper))
    return found


def count_chosen(target: str | list[str], n_choices: int) -> int:
    """How many of so many options a target names; 0 where it names another, or none."""
    try:
        positions = _positions([target] if isinstance(target, str) else target)
    except BadInput:
        return 0
    return len(positions) if max(positions, default=0) < n_choices else 0


def _selected(answer: str, n_choices: int, *, multiple: bool) -> list[int]:
    """The positions of the options that an answer selects, sorted; [] where its form is another."""
    for pattern, plain in _WRAPPED:
        answer = pattern.sub(plain, answer)
    matches = list(_ON_ITS_LINE.finditer(answer)) or list(_ANYWHERE.finditer(answer))
    text = next(filter(None, matches[-1].groups()), "") if matches else ""
    text = text.strip().rstrip(".").upper()
    if multiple:
        text = text.replace(" AND ", ",").replace(" ", "")
    names, allowed = [name for name in text.split(",") if name], [name_option(at) for at in range(n_choices)]
    if multiple and not set(names) <= set(allowed):
        names = list(text)
    if not set(names) <= set(allowed) or not (multiple or len(names) == 1):
        return []
    return sorted({allowed.index(name) for name in names})
