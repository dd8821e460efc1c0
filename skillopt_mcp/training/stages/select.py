"""Select: when there are more edits than the budget allows, the optimizer ranks them and the first ones stay."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.core.calls import Ask, Call
from skillopt_mcp.core.edits import Edit, Patch
from skillopt_mcp.core.evidence import Mean
from skillopt_mcp.core.replies import BudgetReply, RankReply
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.prompts.rendering import Brief, ask_parsed


@dataclass(frozen=True, slots=True)
class Selection:
    """The edits that stay, those beyond the budget, both best first, and why the ranking was not the model's."""

    patch: Patch
    left_out: tuple[Edit, ...] = ()
    unusable: tuple[str, ...] = ()


def select(ask: Ask, files: SkillFiles, patch: Patch, brief: Brief) -> Selection:
    """Return at most as many edits as the budget: the ranked ones, filled up by (from failures first, support).

    Nothing is asked when all edits fit, or when there is one whole text to take; a budget of 0 leaves none.
    """
    pool, budget = patch.edits, brief.budget
    if budget < 1:
        return Selection(Patch((), patch.reasoning), pool)
    if len(pool) <= budget:
        return Selection(patch)
    question = brief.question(files, brief.instructions(brief.form.rank), brief.form.render(pool), "rank")
    [parsed] = ask_parsed(ask, [Call("optimizer", "rank", question, brief.draw)], RankReply)
    ranked = [number - 1 for number in parsed.value.ranking if 1 <= number <= len(pool)] if parsed.value else []
    fallback = sorted(range(len(pool)), key=lambda n: (not pool[n].from_failure, -pool[n].support, n))
    best = [pool[n] for n in dict.fromkeys([*ranked, *fallback])]
    unusable = () if parsed.value else (f"rank: {parsed.problem}",)
    return Selection(Patch(tuple(best[:budget]), patch.reasoning), tuple(best[budget:]), unusable)


@dataclass(frozen=True, slots=True)
class EditBudget:
    """How many edits the step makes, and why the number is not the optimizer's when it is not."""

    n: int
    unusable: tuple[str, ...] = ()


def autonomous_budget(
    ask: Ask, files: SkillFiles, patch: Patch, brief: Brief, train: Mean, *, fallback: int
) -> EditBudget:
    """Return the optimizer's number, from 0 to the most that the pool and the brief's budget allow, for one call.

    Nothing is asked where there is nothing to decide; `fallback` serves when the reply is unusable.
    """
    most = min(len(patch.edits), brief.budget)
    if most < 1:
        return EditBudget(most)
    means = f"mean hard {train.hard:.3f}, mean soft {train.soft:.3f}, over {train.n}" if train.n else "none"
    went = f"The attempts of this step: {means}."
    body = f"{went}\n\n{brief.form.render(patch.edits)}"
    question = brief.question(files, brief.instructions("autonomous"), body, "budget")
    [parsed] = ask_parsed(ask, [Call("optimizer", "budget", question, brief.draw)], BudgetReply)
    if parsed.value is None:
        return EditBudget(min(most, fallback), (f"budget: {parsed.problem}",))
    return EditBudget(max(0, min(parsed.value.n, most)))
