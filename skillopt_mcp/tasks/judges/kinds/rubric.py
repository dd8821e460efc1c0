"""Rubric: the judge that asks a model how much of a rubric an answer fulfils."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from statistics import median
from typing import Self

from pydantic import Field

from skillopt_mcp.core.calls import Ask, Call, Question
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Outcome, Score, Unscored, judge
from skillopt_mcp.core.replies import RubricReply
from skillopt_mcp.prompts.loading import load_shipped
from skillopt_mcp.prompts.rendering import Parsed, ask_parsed, cut_middle, fence
from skillopt_mcp.tasks.judges.base import Asking, is_encodable, quoted

MAX_RUBRIC_CHARS = 20_000
SHOWN = 20_000
GRADES = {"none": 0.0, "little": 0.25, "half": 0.5, "most": 0.75, "all": 1.0}
Votes = Sequence[Parsed[RubricReply]]


@judge("rubric")
class Rubric(Asking):
    """A judge model finds how much of `rubric` the answer fulfils: none, little, half, most (0.75), all.

    Soft is the median of `votes` independent votes, passed from `threshold` on. The model sees the task too.
    """

    rubric: str = ""
    points: list[str] = Field(default_factory=list)
    votes: int = Field(default=1, ge=1, le=9)
    threshold: float = Field(default=0.75, gt=0, le=1)

    @property
    def text(self) -> str:
        """What the judge model is shown: the rubric, or its points, numbered."""
        return self.rubric or "\n".join(f"{n}. {point}" for n, point in enumerate(self.points, 1))

    def score(self, attempt: Attempt) -> Outcome:
        return Unscored("a rubric needs a judge model")

    @classmethod
    def score_all(cls, ask: Ask, attempts: Sequence[tuple[Self, Attempt]]) -> list[Outcome]:
        """Return the scores: of several votes a majority is asked first, the others where it does not agree."""
        calls = [rubric.calls(attempt) for rubric, attempt in attempts]
        first = _votes(ask, [each[: len(each) // 2 + 1] for each in calls])
        # What more than half of the votes agree on is the median, whatever the others say.
        rest = _votes(
            ask, [[] if _is_settled(votes) else each[len(votes) :] for each, votes in zip(calls, first, strict=True)]
        )
        asked = zip(attempts, first, rest, strict=True)
        return [rubric._median([*majority, *others]) for (rubric, _), majority, others in asked]

    def calls(self, attempt: Attempt) -> list[Call]:
        """Return one question per vote: the same one, each on a draw of its own."""
        files = [f"File `{path}`:\n\n{fence(cut_middle(text, SHOWN), 'file')}" for path, text in attempt.files]
        evidence = "\n\n".join([
            f"## Task\n\n{fence(cut_middle(attempt.prompt, SHOWN), 'task')}",
            *files,
            f"## Rubric\n\n{fence(self.text, 'rubric')}",
            f"## Answer\n\n{fence(cut_middle(attempt.answer, SHOWN), 'answer')}\n",
        ])  # fmt: skip
        question = Question(load_shipped("rubric"), evidence, "rubric", temperature=0.0)
        return [Call("judge", "judge", question, f"{attempt.draw}/vote{n}") for n in range(self.votes)]

    def _median(self, votes: Votes) -> Outcome:
        """Return the median of the votes; without the replies of more than half of them there is no score."""
        grades = [vote.value.grade for vote in votes if vote.value]
        if 2 * len(grades) <= len(votes):
            problems = "; ".join(dict.fromkeys(vote.problem for vote in votes if not vote.value))
            return Unscored(f"{len(grades)} of {len(votes)} votes could be used: {problems}")
        soft = float(median(GRADES[grade] for grade in grades))
        version = hashlib.sha256(load_shipped("rubric").encode()).hexdigest()[:8]
        reasons = " / ".join(quoted(vote.value.reasoning, 200) for vote in votes if vote.value)
        reason = f"rubric fulfilled: {', '.join(grades)} (prompt {version}): {reasons}"
        return Score(soft >= self.threshold, soft, reason)

    def check(self) -> None:
        if bool(self.rubric.strip()) is bool(self.points) or not all(each.strip() for each in self.points):
            raise BadInput("rubric judge: give either rubric, a text, or points, a list of texts that are not empty")
        if len(self.text) > MAX_RUBRIC_CHARS or not is_encodable(self.text):
            raise BadInput(
                f"rubric judge: rubric must say in 1-{MAX_RUBRIC_CHARS:,} characters what a good answer does, "
                f"got {quoted(self.text, 20)}"
            )


def _votes(ask: Ask, calls: Sequence[Sequence[Call]]) -> list[Votes]:
    """Return the votes of each rubric's calls, all asked together."""
    votes = iter(ask_parsed(ask, [call for each in calls for call in each], RubricReply))
    return [[next(votes) for _ in each] for each in calls]


def _is_settled(majority: Votes) -> bool:
    return len({vote.value and vote.value.grade for vote in majority}) == 1 and majority[0].value is not None
