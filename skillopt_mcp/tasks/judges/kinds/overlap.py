"""Overlap: judges that measure how much an answer and the expected one have in common, in words or letters."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable

from pydantic import Field

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Score, judge
from skillopt_mcp.tasks.judges.base import QUOTED, comparable, is_whole, on_one_line, quoted, take_end
from skillopt_mcp.tasks.judges.kinds.text import Expecting

TAU = 0.5
MAX_ANLS_CHARS = 2_000
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Overlapping(Expecting):
    """Base of the kinds that pass from a `threshold` of likeness on."""

    threshold: float = Field(default=0.8, gt=0, le=1)

    def best(self, answer: str, measure: Callable[[str], float]) -> Score:
        """Return the score of the expected text to which the answer is nearest."""
        soft, text = max(((measure(text), text) for text in self.texts), key=lambda found: found[0])
        against = f"{quoted(answer)} against {quoted(text, QUOTED)}; {self.threshold:g} passes"
        return Score(hard=soft >= self.threshold, soft=soft, reason=f"{self.kind} {soft:.3f} of {against}")


@judge("f1")
class F1(Overlapping):
    """The answer shares words with one of `expected`: soft is the token F1 of SQuAD, passed from `threshold` on.

    With `exact` it passes when it is one of them (case, punctuation and articles aside), whatever the threshold.
    """

    exact: bool = False

    def score(self, attempt: Attempt) -> Score:
        given = normalised(take_end(attempt.answer)).split()
        score = self.best(attempt.answer, lambda text: token_f1(given, normalised(text).split()))
        if not self.exact:
            return score
        # The same words in another order have an F1 of 1 too.
        hard = is_whole(attempt.answer) and any(given == normalised(text).split() for text in self.texts)
        reason = score.reason.replace(f"{self.threshold:g} passes", "only the text itself passes")
        return Score(hard, score.soft, reason)


@judge("anls")
class Anls(Overlapping):
    """The answer is spelled like one of `expected`: soft is ANLS (0 below 0.5), passed from `threshold` on."""

    def score(self, attempt: Attempt) -> Score:
        given, whole = on_one_line(take_end(attempt.answer)), is_whole(attempt.answer)
        return self.best(attempt.answer, lambda text: similarity(given, on_one_line(text)) if whole else 0.0)

    def check(self) -> None:
        super().check()
        longest = max(map(len, self.texts))
        if longest > MAX_ANLS_CHARS:
            raise BadInput(f"anls judge: expected has {longest:,} characters, max {MAX_ANLS_CHARS:,}; use f1")


def token_f1(given: list[str], expected: list[str]) -> float:
    """Return the harmonic mean of precision and recall of the tokens; two empty lists are equal."""
    if not given or not expected:
        return float(given == expected)
    n_common = (Counter(given) & Counter(expected)).total()
    return 2 * n_common / (len(given) + len(expected))


def similarity(given: str, expected: str) -> float:
    """Return 1 - distance / length of the longer text, or 0.0 where that is below TAU."""
    longest = max(len(given), len(expected))
    if not longest:
        return 1.0
    if abs(len(given) - len(expected)) > TAU * longest:
        return 0.0
    near = 1 - edit_distance(given, expected) / longest
    return near if near >= TAU else 0.0


def edit_distance(first: str, second: str) -> int:
    """Return the Levenshtein distance, a column of the table per machine word (Myers 1999; Hyyro 2003)."""
    if not first or not second:
        return len(first) + len(second)
    positions: dict[str, int] = {}
    for n, character in enumerate(first):
        positions[character] = positions.get(character, 0) | 1 << n
    full, last = (1 << len(first)) - 1, 1 << (len(first) - 1)
    rises, falls, distance = full, 0, len(first)
    for character in second:
        equal = positions.get(character, 0)
        stays = equal | falls
        diagonal = (((equal & rises) + rises) ^ rises) | equal
        up = falls | (~(diagonal | rises) & full)
        down = rises & diagonal
        distance += bool(up & last) - bool(down & last)
        up = (up << 1 | 1) & full
        down = (down << 1) & full
        rises = down | (~(stays | up) & full)
        falls = up & stays
    return distance


def normalised(text: str) -> str:
    """Return the text as SQuAD compares it: lower case, without punctuation, articles and double spaces."""
    return " ".join(_ARTICLES.sub(" ", comparable(text).translate(_PUNCTUATION)).split())
