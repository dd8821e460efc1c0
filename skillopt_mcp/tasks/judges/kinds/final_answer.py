"""Final answer: what stands in the last <answer> of a reply, as SkillOpt 0.2.0 scores it."""

from __future__ import annotations

import re
import string

from pydantic import Field

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Score, judge
from skillopt_mcp.tasks.judges.base import QUOTED, quoted
from skillopt_mcp.tasks.judges.kinds.choice import MAX_OPTIONS
from skillopt_mcp.tasks.judges.kinds.overlap import token_f1
from skillopt_mcp.tasks.judges.kinds.text import Expecting

_OPENED, _CLOSED = re.compile("<answer>", re.IGNORECASE), re.compile("</answer>", re.IGNORECASE)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@judge("final_answer", of_evals=True)
class FinalAnswer(Expecting):
    """The last `<answer>...</answer>`, else the last line, is one of `expected` as SkillOpt's `searchqa` has it.

    Case, punctuation and articles do not count; soft is the token F1. With `choices` (label -> text) `expected` is a
    label, and the answer is it, its text, or begins with it, as in SkillOpt's `livemathematicianbench`.
    """

    choices: dict[str, str] = Field(default={}, max_length=MAX_OPTIONS)

    def score(self, attempt: Attempt) -> Score:
        answer = take_final(attempt.answer)
        if self.choices:
            labels, words = {as_label(label): text for label, text in self.choices.items()}, answer.split(maxsplit=1)
            named = [label for label, text in labels.items() if text.strip() and text.strip().lower() == answer.lower()]
            first = [as_label(words[0])] if words else []
            chosen = [as_label(answer)] if as_label(answer) in labels else named[:1] or first
            is_right = chosen[:1] != [] and chosen[0] in map(as_label, self.texts)
            soft = float(is_right)
        else:
            given, wanted = _split_words(answer), [_split_words(text) for text in self.texts]
            soft, is_right = max(token_f1(given, words) for words in wanted), given in wanted
        shown = " or ".join(quoted(text, QUOTED) for text in self.texts[:3])
        return Score(is_right, soft, f"the final answer {quoted(answer)} is {'' if is_right else 'not '}{shown}")

    def check(self) -> None:
        super().check()
        if self.choices and not {as_label(text) for text in self.texts} <= {as_label(label) for label in self.choices}:
            raise BadInput(f"final_answer judge: expected {quoted(self.texts[0])} is the label of no choice")


def take_final(answer: str) -> str:
    """What stands in the last <answer>, or else on the last line that is not blank."""
    found, at = None, 0
    while (opened := _OPENED.search(answer, at)) and (closed := _CLOSED.search(answer, opened.end())):
        found, at = answer[opened.end() : closed.start()].strip(), closed.end()
    return found if found is not None else next((line.strip() for line in reversed(answer.strip().splitlines())), "")


def as_label(text: str) -> str:
    """A label as it is compared: in capitals, without the point or parenthesis after it."""
    return text.strip().upper().rstrip(".):")


def _split_words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()
