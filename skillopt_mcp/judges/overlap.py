"""Overlap: judges that measure how near an answer comes to an expected one, by its words or by its letters."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.answers import TOLD, comparable, is_whole, looked_at, on_one_line, quoted
from skillopt_mcp.judges.text import check_texts, listed
from skillopt_mcp.records.judging import F1, Anls, Score

TAU = 0.5
MAX_ANLS_CHARS = 2_000
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def score_f1(spec: F1, answer: str) -> Score:
    """Return the best token F1 over the expected texts, as SQuAD computes it (Rajpurkar et al., 2016).

    Case, punctuation and the articles a, an, the count for nothing.
    """
    given = normalised(looked_at(answer)).split()
    scored = _best(spec, answer, lambda expected: token_f1(given, normalised(expected).split()))
    if not spec.exact:
        return scored
    # The same words in another order have an F1 of 1 too.
    hard = is_whole(answer) and any(given == normalised(expected).split() for expected in listed(spec.expected))
    reason = scored.reason.replace(f"{spec.threshold:g} passes", "only the text itself passes")
    return Score(hard, scored.soft, reason)


def score_anls(spec: Anls, answer: str) -> Score:
    """Return the best normalised Levenshtein similarity over the expected texts, 0 below TAU (Biten et al., 2019)."""
    given = on_one_line(looked_at(answer))
    whole = is_whole(answer)
    return _best(spec, answer, lambda expected: similarity(given, on_one_line(expected)) if whole else 0.0)


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


def check_overlap(spec: F1 | Anls) -> None:
    """Raise BadInput when there is nothing to compare with, or too much."""
    check_texts(spec)
    for text in listed(spec.expected) if isinstance(spec, Anls) else ():
        if len(text) > MAX_ANLS_CHARS:
            raise BadInput(
                f"anls judge: expected {quoted(text, 20)} has {len(text)} characters; give at most {MAX_ANLS_CHARS}, "
                "or use f1"
            )


def normalised(text: str) -> str:
    """Return the text as SQuAD compares it: lower case, without punctuation, articles and double spaces."""
    return " ".join(_ARTICLES.sub(" ", comparable(text).translate(_PUNCTUATION)).split())


def _best(spec: F1 | Anls, answer: str, measure: Callable[[str], float]) -> Score:
    soft, expected = max(((measure(text), text) for text in listed(spec.expected)), key=lambda found: found[0])
    hard = soft >= spec.threshold
    reason = f"{spec.kind} {soft:.3f} of {quoted(answer)} against {quoted(expected, TOLD)}; {spec.threshold:g} passes"
    return Score(hard=hard, soft=soft, reason=reason)
