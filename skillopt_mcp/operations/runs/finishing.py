"""Finishing: the best version of a run becomes its candidate, and the promotion test looks at it once."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeVar

from skillopt_mcp.calls.asking import Outstanding
from skillopt_mcp.errors import BackendError, Refused
from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.judges.shapes import is_form_alone
from skillopt_mcp.operations.answering import tasks_of
from skillopt_mcp.operations.judging import evidence_of
from skillopt_mcp.operations.results import Replayed
from skillopt_mcp.operations.runs.concluding import replayed, why_none, why_untested
from skillopt_mcp.operations.spending.batching import Way, pace_of
from skillopt_mcp.operations.tasks.twins import told_twins
from skillopt_mcp.operations.testing.alone import only_here
from skillopt_mcp.operations.testing.calibrating import prospect
from skillopt_mcp.operations.testing.choosing import tasks_to_test
from skillopt_mcp.operations.testing.opening_tests import check_claimed
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import open_test, paused_at, run_test
from skillopt_mcp.optimizer.plan import Plan
from skillopt_mcp.optimizer.sampling import held_out
from skillopt_mcp.records.candidates import Candidate, NewCandidate, candidate_id
from skillopt_mcp.records.evidence import Confirmation
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.skills import Skill, SkillFiles

T = TypeVar("T")
ALL_RETIRED = "all held-out tasks of the run were retired since it began, so that nothing can be tested"
FORM_ALONE = "the held-out tasks judge the form of answers alone (length, heading), which promotes nothing"


class Best(NamedTuple):
    """The best version that a search came to, and its score on val."""

    files: SkillFiles
    score: float


def answered(outcome: T | Outstanding) -> T:
    """Return the outcome of work that no host answers for. Raises BackendError where one would have to."""
    if isinstance(outcome, Outstanding):
        raise BackendError("a host answers through the tools of a server alone: name another backend")
    return outcome


def finish(run: Run, skill: Skill, plan: Plan, best: Best, way: Way) -> Replayed:
    """Return the outcome: the best version becomes a candidate, and the promotion gate looks at it once."""
    workspace, store = way.workspace, way.workspace.store
    made, calls = None, [run.id]
    confirmation: Confirmation | str = why_none(store.runs.list_steps(run.id), run.conclusion)
    if best.files != plan.base:
        made = _candidate(workspace, run, plan, best)
        everything = tasks_of(workspace, run)
        tasks, held = tasks_to_test(workspace, made, everything)
        if is_form_alone(held) or (held_out(everything) and not held):
            return replayed(workspace, run, skill, made, FORM_ALONE if held else ALL_RETIRED, calls)
        if untested := why_untested(workspace, run, skill, made):
            return replayed(workspace, run, skill, made, untested, calls)
        backends = workspace.backends_for(held)
        try:
            rule = plan.config.promotion_rule
            test = open_test(store, (plan.base, best.files), tasks, evidence_of(backends), rule)
            check_claimed(test, rule, made.id)
        except Refused as error:
            # Other promotion tests have drawn its fresh tasks since the run began, or it was tested for another claim.
            return replayed(workspace, run, skill, made, str(error), calls)
        calls.append(test.row.id)
        twins = told_twins(store, skill.id, test.tasks, everything)
        test = replace(test, pace=pace_of(backends), origin=test.origin + (twins and f"; {twins}"))
        paused = paused_at(test.row, store)
        with only_here(store, test, way.notify):
            # A process may die between the verdict and the end of its run: what goes on then draws no second turn.
            since = store.runs.begin_finish(run.id, test.row.id, paused)
            confirmation = answered(
                way.through(backends, test.row.id, lambda ask: run_test(test, store, ask, way.notify, since))
            )
        why = prospect(workspace, run.skill_id, run.base_version, test.rule)
        if why and not confirmation.is_over:
            confirmation = replace(confirmation, reason=f"{confirmation.reason}; {why}")
    return replayed(workspace, run, skill, made, confirmation, calls)


def _candidate(workspace: Workspace, run: Run, plan: Plan, best: Best) -> Candidate:
    made = Candidate(
        id=candidate_id(run.skill_id, plan.base.digest, best.files.digest),
        skill_id=run.skill_id,
        base_version=plan.base.digest,
        version_id=best.files.digest,
        origin="run",
        reasoning=f"the best version of run {run.id}, val score {best.score:.4f}",
        findings=findings(plan.base, best.files, workspace.known),
        run_id=run.id,
    )
    return workspace.store.candidates.add_candidate(NewCandidate(made, best.files))
