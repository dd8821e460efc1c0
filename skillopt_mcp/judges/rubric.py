"""Rubric: the judge that asks a model how much of a rubric an answer fulfils."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from statistics import median

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.answers import is_encodable, quoted
from skillopt_mcp.prompts.asking import Parsed
from skillopt_mcp.prompts.loading import shipped
from skillopt_mcp.prompts.rendering import cut_middle, fence
from skillopt_mcp.records.calls import Call, Question
from skillopt_mcp.records.evidence import Attempted
from skillopt_mcp.records.judging import Rubric, Score, Unscored
from skillopt_mcp.records.replies import RubricReply

MAX_RUBRIC_CHARS = 20_000
SHOWN = 20_000
GRADES = {"none": 0.0, "little": 0.25, "half": 0.5, "most": 0.75, "all": 1.0}


def rubric_calls(spec: Rubric, attempted: Attempted) -> list[Call]:
    """Return one question per vote: all are asked the same, each on a draw of its own."""
    task = attempted.task
    files = [f"File `{file.path}`:\n\n{fence(cut_middle(file.content, SHOWN), 'file')}" for file in task.files]
    evidence = "\n\n".join(
        [
            f"## Task\n\n{fence(cut_middle(task.prompt, SHOWN), 'task')}",
            *files,
            f"## Rubric\n\n{fence(spec.rubric, 'rubric')}",
            f"## Answer\n\n{fence(cut_middle(attempted.answer, SHOWN), 'answer')}\n",
        ]
    )
    question = Question(shipped("rubric"), evidence, "rubric", temperature=0.0)
    return [Call("judge", "judge", question, f"{attempted.draw}/vote{n}") for n in range(spec.votes)]


def is_settled(majority: Sequence[Parsed[RubricReply]]) -> bool:
    """Return whether more than half of the votes fix the median, which the others cannot move: all are alike."""
    return len({vote.value and vote.value.grade for vote in majority}) == 1 and majority[0].value is not None


def score_rubric(spec: Rubric, votes: Sequence[Parsed[RubricReply]]) -> Score | Unscored:
    """Return the median of the votes; without the replies of more than half of them there is no score."""
    grades = [vote.value.grade for vote in votes if vote.value]
    if 2 * len(grades) <= len(votes):
        problems = "; ".join(dict.fromkeys(vote.problem for vote in votes if not vote.value))
        return Unscored(f"{len(grades)} of {len(votes)} votes could be used: {problems}")
    soft = float(median(GRADES[grade] for grade in grades))
    hard = soft >= spec.threshold
    reasons = " / ".join(quoted(vote.value.reasoning, 200) for vote in votes if vote.value)
    told = f"rubric fulfilled: {', '.join(grades)} (prompt {prompt_version()}): {reasons}"
    return Score(hard, soft, told)


def prompt_version() -> str:
    """Return what names the text of the prompt: the beginning of its sha256."""
    return hashlib.sha256(shipped("rubric").encode()).hexdigest()[:8]


def check_rubric(spec: Rubric) -> None:
    """Raise BadInput when there is nothing to judge by, or too much."""
    if not spec.rubric.strip() or not is_encodable(spec.rubric):
        raise BadInput(f"rubric judge: rubric {quoted(spec.rubric, 20)} says nothing; write what a good answer does")
    if len(spec.rubric) > MAX_RUBRIC_CHARS:
        raise BadInput(
            f"rubric judge: the rubric has {len(spec.rubric):,} characters; give at most {MAX_RUBRIC_CHARS:,}"
        )
