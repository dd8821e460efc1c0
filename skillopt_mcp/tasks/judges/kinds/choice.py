"""Choice: the judge that finds out which of several options an answer names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_uppercase

from pydantic import Field

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Judge, Score, judge
from skillopt_mcp.tasks.judges.base import ENDING, QUOTED, is_encodable, on_one_line, quoted, take_end

MAX_OPTIONS = 100
MAX_OPTION_CHARS = 500
_MARKUP = " \t\n*_`\"'“”‘’()[]{}.:,;!"
_STATED = re.compile(
    r"(?:\banswer\b[\s*_`\"'’]*(?:is\b|[:=])|\\boxed\{)[\s:*_`\"'’]*(?=(?P<rest>[^\n]{0,200}))", re.IGNORECASE
)
_MAX_STATEMENTS = 20
# What follows a stated choice on its line gives reasons, and may well name the other options.
_REASON = re.compile(r"\s(?:because|since|as|while|whereas)\b|[.;]\s|\s\(")
_PREFIXED = re.compile(r"\(?([A-Za-z])[).:]\s+(?P<text>\S.*)", re.DOTALL)
_NOT = r"(?<![Nn]ot )(?<!NOT )"
_LABEL = re.compile(rf"{_NOT}(?<![\w'’\-−])\(?([A-Z])\b(?![’'\-+#])[).:]?")
_SMALL_LABEL = re.compile(r"\W*([a-z])(?=\W*$|[).:,;])")
_OPTION_WORD = re.compile(r"\b(?:option|choice)\s+[*_(]*$", re.IGNORECASE)
# "A" and "I" before a lower-case word are an article and a pronoun, unless the word goes on about an option.
_WORD_AFTER = re.compile(r"\s+([a-z]+)")
_ABOUT_AN_OPTION = frozenset({"and", "as", "because", "but", "is", "or", "since"})


@dataclass(frozen=True, slots=True)
class _Options:
    """Options ready to be found: `labels` by capital letter, `texts` by comparable text, both to the option's index."""

    labels: dict[str, int]
    texts: dict[str, int]
    pattern: re.Pattern[str] | None
    are_letters: bool


@judge("choice")
class Choice(Judge):
    """The answer names exactly one of `options` (letters, texts, or texts by their letter A, B, ...): `expected`."""

    expected: str
    options: list[str] = Field(min_length=2, max_length=MAX_OPTIONS)

    def score(self, attempt: Attempt) -> Score:
        """Return whether the answer names exactly one option, and the expected one.

        Looked at in this order: the whole answer (`B`, `(B)`, `Paris`), what follows "answer:", "answer is" or is in a
        \\boxed{}, and every mention in the last 20,000 characters ("not B" is not a mention).
        """
        named = named_options(tuple(self.options), attempt.answer)
        if len(named) == 1 and self.options[next(iter(named))] == self.expected:
            return Score(hard=True, soft=1.0, reason=f"names {quoted(self.expected)}")
        given = ", ".join(quoted(self.options[index]) for index in sorted(named)[:3]) or "none of the options"
        return Score(hard=False, soft=0.0, reason=f"names {given}; expected {quoted(self.expected, QUOTED)}")

    def check(self) -> None:
        seen: set[str] = set()
        for option in self.options:
            if not option.strip() or len(option) > MAX_OPTION_CHARS or not is_encodable(option):
                raise BadInput(
                    f"choice judge: options must be texts of 1-{MAX_OPTION_CHARS} characters of UTF-8, "
                    f"got {quoted(option, 20)}"
                )
            if on_one_line(option) in seen:
                raise BadInput(f"choice judge: option {quoted(option)} is given twice; make the options differ")
            seen.add(on_one_line(option))
        if self.expected not in self.options:
            listed = ", ".join(quoted(option, 20) for option in self.options[:8])
            raise BadInput(f"choice judge: expected {quoted(self.expected)} is not among the options {listed}")

    def references(self) -> list[str]:
        return [self.expected]


def named_options(options: tuple[str, ...], answer: str) -> set[int]:
    """Return the indexes of the options that the answer names."""
    ready = _ready(options)
    text = take_end(answer, ENDING)
    whole = _whole(text, ready)
    if whole:
        return whole
    stated: set[int] = set()
    for statement in list(_STATED.finditer(text))[-_MAX_STATEMENTS:]:
        stated |= _mentions(_REASON.split(statement["rest"], maxsplit=1)[0], ready, stated=True)
    return stated or _mentions(text, ready, stated=False)


@lru_cache(maxsize=256)
def _ready(options: tuple[str, ...]) -> _Options:
    letters = {option.strip().upper(): index for index, option in enumerate(options) if _is_letter(option.strip())}
    if letters:
        texts = {on_one_line(option): index for index, option in enumerate(options) if not _is_letter(option.strip())}
        return _Options(letters, texts, _any_of(texts), are_letters=True)
    prefixed = [_PREFIXED.fullmatch(option.strip()) for option in options]
    labels = dict(zip(ascii_uppercase, range(len(options)), strict=False))
    texts = {on_one_line(option): index for index, option in enumerate(options)}
    own = {match[1].upper(): index for index, match in enumerate(prefixed) if match}
    bare = {on_one_line(match["text"]): index for index, match in enumerate(prefixed) if match}
    if len(own) == len(bare) == len(options):
        labels, texts = own, bare
    return _Options(labels, texts, _any_of(texts), are_letters=False)


def _any_of(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern that finds the texts as whole words, the longest where one begins with another."""
    found = "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))
    return re.compile(rf"(?<!not )(?<![\w\-−])(?<!\d[.,])(?:{found})(?!\w|[.,]\d)") if found else None


def _is_letter(option: str) -> bool:
    return len(option) == 1 and option.isascii() and option.isalpha()


def _whole(text: str, ready: _Options) -> set[int]:
    """Return the option that the answer consists of, letter or text in whatever markup."""
    words, bare = on_one_line(text), text.strip(_MARKUP)
    if words in ready.texts:
        return {ready.texts[words]}
    if len(bare) == 1 and bare.upper() in ready.labels:
        return {ready.labels[bare.upper()]}
    stripped = on_one_line(bare)
    return {index for option, index in ready.texts.items() if stripped and stripped == option.strip(_MARKUP)}


def _mentions(text: str, ready: _Options, *, stated: bool) -> set[int]:
    found = set(_labelled(text, ready, stated=stated))
    if ready.pattern is not None:
        found |= {ready.texts[match[0]] for match in ready.pattern.finditer(on_one_line(text))}
    return found


def _labelled(text: str, ready: _Options, *, stated: bool) -> Iterator[int]:
    """Yield options named by their letter. Letters that only count options by place must look like labels."""
    text = text.replace("_", " ")
    for match in _LABEL.finditer(text):
        index = ready.labels.get(match[1])
        if index is None or _is_word(text, match):
            continue
        leads = not any(character.isalnum() for character in text[max(0, match.start() - 50) : match.start()])
        marked = "(" in match[0] or match[0].endswith(")") or (leads and (stated or match[0][-1] in ".:"))
        if ready.are_letters or marked or _OPTION_WORD.search(text[max(0, match.start() - 20) : match.start(1)]):
            yield index
    small = _SMALL_LABEL.match(text) if stated else None
    if small and small[1].upper() in ready.labels:
        yield ready.labels[small[1].upper()]


def _is_word(text: str, match: re.Match[str]) -> bool:
    after = _WORD_AFTER.match(text, match.end())
    return match[0] in ("A", "I") and after is not None and after[1] not in _ABOUT_AN_OPTION
