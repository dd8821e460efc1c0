"""Concluding: what a run that has reached its end tells of itself."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from skillopt_mcp.gates.means import metric_value
from skillopt_mcp.operations.answering import run_backends, told_changes
from skillopt_mcp.operations.changes.advising import next_step
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.judging import evidence_of
from skillopt_mcp.operations.results import Replayed, StepRow
from skillopt_mcp.operations.runs.baselines import stored_baseline
from skillopt_mcp.operations.runs.damaged import told_damaged
from skillopt_mcp.operations.spending.charging import charged_with, finishing, leaving, together
from skillopt_mcp.operations.testing.concluding import NAME_A_MODEL
from skillopt_mcp.operations.testing.evaluating import is_simulated
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.candidates import Candidate
from skillopt_mcp.records.evidence import Confirmation
from skillopt_mcp.records.runs import Conclusion, Run, StepRecord
from skillopt_mcp.records.skills import Skill, short
from skillopt_mcp.store.locations import store_path

_COMMAND = re.compile(r"\bskillopt-mcp (?=[a-z])")
TOPPED = "the current version scores 1.00 on the val tasks, after which its gate accepts no candidate"
NO_BETTER = "no candidate did better than the live version on the val tasks"


def why_none(steps: Sequence[StepRecord], conclusion: Conclusion | None = None) -> str:
    """Return why no version of a run is better than its base: it may never have made one, or never measured one."""
    if conclusion:
        ended = f"its search was ended {conclusion}{f', as {TOPPED}' if conclusion.why == TOPPED else ''}"
        return f"{ended}; {why_none(steps)}" if steps else ended
    if any(step.candidate is not None for step in steps):
        return NO_BETTER
    notes = [note for step in steps for note in (*step.unusable, *step.unmatched)]
    if any(step.verdict == "held" for step in steps):
        return f"the guard held every candidate back, so none was measured: {notes[0].rstrip('.')}"
    if notes:
        said = "1 reply or edit was" if len(notes) == 1 else f"{len(notes)} replies or edits were"
        return f"no candidate was ever made: {said} unusable, the first so: {notes[0].rstrip('.')}"
    return "no candidate was ever made: the optimizer proposed nothing that changes the skill"


def replayed(
    workspace: Workspace, run: Run, skill: Skill, made: Candidate | None, outcome: Confirmation | str,
    scopes: list[str],
) -> Replayed:  # fmt: skip
    """Return what became of a run; `outcome` is what its promotion test found, or why there was none."""
    confirmation = None if isinstance(outcome, str) else outcome
    store = workspace.store
    parts = [finishing(store, run.id, scope, confirmation) for scope in scopes if scope != run.id and confirmation]
    ended = {part.test_id for part in parts}
    came = [test_id for test_id, _ in store.runs.list_finishes(run.id) if test_id not in ended]
    left = [leaving(store, run.id, test_id) for test_id in came]
    used = charged_with(store, run.id, [*left, *parts])
    ledger = together(used.rows)
    steps, config = workspace.store.runs.list_steps(run.id), Config.of_run(run.config)
    start = steps[0].baseline if steps else stored_baseline(workspace, run)
    return Replayed(
        run_id=run.id,
        skill=skill.name,
        status="finished",
        steps=[step_row(step) for step in steps],
        best_version=short(made.version_id if made else run.base_version),
        candidate_id=made.id if made else None,
        verdict=confirmation.verdict if confirmation else None,
        reason=outcome if isinstance(outcome, str) else outcome.reason,
        test_before=confirmation.base_mean if confirmation else None,
        test_after=confirmation.candidate_mean if confirmation else None,
        n_pairs=confirmation.n_pairs if confirmation else 0,
        pairs_before=parts[0].first if parts else None,
        tests_left={part.test_id: (part.first, part.end or 0) for part in left},
        n_calls=ledger.n_calls,
        n_missing=ledger.n_missing,
        tokens_in=ledger.tokens_in,
        tokens_out=ledger.tokens_out,
        usd=ledger.usd,
        backend=run.target,
        changes=told_changes(run),
        left_out=told_damaged(store, run),
        metric=config.metric,
        baseline=metric_value(start, config.metric, config.mixed_weight) if start else None,
        baseline_hard=start.hard if start else None,
        baseline_soft=start.soft if start else None,
        simulated=is_simulated(evidence_of(run_backends(workspace, run))),
        concluded_after=run.conclusion.after if run.conclusion else None,
        n_planned=run.conclusion.planned if run.conclusion else None,
        next_step=_since(workspace, made) or _next_step(workspace, run, skill, made, confirmation),
    )


def why_untested(workspace: Workspace, run: Run, skill: Skill, made: Candidate) -> str:
    """Return why a run buys no test of its best version: it could not be promoted, and no verdict stands; else ""."""
    decided = workspace.store.decisions.latest(skill.id, GATE, made.base_version, made.version_id)
    moved = "" if decided and decided.verdict != "undecided" else _moved(workspace, run, skill, made)
    return f"it was not tested, as it could not be promoted: {moved}" if moved else ""


def _moved(workspace: Workspace, run: Run, skill: Skill, made: Candidate) -> str:
    """Return how what is live differs from what a run began with, "" where it does not, or is the run's best."""
    if trouble := workspace.trouble(skill):
        return trouble
    live = workspace.again(skill).live_version
    if live in (run.base_version, made.version_id):
        return ""
    return f"the live file of '{skill.name}' is version {short(live)} now, the run began with {short(run.base_version)}"


