"""Outcomes: what one transaction stores of a finished step, so that it can be gone on from and recomputed."""

from __future__ import annotations

from skillopt_mcp.gates.means import mean_score
from skillopt_mcp.gates.recompute import StrictInputs
from skillopt_mcp.optimizer.plan import Gated, Plan, State, Step, Work
from skillopt_mcp.records.candidates import Candidate, Decision, NewCandidate, candidate_id
from skillopt_mcp.records.edits import EditReport
from skillopt_mcp.records.runs import StepOutcome, StepRecord
from skillopt_mcp.stages.evaluate import task_scores


def step_outcome(plan: Plan, step: Step, before: State, after: State, work: Work) -> StepOutcome:
    """Return what to store of a step that led from the state `before` to `after`."""
    gated = work.gated
    candidate = _candidate(plan, before, work) if gated.verdict != "no_change" else None
    baseline = before.evaluation.trials if step.n == 1 else ()
    evaluated = gated.evaluation.trials if gated.evaluation else ()
    record = StepRecord(
        n=step.n,
        epoch=step.epoch,
        budget=step.budget,
        train=mean_score(work.trials),
        parent_version=before.current.digest,
        candidate_version=candidate.candidate.version_id if candidate else None,
        candidate_id=candidate.candidate.id if candidate else None,
        verdict=gated.verdict,
        current=after.evaluation.score,
        candidate=gated.evaluation.score if gated.evaluation else None,
        best=after.best_score,
        current_version=after.current.digest,
        best_version=after.best.digest,
        n_proposed=work.n_proposed,
        n_applied=sum(report.status == "applied" for report in work.applied.reports),
        n_missing=sum(trial.missing for trial in (*work.trials, *evaluated)),
        unmatched=tuple(_said(report) for report in work.applied.reports if report.status == "unmatched"),
        unusable=(*work.unusable, *(f"guard: {finding}" for finding in gated.findings)),
    )
    decision = _decision(plan, step, before, gated, record.candidate_version)
    return StepOutcome(record, (*baseline, *work.trials, *evaluated), candidate, decision)


def _candidate(plan: Plan, before: State, work: Work) -> NewCandidate:
    base, version = before.current.digest, work.applied.files.digest
    made = Candidate(
        id=candidate_id(plan.skill_id, base, version),
        skill_id=plan.skill_id,
        base_version=base,
        version_id=version,
        origin="step",
        reasoning=work.selected.reasoning,
        findings=work.gated.findings,
        run_id=plan.run_id,
    )
    edits = tuple(zip(work.selected.edits, work.applied.reports, strict=True))
    return NewCandidate(made, work.applied.files, edits)


def _decision(plan: Plan, step: Step, before: State, gated: Gated, version: str | None) -> Decision | None:
    compared = gated.comparison
    if gated.evaluation is None or compared is None or version is None:
        return None
    inputs = StrictInputs(
        metric=plan.config.metric,
        candidate=task_scores(gated.evaluation),
        current=task_scores(before.evaluation),
        best=None if before.best == before.current else task_scores(before.best_evaluation),
    )
    return Decision(
        skill_id=plan.skill_id,
        gate="strict",
        base_version=before.current.digest,
        version_id=version,
        scope=f"{plan.run_id}/{step.n}",
        verdict=gated.verdict,
        reason=f"val score {compared.candidate:.4f} against {compared.current:.4f} on {compared.n} tasks",
        inputs=inputs.model_dump_json(),
    )


def _said(report: EditReport) -> str:
    return f"edit {report.index} ({report.op} {report.path}): {report.reason}: {report.detail}"
