"""Rubric: the judge that asks a model how much of a rubric an answer fulfils, or which of its points hold."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from statistics import median
from typing import Any, Self

from pydantic import Field

from skillopt_mcp.core.calls import Ask, Call, Question
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Outcome, Score, Unscored, judge
from skillopt_mcp.core.replies import PointsReply, RubricReply
from skillopt_mcp.core.text import without_hidden
from skillopt_mcp.prompts.loading import load_shipped
from skillopt_mcp.prompts.rendering import Parsed, ask_parsed, cut_middle, fence
from skillopt_mcp.tasks.judges.base import Asking, is_encodable, on_one_line, quoted

MAX_RUBRIC_CHARS = 20_000
MAX_POINTS = 50
SHOWN = 20_000
GRADES = {"none": 0.0, "little": 0.25, "half": 0.5, "most": 0.75, "all": 1.0}
Votes = Sequence[Parsed[Any]]
# What models leave out, put in or change where they copy words: marks of Markdown and of quotation, and dashes.
_MARKS = dict.fromkeys(map(ord, "*_`#|>\"'“”„‘’«»-\u2010\u2011\u2013\u2014\u2212"), " ")
_NO_WORD = re.compile(r"\W+")
_ELISION = re.compile(r"\[?(?:\.{3,}|…)\]?")


@judge("rubric")
class Rubric(Asking):
    """A judge model finds how much of `rubric` the answer fulfils (none, little, half, most: 0.75, all), or which of
    up to 50 `points` hold, each with a quote.

    Soft is the median of `votes` votes (default: 1), or the share of points that hold in most votes (default: 2, and a
    third where they differ). It passes from `threshold` on (0.75; of points 1: all). The model sees the task too.
    """

    rubric: str = Field(default="", description="text, or points: [text]")
    points: list[str] = Field(default_factory=list)
    votes: int | None = Field(default=None, ge=1, le=9)
    threshold: float | None = Field(default=None, gt=0, le=1)

    @property
    def most_votes(self) -> int:
        """How many questions an answer takes at most; more than half of them are asked first."""
        return self.votes or (3 if self.points else 1)

    def score(self, attempt: Attempt) -> Outcome:
        return Unscored("a rubric needs a judge model")

    @classmethod
    def score_all(cls, ask: Ask, attempts: Sequence[tuple[Self, Attempt]]) -> list[Outcome]:
        """Return the scores: of several votes a majority is asked first, the others where it does not agree."""
        calls = [rubric.calls(attempt) for rubric, attempt in attempts]
        first = _ask_votes(ask, attempts, [each[: len(each) // 2 + 1] for each in calls])
        # What more than half of the votes agree on is the median, whatever the others say.
        rest = [[] if _is_settled(votes) else each[len(votes) :] for each, votes in zip(calls, first, strict=True)]
        asked = zip(attempts, first, _ask_votes(ask, attempts, rest), strict=True)
        return [rubric._count(attempt, [*majority, *others]) for (rubric, attempt), majority, others in asked]

    def calls(self, attempt: Attempt) -> list[Call]:
        """Return one question per vote, each on a draw of its own; every second one lists the points backwards."""
        files = [f"File `{path}`:\n\n{fence(cut_middle(text, SHOWN), 'file')}" for path, text in attempt.files]
        # A point is one line, so that none can pretend to be several.
        points = [f"{n}. {' '.join(point.split())}" for n, point in enumerate(self.points, 1)]
        name = "points" if points else "rubric"
        found = list[Call]()
        for n in range(self.most_votes):
            evidence = "\n\n".join([
                f"## Task\n\n{fence(cut_middle(attempt.prompt, SHOWN), 'task')}",
                *files,
                f"## {name.title()}\n\n{fence(chr(10).join(points[:: -1 if n % 2 else 1]) or self.rubric, name)}",
                f"## Answer\n\n{fence(cut_middle(attempt.answer, SHOWN), 'answer')}\n",
            ])  # fmt: skip
            question = Question(load_shipped(name), evidence, name, temperature=0.0)
            found.append(Call("judge", "judge", question, f"{attempt.draw}/vote{n}"))
        return found

    def _count(self, attempt: Attempt, votes: Votes) -> Outcome:
        """Return what most votes say; without the replies of more than half of them there is no score."""
        usable = [vote.value for vote in votes if vote.value]
        if 2 * len(usable) <= len(votes):
            problems = "; ".join(dict.fromkeys(vote.problem for vote in votes if not vote.value))
            return Unscored(f"{len(usable)} of {len(votes)} votes could be used: {problems}")
        prompt = load_shipped("points" if self.points else "rubric")
        details = f"(prompt {hashlib.sha256(prompt.encode()).hexdigest()[:8]}"
        if len(attempt.answer) > SHOWN:
            details += f"; {len(attempt.answer) - SHOWN:,} characters and more of the answer's middle were not shown"
        details += ")"
        if not self.points:
            soft = float(median(GRADES[reply.grade] for reply in usable))
            reasons = " / ".join(quoted(reply.reasoning, 200) for reply in usable)
            reason = f"rubric fulfilled: {', '.join(reply.grade for reply in usable)} {details}: {reasons}"
            return Score(soft >= (self.threshold or 0.75), soft, reason)
        points_of: dict[bool, list[str]] = {False: [], True: []}
        for point, said in zip(self.points, zip(*(reply.points for reply in usable), strict=True), strict=True):
            holds = 2 * sum(each.holds for each in said) > len(said)
            # That something is not there has no words of the answer: a quote of it is made up, or of something else.
            quotes = [each.quote for each in said if each.holds is holds and not each.absence]
            quote = next(filter(str.strip, quotes), "")
            points_of[holds].append(quoted(point, 120) + (f" ({quoted(quote, 120)})" if quote else ""))
        soft = len(points_of[True]) / len(self.points)
        reason = f"{len(points_of[True])} of {len(self.points)} points hold {details}"
        for holds, points in points_of.items():
            reason += f"; {'hold' if holds else 'do not hold'}: {', '.join(points)}" if points else ""
        return Score(soft >= (self.threshold or 1.0), soft, reason)

    def find_fault(self, attempt: Attempt, reply: PointsReply) -> str:
        """Why a reply is of no use: a point is missing or judged twice, or holds by a quote that is false or thin."""
        if [each.point for each in reply.points] != list(range(1, len(self.points) + 1)):
            return f"points must have each of the numbers 1 to {len(self.points)} once"
        answer = attempt.answer
        if len(answer) > SHOWN:
            answer = f"{answer[: SHOWN // 2]}\n{answer[-SHOWN // 2 :]}"
        words = on_one_line(without_hidden(answer).translate(_MARKS))
        whole = _NO_WORD.sub("", words)
        for each in reply.points:
            quote = on_one_line(without_hidden(each.quote).translate(_MARKS))
            parts = [part.strip() for part in _ELISION.split(quote) if part.strip()]
            position = 0 if parts else -1
            for part in parts:
                start = words.find(part, position) if position >= 0 else -1
                position = start + len(part) if start >= 0 else -1
            if position < 0 and each.quote.strip() and each.quote.strip() in answer:
                position, parts = 0, [each.quote.strip()]
            why = "does not stand in the answer: copy it character by character" if position < 0 else ""
            if not why and any(
                len(part) < 12 and len(part.split()) < 3 and _NO_WORD.sub("", part) != whole for part in parts
            ):
                why = "is too short: copy at least three words or twelve characters that stand together"
            if why and each.holds and not each.absence:
                return f"point {each.point} holds by a quote that {why}, or say that the point does not hold"
        return ""

    def check(self) -> None:
        if bool(self.rubric.strip()) is bool(self.points) or not all(each.strip() for each in self.points):
            raise BadInput("rubric judge: give either rubric, a text, or points, a list of texts that are not empty")
        if len(self.points) > MAX_POINTS:
            raise BadInput(f"rubric judge: {len(self.points)} points, at most {MAX_POINTS}: join several by 'all'")
        text = self.rubric or "\n".join(self.points)
        if len(text) > MAX_RUBRIC_CHARS or not is_encodable(text):
            raise BadInput(
                f"rubric judge: rubric must say in 1-{MAX_RUBRIC_CHARS:,} characters what a good answer does, "
                f"got {quoted(text, 20)}"
            )


def _ask_votes(
    ask: Ask, attempts: Sequence[tuple[Rubric, Attempt]], calls: Sequence[Sequence[Call]]
) -> list[list[Parsed[Any]]]:
    """Return the votes of each rubric's calls, all of a form asked together."""
    asked = [(n, call) for n, each in enumerate(calls) for call in each]
    texts = [(n, call) for n, call in asked if not attempts[n][0].points]
    lists = [(n, call) for n, call in asked if attempts[n][0].points]

    owners = [attempts[n] for n, _ in lists]
    found: list[list[Parsed[Any]]] = [[] for _ in calls]
    replies: list[Parsed[Any]] = [*ask_parsed(ask, [call for _, call in texts], RubricReply)]
    replies += ask_parsed(
        ask, [call for _, call in lists], PointsReply, lambda i, said: owners[i][0].find_fault(owners[i][1], said)
    )
    for (n, _), reply in zip([*texts, *lists], replies, strict=True):
        found[n].append(reply)
    return found


def _is_settled(majority: Votes) -> bool:
    """Whether votes can all be used, and say the same."""
    replies = [vote.value for vote in majority if vote.value]
    said = [getattr(reply, "grade", None) or [each.holds for each in reply.points] for reply in replies]
    return len(said) == len(majority) and all(each == said[0] for each in said)
