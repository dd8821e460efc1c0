"""Advise: the next step of a skill, from facts that the store reads for many skills at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from skillopt_mcp.core.next_step import Action, NextStep, SkillState
from skillopt_mcp.core.text import counted

if TYPE_CHECKING:
    from pydantic import JsonValue

MIN_TRAIN, MIN_HELD_OUT = 1, 8
ROLLOUTS = 8  # attempts to learn from in one proposal: a minibatch of SkillOpt's reflection
WAITS = "a proven edit waits"
WORSE_LIVE = "the live text solves fewer tasks"
ENOUGH_SCORED = 3  # new scored sessions that a proposal can learn from without rollouts


def advise(state: SkillState) -> NextStep:
    """Return the next step: a broken folder, open work, what was accepted, tasks, the candidate, then new edits."""
    skill, candidate = state.skill, state.candidate
    if skill.startswith("git:"):
        return NextStep(action="gate", arguments={"path": skill.split(":", 2)[2]}, why="tests it as it is now")
    if state.problem:
        action: Action = "skills move" if state.is_gone else "check"
        return NextStep(action=action, arguments={"old" if state.is_gone else "folder": skill}, why=state.problem)
    if candidate and candidate.promotion and not (candidate.is_declined or candidate.is_stale):
        return candidate.promotion
    if state.worse_than:
        back: dict[str, JsonValue] = {"skill": skill, "version": state.worse_than}
        return NextStep.at_terminal("rollback_skill", back, WORSE_LIVE)
    if state.open_job:
        why = f"{state.n_open} answers are open"
        return NextStep(action="submit_work", arguments={"job_id": state.open_job}, why=why)
    if candidate and not candidate.is_stale and candidate.accepted is None and state.n_test:
        arguments: dict[str, JsonValue] = {"candidate_id": candidate.id}
        return NextStep(action="evaluate_candidate", arguments=arguments, why="not tested yet")
    if state.stopped_run and state.is_running:
        return NextStep(action="inspect", arguments={"id": state.stopped_run}, why="it is running")
    if state.stopped_run:
        return advise_resume(skill, state.stopped_run)
    if state.n_scored < ENOUGH_SCORED and state.n_train < MIN_TRAIN:
        if state.n_unscored:
            why = f"{state.n_unscored} recorded attempts have no score"
            return NextStep(action="record_trajectory", arguments={"skill": skill}, why=why)
        return _advise_tasks(state)
    if candidate and candidate.is_stale:
        return advise_rebase(candidate.id)
    if state.n_test < MIN_HELD_OUT:
        return _advise_tasks(state)
    rollouts = 0 if state.n_scored >= ENOUGH_SCORED else min(state.n_train, ROLLOUTS)
    # One reason for every other verdict: the author of edits learns only whether a candidate was accepted.
    why = "no candidate is open"
    if candidate and candidate.accepted is not None:
        why = f"{candidate.id} was {'declined' if candidate.is_declined else 'not accepted'}"
    return NextStep(action="propose_edits", arguments={"skill": skill, "rollouts": rollouts}, why=why)


def advise_resume(skill: str, run_id: str, caps: Mapping[str, JsonValue] | None = None) -> NextStep:
    """How a run goes on, with the caps that it needs for that."""
    arguments = {"skill": skill, "resume": True, **(caps or {})}
    return NextStep(action="replay", arguments=arguments, why=f"{run_id} has stopped")


def advise_rebase(candidate_id: str) -> NextStep:
    """How the edits of a candidate are made again on what is live now."""
    arguments: dict[str, JsonValue] = {"candidate_id": candidate_id, "rebase": True}
    return NextStep.at_terminal("evaluate_candidate", arguments, "the live file has changed")


def advise_promotion(candidate_id: str, n_findings: int = 0, *, is_simulated: bool = False) -> NextStep:
    """The promotion of an accepted candidate; a person has to look at findings of the guard, and take a simulation."""
    step = NextStep(action="promote_skill", arguments={"candidate_id": candidate_id}, why=WAITS)
    if n_findings:
        step = replace(step, why=f"{WAITS}; {counted(n_findings, 'guard finding')} for a person to look at")
    flag = " --simulated" * is_simulated
    return replace(step, command=f"{step.as_command()}{flag}") if flag or n_findings else step


def advise_review(skill: str, n_waiting: int) -> NextStep:
    """How tasks that wait in train for a person are split."""
    why = f"{counted(n_waiting, 'task')} in train until a person has looked"
    return NextStep.at_terminal("tasks review", {"skill": skill}, why)


def _advise_tasks(state: SkillState) -> NextStep:
    if state.n_waiting:
        return advise_review(state.skill, state.n_waiting)
    why = f"too few tasks: {state.n_train} train, {state.n_test} held out; `tasks mine`, or source, has some drafted"
    return NextStep(action="add_tasks", arguments={"skill": state.skill}, why=why)


# What `replay` asks for where the settings name no backend.
BACKENDS = "--target BACKEND:MODEL --optimizer BACKEND:MODEL"
