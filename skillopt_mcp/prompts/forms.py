"""Forms: the three ways in which changes are proposed, and what every question of one step has in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from skillopt_mcp.documents.rewriting import rewritten
from skillopt_mcp.prompts.loading import Prompts, fill
from skillopt_mcp.prompts.rendering import render_edits, render_evidence, render_rewrites, render_suggestions
from skillopt_mcp.records import replies
from skillopt_mcp.records.calls import Question
from skillopt_mcp.records.edits import Edit
from skillopt_mcp.records.replies import ProposalReply
from skillopt_mcp.records.skills import SkillFiles

UpdateMode = Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"]
Group = Literal["failure", "success", "contrast"]


@dataclass(frozen=True, slots=True)
class Form:
    """How changes are asked for and shown in one update mode. Names are those of prompts and of reply schemas.

    `analyst` has the prompts for failures, successes and contrasts, `merge` those for failures, successes and the final
    merge; `whole`: each proposal is a whole text, of which one stays.
    """

    reply: str
    analyst: tuple[str, str, str]
    merge_reply: str
    merge: tuple[str, str, str]
    rank: str
    render: Callable[[Sequence[Edit]], str]
    whole: bool = False

    def analyst_reply(self, *, aware: bool) -> tuple[str, type[ProposalReply]]:
        """Return schema and model of what an analyst answers."""
        name = f"aware_{self.reply}" if aware else self.reply
        return name, _MODELS[name]

    @property
    def merge_model(self) -> type[ProposalReply]:
        """Return the model of what a merge answers."""
        return _MODELS[self.merge_reply]

    def problem(self, files: SkillFiles, reply: ProposalReply) -> str:
        """Return why a reply cannot be used with this skill: a whole text may not change what is protected."""
        texts = [edit.content or "" for edit in reply.proposals()] if self.whole else []
        return next((found for text in texts if isinstance(found := rewritten(files, text), str)), "")


_MODELS: dict[str, type[ProposalReply]] = {
    "patch": replies.PatchReply, "suggest": replies.SuggestReply, "rewrite": replies.RewriteReply,
    "aware_patch": replies.AwarePatchReply, "aware_suggest": replies.AwareSuggestReply,
    "aware_rewrite": replies.AwareRewriteReply, "merge": replies.MergeReply,
    "merge_suggestions": replies.MergeSuggestionsReply, "merge_rewrites": replies.MergeRewritesReply,
}  # fmt: skip
FORMS: dict[UpdateMode, Form] = {
    "patch": Form(
        reply="patch",
        analyst=("analyst_failure", "analyst_success", "analyst_contrast"),
        merge_reply="merge",
        merge=("merge_failure", "merge_success", "merge_final"),
        rank="rank",
        render=render_edits,
    ),
    "rewrite_from_suggestions": Form(
        reply="suggest",
        analyst=("suggest_failure", "suggest_success", "suggest_contrast"),
        merge_reply="merge_suggestions",
        merge=("merge_suggestions",) * 3,
        rank="rank_suggestions",
        render=render_suggestions,
    ),
    "full_rewrite_minibatch": Form(
        reply="rewrite",
        analyst=("rewrite_failure", "rewrite_success", "rewrite_contrast"),
        merge_reply="merge_rewrites",
        merge=("merge_rewrites",) * 3,
        rank="rank",
        render=render_rewrites,
        whole=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Brief:
    """What the questions of one step share: prompts, edit budget, draw, update mode, and what is remembered.

    `notes` are the optimizer's own from earlier epochs, `history` is what earlier steps tried.
    """

    prompts: Prompts
    budget: int
    draw: str
    mode: UpdateMode = "patch"
    notes: str = ""
    history: str = ""

    @property
    def form(self) -> Form:
        """Return the form of the update mode."""
        return FORMS[self.mode]

    def instructions(self, *names: str) -> str:
        """Return the prompts of these names, one after the other, with this step's budget in them."""
        return "\n".join(fill(getattr(self.prompts, name), budget=self.budget) for name in names)

    def question(
        self, files: SkillFiles, instructions: str, body: str, schema: str, refs: tuple[str, ...] = ()
    ) -> Question:
        """Return a question about a skill with `body` as its evidence, beside what is remembered."""
        evidence = render_evidence(files.text, body, self.notes, self.history)
        return Question(instructions, evidence, schema, refs)
