"""Nightly: what has been recorded becomes an edit, and the edit is tested, skill by skill; nothing is promoted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel

from skillopt_mcp.actions.next_steps import advise_skill
from skillopt_mcp.actions.opening_tests import current_test
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.core.budgets import Caps, Spent
from skillopt_mcp.core.errors import Busy, CapReached, SkillOptError, Stopped
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import Result
from skillopt_mcp.core.skills import Skill
from skillopt_mcp.store.files import lock_run
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.promotion_test import Asked
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import handle

_MOST_STEPS = 2  # an edit, and its test


class NightRow(BaseModel):
    """What became of a skill: what was done, why it ended there, and what comes next."""

    skill: str
    done: list[Literal["propose_edits", "evaluate_candidate"]]
    candidate_id: str | None = None
    accepted: bool | None = None
    reason: str = ""
    next_step: NextStep | None = None


class Night(Result):
    """The skills that a night looked at; `stopped` at a cap or in an outage, after which the next night goes on."""

    status: Literal["finished", "stopped", "planned"]
    skills: list[NightRow]

    @property
    def exit_code(self) -> int:
        """1 where it stopped."""
        return int(self.status == "stopped")


def plan_night(store: Store, skills: Sequence[Skill]) -> Night:
    """What a night would begin with; nothing is asked."""
    rows = [NightRow(skill=handle(store, each), done=[], next_step=advise_skill(store, each)) for each in skills]
    return Night(status="planned", skills=rows)


def run_night(store: Store, models: Models, place: Place, skills: Sequence[Skill], preferences: str = "") -> Night:
    """Propose for each skill with new scored attempts, and test what is not tested, all within the caps of `models`.

    A candidate that was accepted waits for a person. Raises Busy while another night is at work.
    """
    lock = lock_run(store.locks_path, "nightly")
    if lock is None:
        raise Busy("another nightly replay is at work: nothing was done")
    rows, caps, used, is_stopped = list[NightRow](), models.caps, Spent(), False
    try:
        for skill in skills:
            row = NightRow(skill=handle(store, skill), done=[])
            rows.append(row)
            try:
                for _ in range(_MOST_STEPS):
                    step = advise_skill(store, place.skill(skill.path))
                    row.next_step = step
                    if step.action not in ("propose_edits", "evaluate_candidate") or step.command:
                        break
                    if step.action == "propose_edits" and step.arguments["rollouts"]:
                        row.reason = "too few new scored attempts"
                        break
                    if reached := caps.exceeded(used.plus(calls=1)):
                        raise CapReached(f"the night's cap is reached: {reached}")
                    scope = _find_scope(store, models, place, skill, step)
                    before, job = store.budgets.get_spent(scope), None
                    models.caps = _raise_caps(caps, before, used)
                    try:
                        if step.action == "propose_edits":
                            made = propose_from_evidence(store, models, place, skill.path, preferences=preferences)
                            row.candidate_id, job = made.candidate_id, made.job_id
                        else:
                            row.candidate_id = str(step.arguments["candidate_id"])
                            row.accepted = evaluate_candidate(store, models, place, row.candidate_id, Wait()).accepted
                        row.done.append(step.action)
                    finally:
                        spent = store.budgets.get_spent(job or _find_scope(store, models, place, skill, step))
                        used = used.plus(
                            spent.calls - before.calls, spent.tokens - before.tokens, spent.usd - before.usd,
                            spent.seconds - before.seconds,
                        )  # fmt: skip
                row.next_step = advise_skill(store, store.skills.get_skill(skill.id))
            except Stopped as stop:
                row.reason, is_stopped = str(stop), True
                break
            except SkillOptError as error:
                row.reason = str(error)
    finally:
        models.caps = caps
        lock.release()
    return Night(status="stopped" if is_stopped else "finished", skills=rows)


def _find_scope(store: Store, models: Models, place: Place, skill: Skill, step: NextStep) -> str:
    """What the calls of a step are counted under; "" for what has not begun."""
    if step.action == "propose_edits":
        return next((run.id for run in reversed(store.runs.list_proposals_under_way(skill.id))), "")
    candidate = store.candidates.get_candidate(str(step.arguments["candidate_id"]))
    return current_test(store, models, place, candidate, Asked()).row.id


def _raise_caps(caps: Caps, before: Spent, used: Spent) -> Caps:
    """The caps of one scope of a night: what is left of the night's, on top of what earlier nights spent in it."""
    return Caps(
        None if caps.calls is None else caps.calls + before.calls - used.calls,
        None if caps.tokens is None else caps.tokens + before.tokens - used.tokens,
        None if caps.usd is None else caps.usd + before.usd - used.usd,
        None if caps.minutes is None else caps.minutes + (before.seconds - used.seconds) / 60,
    )
