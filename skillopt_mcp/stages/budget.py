"""Budget: with an autonomous schedule the optimizer itself says how many of the proposed edits a step makes."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.prompts.asking import ask_parsed
from skillopt_mcp.prompts.forms import Brief
from skillopt_mcp.records.calls import Ask, Call
from skillopt_mcp.records.edits import Patch
from skillopt_mcp.records.evidence import Mean
from skillopt_mcp.records.replies import BudgetReply
from skillopt_mcp.records.skills import SkillFiles


@dataclass(frozen=True, slots=True)
class Budget:
    """How many edits the step makes, and why the number is not the optimizer's when it is not."""

    n: int
    unusable: tuple[str, ...] = ()


def autonomous_budget(ask: Ask, files: SkillFiles, patch: Patch, brief: Brief, train: Mean, *, fallback: int) -> Budget:
    """Return the optimizer's number, from 0 to the most that the pool and the brief's budget allow, for one call.

    Nothing is asked where there is nothing to decide; `fallback` serves when the reply is unusable.
    """
    most = min(len(patch.edits), brief.budget)
    if most < 1:
        return Budget(most)
    means = f"mean hard {train.hard:.3f}, mean soft {train.soft:.3f}, over {train.n}" if train.n else "none"
    went = f"The attempts of this step: {means}."
    body = f"{went}\n\n{brief.form.render(patch.edits)}"
    question = brief.question(files, brief.instructions("autonomous"), body, "budget")
    [parsed] = ask_parsed(ask, [Call("optimizer", "budget", question, brief.draw)], BudgetReply)
    if parsed.value is None:
        return Budget(min(most, fallback), (f"budget: {parsed.problem}",))
    return Budget(max(0, min(parsed.value.n, most)))
