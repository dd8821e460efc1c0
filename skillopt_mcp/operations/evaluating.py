"""Evaluating: run or resume the promotion test of a candidate against the live version."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import wait

from skillopt_mcp.calls.asking import Asker
from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.calls.spending import Budget
from skillopt_mcp.errors import BadInput, Busy, Refused
from skillopt_mcp.gates.confirm import ConfirmRule, claimed
from skillopt_mcp.judges.shapes import is_form_alone
from skillopt_mcp.operations.budgeting import check_caps
from skillopt_mcp.operations.calibrating import prospect
from skillopt_mcp.operations.choosing import target_tasks
from skillopt_mcp.operations.judging import evidence_of, origins
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.results import Arm, Evaluated
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import FEW_TASKS, Test, held_out, open_test, run_test, standing
from skillopt_mcp.optimizer.progress import Notify, Progress, silent
from skillopt_mcp.records.calls import Call, Reply
from skillopt_mcp.records.candidates import Candidate
from skillopt_mcp.records.evidence import Confirmation
from skillopt_mcp.records.skills import short
from skillopt_mcp.tracing import span

SIMULATED = "simulated"


def evaluate_candidate(
    workspace: Workspace, candidate_id: str, wait_s: float | None = None, notify: Notify = silent,
    rule: ConfirmRule | None = None,
) -> Evaluated:  # fmt: skip
    """Return the verdict on a candidate, or `running` after `wait_s` seconds (None waits to the end).

    The test goes on in the background; a later call attaches to it, and a call after the process died resumes it. Once
    a verdict is reached it stands, and nothing more is spent. Raises Refused when the live file is no longer the one
    that the candidate was made from, BackendError when no target is set.
    """
    candidate = workspace.store.candidates.get_candidate(known(candidate_id))
    skill = workspace.store.skills.get_skill(candidate.skill_id)
    tracked = workspace.again(skill)
    if tracked.live_version == candidate.version_id:
        raise Refused(f"candidate '{candidate.id}' is what is live already: there is nothing to test")
    if tracked.live_version != candidate.base_version:
        raise Refused(
            f"the live file of '{skill.name}' is version {short(tracked.live_version)}, the candidate was made from "
            f"{short(candidate.base_version)}: propose the edits again"
        )
    test = prepare(workspace, candidate, rule or ConfirmRule())
    if standing(test, workspace.store).verdict != "undecided":
        # Noted again: a process may have died between its last pair and the note of the verdict.
        return _evaluated(candidate, test, run_test(test, workspace.store, _nothing_to_ask))
    job = workspace.jobs.attach(test.row.id, functools.partial(_run, workspace, test))
    job.watch(notify)
    wait([job.result], wait_s)
    if not job.result.done():
        result = _running(candidate, test, standing(test, workspace.store), job.progress)
        return _foreseen(workspace, candidate, test, result)
    workspace.jobs.drop(test.row.id, job)
    return _foreseen(workspace, candidate, test, _evaluated(candidate, test, job.result.result()))


def prepare(workspace: Workspace, candidate: Candidate, rule: ConfirmRule) -> Test:
    """Return the opened promotion test of a candidate. Raises BadInput when the skill has no held-out task."""
    store = workspace.store
    base = store.skills.get_files(candidate.skill_id, candidate.base_version)
    files = store.skills.get_files(candidate.skill_id, candidate.version_id)
    tasks = target_tasks(workspace, candidate.skill_id)
    held = held_out(tasks)
    if is_form_alone(held):
        raise Refused(
            f"all {len(held)} held-out tasks judge the form of an answer alone (length, heading), which promotes "
            "nothing: add held-out tasks with a judge of what is said; nothing was spent"
        )
    if rule.margin < 0 and len(files.text) >= len(base.text):
        raise BadInput(
            f"candidate '{candidate.id}' is not shorter than the live version ({len(files.text):,} and "
            f"{len(base.text):,} characters), so that it is no worse would be no reason to promote it"
        )
    test = open_test(store, (base, files), tasks, evidence_of(workspace.backends_for(held)), rule)
    if rule.margin and test.rule.margin != rule.margin:
        raise Refused(
            f"the test of '{candidate.id}' was begun for another claim ({claimed(test.rule)}): it is chosen before "
            "the evidence is seen, and stays"
        )
    return test


def _nothing_to_ask(calls: Sequence[Call], /) -> list[Reply]:
    raise AssertionError(f"a decided test asks nothing, but asked {len(calls)} calls")


def _run(workspace: Workspace, test: Test, notify: Notify) -> Confirmation:
    lock = lock_run(workspace.store.locks_path, test.row.id)
    if lock is None:
        raise Busy(f"another process is running the test '{test.row.id}': call again to see its verdict")
    try:
        backends, budget = workspace.backends_for(test.tasks), Budget(test.row.id, workspace.caps)
        check_caps(workspace.caps, backends)
        with (
            span("promotion_test", test=test.row.id),
            Asker(workspace.store, backends, test.row.id, budget=budget) as ask,
        ):
            return run_test(test, workspace.store, ask, notify)
    finally:
        lock.release()


def _foreseen(workspace: Workspace, candidate: Candidate, test: Test, result: Evaluated) -> Evaluated:
    """Return the result of a test without a verdict, with the reason why it may never come to one."""
    if result.verdict not in (None, "undecided"):
        return result
    why = prospect(workspace, candidate.skill_id, candidate.base_version, test.rule)
    return result.model_copy(update={"reason": f"{result.reason}; {why}"}) if why else result


def _running(candidate: Candidate, test: Test, so_far: Confirmation, progress: Progress | None) -> Evaluated:
    result = _evaluated(candidate, test, so_far)
    stage = f" ({progress.n_done} of at most {progress.n_total} pairs)" if progress else ""
    return result.model_copy(
        update={
            "status": "running",
            "verdict": None,
            "reason": f"the test is under way{stage}",
            "next_step": f"Call evaluate_candidate with candidate_id {candidate.id} again; it goes on meanwhile.",
        }
    )


def _evaluated(candidate: Candidate, test: Test, verdict: Confirmation) -> Evaluated:
    few = len(test.tasks) < FEW_TASKS
    claim = f"{claimed(test.rule)} " if test.rule.margin else ""
    backend = test.row.backend
    missing = (
        f"; {verdict.n_missing} of {verdict.n_pairs} pairs stayed without a reply, which counts against the candidate"
        if verdict.n_missing
        else ""
    )
    simulated = ". This is a SIMULATION: it says nothing about a real model" if is_simulated(backend) else ""
    return Evaluated(
        status="verdict",
        candidate_id=candidate.id,
        verdict=verdict.verdict,
        base=Arm(version=short(candidate.base_version), mean=round(verdict.base_mean, 4), n=_n(verdict)),
        candidate=Arm(version=short(candidate.version_id), mean=round(verdict.candidate_mean, 4), n=_n(verdict)),
        pairs_done=verdict.n_pairs,
        pairs_expected=verdict.n_expected,
        alpha=round(verdict.alpha, 6),
        claim=f"{claim}on these {len(test.tasks)} held-out tasks{' (val and test together)' if few else ''}",
        reason=f"{verdict.reason}{missing}{simulated}",
        backend=shortened(backend, 300),
        next_step=_next_step(candidate, verdict),
    )


def is_simulated(backend: str) -> bool:
    """Return whether a simulation (or a script) attempted or judged: no evidence of a real model."""
    return any(origin.startswith((SIMULATED, "scripted")) for origin in origins(backend))


def _n(verdict: Confirmation) -> int:
    return verdict.n_pairs - verdict.n_missing


def _next_step(candidate: Candidate, verdict: Confirmation) -> str:
    if verdict.verdict == "accept":
        return f"Call promote_skill with candidate_id {candidate.id}."
    if verdict.n_missing > verdict.n_pairs // 2:
        return "Most replies were missing: see that the target works, then propose the change again in other words."
    if verdict.verdict == "reject":
        return "This candidate brings no useful gain. Propose other edits."
    return (
        f"Undecided: call evaluate_candidate with candidate_id {candidate.id} again to draw more pairs (they are paid "
        "for), add held-out tasks, or propose a stronger edit."
    )
