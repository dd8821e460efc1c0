"""Select: when there are more edits than the budget allows, the optimizer ranks them and the first ones stay."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.prompts.asking import ask_parsed
from skillopt_mcp.prompts.forms import Brief
from skillopt_mcp.records.calls import Ask, Call
from skillopt_mcp.records.edits import Patch
from skillopt_mcp.records.replies import RankReply
from skillopt_mcp.records.skills import SkillFiles


@dataclass(frozen=True, slots=True)
class Selection:
    """The edits that stay, and why the ranking was not the model's when it was not."""

    patch: Patch
    unusable: tuple[str, ...] = ()


def select(ask: Ask, files: SkillFiles, patch: Patch, brief: Brief) -> Selection:
    """Return at most as many edits as the budget: the ranked ones, filled up by (from failures first, support).

    Nothing is asked when all edits fit, or when there is one whole text to take; a budget of 0 leaves none.
    """
    pool, budget = patch.edits, brief.budget
    if budget < 1:
        return Selection(Patch((), patch.reasoning))
    if len(pool) <= budget:
        return Selection(patch)
    question = brief.question(files, brief.instructions(brief.form.rank), brief.form.render(pool), "rank")
    [parsed] = ask_parsed(ask, [Call("optimizer", "rank", question, brief.draw)], RankReply)
    ranked = [number - 1 for number in parsed.value.ranking if 1 <= number <= len(pool)] if parsed.value else []
    fallback = sorted(range(len(pool)), key=lambda n: (not pool[n].from_failure, -pool[n].support, n))
    kept = list(dict.fromkeys([*ranked, *fallback]))[:budget]
    unusable = () if parsed.value else (f"rank: {parsed.problem}",)
    return Selection(Patch(tuple(pool[n] for n in kept), patch.reasoning), unusable)
