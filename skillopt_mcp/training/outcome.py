"""Outcomes: what a step made, and what is stored of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from skillopt_mcp.core.candidates import Candidate, Decision, NewCandidate, candidate_id
from skillopt_mcp.core.edits import UNSHOWN, Applied, Edit, Patch
from skillopt_mcp.core.evidence import Mean, Trial
from skillopt_mcp.core.runs import StepOutcome, StepRecord
from skillopt_mcp.core.text import counted
from skillopt_mcp.gates.guard.capabilities import findings
from skillopt_mcp.gates.guard.evidence import find_unsupported
from skillopt_mcp.gates.search import mean_score
from skillopt_mcp.training.gating import GatedStep
from skillopt_mcp.training.plan import RunPlan, State, Step
from skillopt_mcp.training.stages.rollout import trajectories


@dataclass(frozen=True, slots=True)
class StepWork:
    """What the stages of one step made, and why some of it was made without the model.

    `note` is for the optimizer, `left_out` are edits beyond the budget, `findings` hold the candidate at promotion.
    """

    trials: tuple[Trial, ...]
    budget: int
    n_proposed: int
    selected: Patch
    applied: Applied
    unusable: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    note: str = ""
    left_out: tuple[Edit, ...] = ()
    findings: tuple[str, ...] = ()
    gated: GatedStep = field(default=GatedStep("no_change"))


def step_outcome(plan: RunPlan, step: Step, before: State, after: State, work: StepWork) -> StepOutcome:
    """What to store of a step that led from the state `before` to `after`."""
    gated, skill = work.gated, after.turned() if step.kind == "memory" else after
    candidate = step_candidate(plan, before.current.digest, work) if gated.verdict != "no_change" else None
    baseline = before.evaluation.trials if step.n == 1 else ()
    # Each task once: a slow update may have compared a version with itself.
    of_current = {trial.task.id: trial for trial in work.trials if trial.version == before.current.digest}
    evaluation = gated.evaluation
    evaluated = evaluation.trials if evaluation else ()
    # Of one that may have ended early nothing is noted that depends on what landed first.
    noted = () if evaluation and evaluation.at_most else evaluated
    record = StepRecord(
        n=step.n,
        epoch=step.epoch,
        budget=work.budget,
        train=mean_score(work.trials),
        parent_version=before.current.digest,
        candidate_version=candidate.candidate.version_id if candidate else None,
        candidate_id=candidate.candidate.id if candidate else None,
        verdict=gated.verdict,
        current=after.evaluation.score,
        candidate=evaluation.score if evaluation else None,
        at_most=evaluation is not None and evaluation.at_most,
        best=after.best_score,
        current_version=skill.current.digest,
        best_version=skill.best.digest,
        n_proposed=work.n_proposed,
        n_applied=sum(report.status == "applied" for report in work.applied.reports),
        n_missing=sum(trial.missing or trial.reply.missing for trial in (*work.trials, *noted)),
        unmatched=tuple(
            f"edit {each.index} ({each.op} {each.path}): {each.reason}: {each.detail}"
            for each in work.applied.reports
            if each.status == "unmatched"
        ),
        unusable=work.unusable,
        kind=step.kind,
        patterns=work.patterns,
        train_by_type=_by_type(work.trials),
        val_by_type=_by_type(noted),
        val=evaluation.mean if evaluation and not evaluation.at_most else None,
        baseline=before.evaluation.mean if step.n == 1 else None,
        train_current=mean_score(of_current.values()) if step.kind == "slow" else None,
        left_out=work.left_out,
        current_memory=skill.other.digest if skill.other else None,
        best_memory=skill.best_other.digest if skill.best_other else None,
    )
    decision = _decision(plan, step, before, gated, record.candidate_version)
    further = gated.looked.trials if gated.looked else ()
    is_kept = after.evaluation is before.evaluation or after.evaluation is gated.evaluation
    remeasured = () if is_kept else after.evaluation.trials
    trials = (*baseline, *work.trials, *evaluated, *further, *remeasured)
    return StepOutcome(record, trials, candidate, decision, work.note)


def _by_type(trials: Sequence[Trial]) -> dict[str, Mean]:
    """Return the means by the first tag of the tasks; a task without one is in none."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.task.tags:
            groups.setdefault(trial.task.tags[0], []).append(trial)
    return {tag: mean_score(group) for tag, group in sorted(groups.items())}


def guard_findings(plan: RunPlan, work: StepWork) -> tuple[str, ...]:
    """What the guard finds in a candidate against the live version, and in what its edits rest on."""
    edits = tuple(zip(work.selected.edits, work.applied.reports, strict=True))
    evidence = (*trajectories(work.trials), *plan.sessions)
    return (*findings(plan.base, work.applied.files, plan.known), *find_unsupported(edits, evidence, plan.base))


def what_failed(work: StepWork) -> str:
    """How many of the attempts that a step's edits cite failed, by kind of task, and what an analyst saw."""
    cited = {id for edit in work.selected.edits for id in (edit.cited or edit.sources) if not id.startswith(UNSHOWN)}
    own = {f"trial:{trial.reply.id}": trial for trial in work.trials}
    failed = [own[id].task for id in cited if id in own and own[id].hard is False]
    kinds = Counter(task.tags[0] if task.tags else "task" for task in failed)
    parts = [f"{n} x {kind}" for kind, n in sorted(kinds.items(), key=lambda each: (-each[1], each[0]))]
    if n_sessions := len(cited - own.keys()):
        parts.append(counted(n_sessions, "recorded session"))
    seen = next(iter(work.patterns), "") or work.selected.reasoning
    kinds_failed = f"failed: {', '.join(parts)}" if kinds else f"from {', '.join(parts)}" if parts else ""
    return ". ".join(filter(None, (kinds_failed, seen)))


def step_candidate(plan: RunPlan, base: str, work: StepWork) -> NewCandidate:
    """The candidate that a step made of a version, with what became of each edit."""
    version = work.applied.files.digest
    made = Candidate(
        id=candidate_id(plan.skill_id, base, version),
        skill_id=plan.skill_id,
        base_version=base,
        version_id=version,
        origin="step",
        reasoning=what_failed(work),
        findings=work.findings,
        run_id=plan.run_id,
    )
    edits = tuple(zip(work.selected.edits, work.applied.reports, strict=True))
    return NewCandidate(made, work.applied.files, edits)


def _decision(plan: RunPlan, step: Step, before: State, gated: GatedStep, version: str | None) -> Decision | None:
    looked = gated.looked
    if looked is None or version is None:
        return None
    compared = looked.comparison
    against = f"against {compared.current:.4f} on {compared.n} tasks"
    at_most = f"val score at most that of the current version, {compared.current:.4f}, whatever its other tasks bring"
    return Decision(
        skill_id=plan.skill_id,
        gate=plan.config.gate if plan.config.use_gate else "none",
        base_version=before.current.digest,
        version_id=version,
        scope=f"{plan.run_id}/{step.n}",
        verdict=gated.verdict,
        reason=at_most if looked.candidate.at_most else f"val score {compared.candidate:.4f} {against}",
        inputs=looked.inputs.model_dump_json(),
    )
