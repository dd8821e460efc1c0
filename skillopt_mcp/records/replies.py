"""Replies: what a model must answer at each stage, as the JSON it is parsed from."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.records.edits import Op
from skillopt_mcp.records.skills import MAIN_FILE


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class EditReply(_Reply):
    """One edit. `target` is copied exactly from the skill; `content` is the new text.

    `evidence` holds the numbers of the attempts that it rests on.
    """

    op: Op
    target: str | None = None
    content: str | None = None
    path: str = MAIN_FILE
    evidence: list[int] = Field(default_factory=list)


class ProposalReply(_Reply):
    """What every reply that proposes changes has in common; `proposals` puts each into the form of an edit."""

    reasoning: str = ""

    def proposals(self) -> list[EditReply]:
        """Return the proposed changes: edits, suggestions (appends that are to be worked in), or one whole text."""
        return []

    def parents(self) -> list[list[int]]:
        """Return for each proposal the numbers of the merged ones that it stands for, as the model claims."""
        return []


class PatchReply(ProposalReply):
    """Edits that would have prevented the failures, or kept the successes, and the reasoning behind them."""

    edits: list[EditReply] = Field(default_factory=list)

    def proposals(self) -> list[EditReply]:
        """Return the edits."""
        return self.edits


class MergeReply(PatchReply):
    """The merged patch. `merged_from` lists, per edit, the numbers of the input edits that it stands for."""

    merged_from: list[list[int]] = Field(default_factory=list)

    def parents(self) -> list[list[int]]:
        """Return `merged_from`."""
        return self.merged_from


class SuggestionReply(_Reply):
    """One change to make: what the skill is to say, and `where` in it (a heading, or words of a rule)."""

    instruction: str
    where: str = ""


class SuggestReply(ProposalReply):
    """Suggestions for a later rewrite of the skill, and the reasoning behind them."""

    suggestions: list[SuggestionReply] = Field(default_factory=list)

    def proposals(self) -> list[EditReply]:
        """Return the suggestions, each as an append of its instruction; blank ones are none."""
        return [
            EditReply(op="append", target=each.where or None, content=each.instruction)
            for each in self.suggestions
            if each.instruction.strip()
        ]


class MergeSuggestionsReply(SuggestReply):
    """The merged suggestions. `merged_from` lists, per suggestion, the numbers of those that it stands for."""

    merged_from: list[list[int]] = Field(default_factory=list)

    def parents(self) -> list[list[int]]:
        """Return `merged_from`."""
        return self.merged_from


class RewriteReply(ProposalReply):
    """The whole new text of SKILL.md; empty when nothing should change."""

    skill: str = ""

    def proposals(self) -> list[EditReply]:
        """Return the new text as the replacement of the whole file."""
        return [EditReply(op="replace", content=self.skill)] if self.skill.strip() else []


class MergeRewritesReply(RewriteReply):
    """One text made of several. `merged_from` lists the numbers of the texts that something was taken from."""

    merged_from: list[int] = Field(default_factory=list)

    def parents(self) -> list[list[int]]:
        """Return `merged_from`, for the one proposal."""
        return [self.merged_from]


class ClassReply(_Reply):
    """Why the attempt of this number failed: the skill is wrong or silent (defect), or was not followed (lapse)."""

    trajectory: int
    kind: Literal["defect", "lapse"]


class AwareReply(ProposalReply):
    """What skill-aware reflection adds to a proposal: a class per failure, and notes on rules that were passed over."""

    classified: list[ClassReply] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


class AwarePatchReply(AwareReply, PatchReply):
    """Edits for the defects, notes for the lapses."""


class AwareSuggestReply(AwareReply, SuggestReply):
    """Suggestions for the defects, notes for the lapses."""


class AwareRewriteReply(AwareReply, RewriteReply):
    """A new text for the defects, notes for the lapses."""


class BudgetReply(_Reply):
    """How many of the proposed changes to make now."""

    reasoning: str = ""
    n: int


class SlowUpdateReply(_Reply):
    """The guidance that the skill is to carry from now on; empty leaves it as it is."""

    reasoning: str = ""
    guidance: str = ""


class MetaSkillReply(_Reply):
    """The optimizer's notes to itself; empty keeps those that there are."""

    reasoning: str = ""
    notes: str = ""


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
    limit: Literal["time", "processes", "disk", "signal"] | None = None
    output: str = ""
    confined: str = "none"


SCHEMAS: dict[str, type[BaseModel]] = {
    "patch": PatchReply, "suggest": SuggestReply, "rewrite": RewriteReply,
    "aware_patch": AwarePatchReply, "aware_suggest": AwareSuggestReply, "aware_rewrite": AwareRewriteReply,
    "merge": MergeReply, "merge_suggestions": MergeSuggestionsReply, "merge_rewrites": MergeRewritesReply,
    "budget": BudgetReply, "rank": RankReply, "slow_update": SlowUpdateReply, "meta_skill": MetaSkillReply,
    "rubric": RubricReply, "check": CheckReply,
}  # fmt: skip
