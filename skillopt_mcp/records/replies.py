"""Replies: what a model must answer at each stage, as the JSON it is parsed from."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.records.edits import Op
from skillopt_mcp.records.skills import MAIN_FILE


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class EditReply(_Reply):
    """One edit. `target` is copied exactly from the skill; `content` is the new text."""

    op: Op
    target: str | None = None
    content: str | None = None
    path: str = MAIN_FILE


class PatchReply(_Reply):
    """Edits that would have prevented the failures, or kept the successes, and the reasoning behind them."""

    reasoning: str = ""
    edits: list[EditReply] = Field(default_factory=list)


class MergeReply(_Reply):
    """The merged patch. `merged_from` lists, per edit, the numbers of the input edits that it stands for."""

    reasoning: str = ""
    edits: list[EditReply] = Field(default_factory=list)
    merged_from: list[list[int]] = Field(default_factory=list)


class RankReply(_Reply):
    """The numbers of the edits to keep, most valuable first."""

    reasoning: str = ""
    ranking: list[int] = Field(default_factory=list)


class RubricReply(_Reply):
    """How much of the rubric the answer fulfils, and why."""

    reasoning: str = ""
    grade: Literal["none", "little", "half", "most", "all"]


class CheckReply(_Reply):
    """How a registered command ended: its exit code, or the limit that it was ended at; never neither.

    `output` is the end of what it printed, for people; `confined` how it was kept from the rest of the machine.
    """

    exit: int | None = None
    limit: Literal["time", "processes", "signal"] | None = None
    output: str = ""
    confined: str = "none"


SCHEMAS: dict[str, type[BaseModel]] = {
    "patch": PatchReply, "merge": MergeReply, "rank": RankReply, "rubric": RubricReply, "check": CheckReply,
}  # fmt: skip
