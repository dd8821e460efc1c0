"""Replies: what a model must answer at each stage, as the JSON it is parsed from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator as After
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from skillopt_mcp.core.edits import Op
from skillopt_mcp.core.skills import MAIN_FILE


def _keep_numbers(value: object) -> object:
    """Return the whole numbers in a list: what else a model cites is left out."""
    return [each for each in value if type(each) is int] if isinstance(value, list) else []


def _keep_lists_of_numbers(value: object) -> object:
    return [_keep_numbers(each) for each in value] if isinstance(value, list) else []


Numbers = Annotated[list[int], BeforeValidator(_keep_numbers)]
OPS = get_args(Op)


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: each for name, each in value.items() if each is not None or name not in optional}


class MergedEdit(_Reply):
    """One edit. `target` is copied exactly from the skill; `content` is the new text."""

    # What a model got wrong costs this edit, not the reply: one of an unknown op is kept, and is unmatched later.
    op: Annotated[Op, PlainValidator(str), WithJsonSchema({"enum": list(OPS), "type": "string"})]
    target: str | None = None
    content: str | None = None
    path: str = MAIN_FILE

    @model_validator(mode="before")
    @classmethod
    def _repair_fields(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return {"op": ""}
        fields = {"op": "", **value}
        fields["op"] = str(fields["op"]).strip().lower()[:40]
        if fields.get("path") is not None:
            fields["path"] = str(fields["path"])
        texts = ("target", "content")
        return {name: each for name, each in fields.items() if name not in texts or isinstance(each, str | None)}


class EditReply(MergedEdit):
    """One edit, with the numbers of the attempts that it rests on (`evidence`)."""

    evidence: Numbers = Field(default_factory=list)


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
        return self.edits


class MergeReply(ProposalReply):
    """The merged patch. `merged_from` lists, per edit, the numbers of the input edits that it stands for."""

    edits: list[MergedEdit] = Field(default_factory=list)
    merged_from: Annotated[list[list[int]], BeforeValidator(_keep_lists_of_numbers)] = Field(default_factory=list)

    def proposals(self) -> list[EditReply]:
        return [EditReply(**each.model_dump()) for each in self.edits]

    def parents(self) -> list[list[int]]:
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

    merged_from: Annotated[list[list[int]], BeforeValidator(_keep_lists_of_numbers)] = Field(default_factory=list)

    def parents(self) -> list[list[int]]:
        return self.merged_from


class RewriteReply(ProposalReply):
    """The whole new text of SKILL.md; empty when nothing should change."""

    skill: str = ""

    def proposals(self) -> list[EditReply]:
        """Return the new text as the replacement of the whole file."""
        return [EditReply(op="replace", content=self.skill)] if self.skill.strip() else []


class MergeRewritesReply(RewriteReply):
    """One text made of several. `merged_from` lists the numbers of the texts that something was taken from."""

    merged_from: Numbers = Field(default_factory=list)

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


class PointReply(_Reply):
    """Whether the point of this number holds, and the words of the answer that decide."""

    point: int
    quote: str = ""
    absence: bool = False
    holds: bool


class PointsReply(_Reply):
    """What a judge model says of each point of a rubric; they are put in order."""

    points: Annotated[list[PointReply], After(lambda points: sorted(points, key=lambda each: each.point))]


class DraftedFile(_Reply):
    """A file that a drafted task brings along."""

    path: str
    content: str


class DraftedTask(_Reply):
    """A task for the subject of this number: what is asked, and the kind of judge with what it expects.

    `unfit` says why there is none; `accepted` and `rejected` are answers that the judge has to pass and to fail.
    """

    number: int
    unfit: str = ""
    prompt: str = ""
    files: list[DraftedFile] = Field(default_factory=list)
    kind: str = ""
    expected: list[str] = Field(default_factory=list)
    accepted: str = ""
    rejected: str = ""
    tag: str = ""


class DraftReply(_Reply):
    """Tasks that a model drafted, one for each subject that it was shown."""

    tasks: list[DraftedTask]


class EpisodeLabel(_Reply):
    """What became of the episode of this number."""

    number: int
    label: Literal["accepted", "rejected", "unknown"]


class LabelReply(_Reply):
    """What a model makes of episodes that no rule could label."""

    labels: list[EpisodeLabel]


class CheckReply(_Reply):
    """How a registered command ended: its exit code, or the limit that it was ended at; never neither.

    `output` is the end of what it printed, for people; `confined` how it was kept from the rest of the machine.
    """

    exit: int | None = None
    limit: Literal["time", "processes", "disk", "signal"] | None = None
    output: str = ""
    confined: str = "none"


PROPOSALS: dict[str, type[ProposalReply]] = {
    "patch": PatchReply, "suggest": SuggestReply, "rewrite": RewriteReply,
    "aware_patch": AwarePatchReply, "aware_suggest": AwareSuggestReply, "aware_rewrite": AwareRewriteReply,
    "merge": MergeReply, "merge_suggestions": MergeSuggestionsReply, "merge_rewrites": MergeRewritesReply,
}  # fmt: skip
SCHEMAS: dict[str, type[BaseModel]] = {
    **PROPOSALS,
    "budget": BudgetReply, "rank": RankReply, "slow_update": SlowUpdateReply, "meta_skill": MetaSkillReply,
    "rubric": RubricReply, "points": PointsReply, "check": CheckReply,
    "draft": DraftReply, "label": LabelReply,
}  # fmt: skip