def _since(workspace: Workspace, made: Candidate | None) -> str:
    """Return what to do with a candidate that was promoted before its run came to its end, "" where it was not."""
    changes = workspace.store.promotions.list_promotions(made.skill_id) if made else []
    if made is None or all(each.to_version != made.version_id for each in changes):
        return ""
    return next_step(workspace, made, Consent.PERSON)


def _next_step(
    workspace: Workspace, run: Run, skill: Skill, made: Candidate | None, confirmation: Confirmation | None
) -> str:
    is_rejected = confirmation is not None and confirmation.verdict == "reject"
    if made and not is_rejected and (moved := _moved(workspace, run, skill, made)):
        test = "" if confirmation and confirmation.verdict == "accept" else f" and run: skillopt-mcp evaluate {made.id}"
        return (
            f"It cannot be promoted now: {moved}. Put that version back{test}; or take its edits over to what is live: "
            f"skillopt-mcp rebase {made.id}"
        )
    if made and confirmation is None and _is_accepted(workspace, made):
        return f"Another test of its best version came to accept: skillopt-mcp promote {made.id}"
    if made is None or confirmation is None:
        return (
            f"Nothing to promote. Look at the steps (skillopt-mcp show {run.id}), add tasks to '{skill.name}', or try "
            "again."
        )
    if confirmation.verdict == "accept":
        return f"skillopt-mcp promote {made.id}"
    if confirmation.is_mixed:
        return f"{NAME_A_MODEL} skillopt-mcp evaluate {made.id} --target BACKEND:MODEL"
    if confirmation.verdict == "undecided":
        return f"The evidence does not decide yet; more pairs: skillopt-mcp evaluate {made.id}"
    return "The best version of this run brings no useful gain; the live file stays."


def _is_accepted(workspace: Workspace, made: Candidate) -> bool:
    decided = workspace.store.decisions.latest(made.skill_id, GATE, made.base_version, made.version_id)
    return decided is not None and decided.verdict == "accept"


def on_store(text: str, path: Path) -> str:
    """Return a text whose commands name the store, unless it is the user's own: they are copied."""
    if path == store_path(None, {}):
        return text
    return _COMMAND.sub(lambda _: f"skillopt-mcp --store {shlex.quote(str(path))} ", text)


def step_row(step: StepRecord) -> StepRow:
    """Return a step as a table row."""
    train = step.train_current or step.train
    return StepRow(
        epoch=step.epoch,
        step=step.n,
        train_hard=train.hard if train.n else None,
        n_edits=step.n_applied,
        verdict=step.verdict,
        current=step.current,
        candidate=step.candidate,
        best=step.best,
        kind=step.kind,
        candidate_id=step.candidate_id,
        train_soft=train.soft if train.n else None,
        candidate_hard=step.val.hard if step.val else None,
        candidate_soft=step.val.soft if step.val else None,
    )
