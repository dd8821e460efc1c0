"""Evaluating: run or resume the promotion test of a candidate against the live version."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.host import is_host
from skillopt_mcp.calls.asking import Outstanding
from skillopt_mcp.calls.spending import Budget
from skillopt_mcp.errors import Busy, Refused
from skillopt_mcp.gates.confirm import ConfirmRule, claimed
from skillopt_mcp.operations.candidates.recalling import told_rolled_back
from skillopt_mcp.operations.candidates.succeeding import skill_of
from skillopt_mcp.operations.host_work.going_on import told_others
from skillopt_mcp.operations.host_work.handing_out import Room, expectation, hand_out, pace_for, untouched, withdraw
from skillopt_mcp.operations.judging import origins, shown_origin
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.results import Arm, Evaluated
from skillopt_mcp.operations.skills.endings import told_endings
from skillopt_mcp.operations.spending.batching import Way, check_batch, pace_of
from skillopt_mcp.operations.spending.budgeting import check_caps
from skillopt_mcp.operations.tasks.twins import told_twins
from skillopt_mcp.operations.testing.alone import only_here
from skillopt_mcp.operations.testing.calibrating import prospect
from skillopt_mcp.operations.testing.concluding import after, overruled, told_redraws, untold
from skillopt_mcp.operations.testing.opening_tests import default_rule, evidence_so_far, foreseen_test, prepare
from skillopt_mcp.operations.testing.stepping import told_of_run
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE, Test, paused_at, run_test, standing
from skillopt_mcp.optimizer.progress import Notify, Progress, silent
from skillopt_mcp.optimizer.sampling import described
from skillopt_mcp.records.calls import Call, Reply, Role
from skillopt_mcp.records.candidates import Candidate, edited_on_top
from skillopt_mcp.records.evidence import Confirmation
from skillopt_mcp.records.skills import short
from skillopt_mcp.tracing import span

ON_TOP = "It was promoted, and somebody has edited the file on top of it since: there is nothing to be done with it"
SIMULATED = "simulated"


def evaluate_candidate(
    workspace: Workspace, candidate_id: str, wait_s: float | None = None, notify: Notify = silent,
    rule: ConfirmRule | None = None, room: Room | None = None,
) -> Evaluated:  # fmt: skip
    """Return the verdict on a candidate, or `running` after `wait_s` seconds (None waits to the end), or `work`.

    The test goes on in the background; a later call attaches to it, and a call after the process died resumes it. Once
    a verdict is reached it stands, and nothing more is spent. Where a host is the target, its work is handed out as far
    as there is `room`; without, the first call, and the first after a pause, tell what to expect, and later ones hand
    out. A test is opened, and takes its share of the skill's error rate, with the first work or call, not before.

    Raises Refused when the live file is no longer the one that the candidate was made from, BackendError when no target
    is set.
    """
    candidate = workspace.store.candidates.get_candidate(known(candidate_id))
    check_testable(workspace, candidate)
    rule = rule or default_rule(workspace)
    test = foreseen_test(workspace, candidate, rule)
    if standing(test, workspace.store).is_over:
        # Noted again: a process may have died between its last pair and the note of the verdict.
        verdict = run_test(test, workspace.store, _nothing_to_ask)
        return _foreseen(workspace, candidate, test, _concluded(workspace, candidate, test, verdict), is_over=True)
    at_host = is_host(workspace.backend("target").name)
    if at_host and (told := _told_first(workspace, candidate, test, room)):
        return _foreseen(workspace, candidate, test, told)
    if not test.is_open:
        _able(workspace, test)
        test = prepare(workspace, candidate, rule)
    if at_host:
        test = replace(test, pace=pace_for(workspace, test, room or Room()))
    job = workspace.jobs.attach(test.row.id, functools.partial(_run, workspace, test, wait_s is None))
    job.watch(notify)
    is_done = job.wait(wait_s)
    if is_done:
        workspace.jobs.drop(test.row.id, job)
    # Where another session's call is at it, it is under way as well; submit_work tells that in its own words.
    busy = is_done and wait_s is not None and room is None and isinstance(job.result.exception(), Busy)
    if busy or not is_done:
        result = _running(candidate, test, standing(test, workspace.store), job.progress)
        result = untold(result) if evidence_so_far(workspace, test.row) else result
        return _foreseen(workspace, candidate, test, result)
    outcome = job.result.result()
    if isinstance(outcome, Confirmation):
        result = _concluded(workspace, candidate, test, outcome)
        return _foreseen(workspace, candidate, test, result, is_over=outcome.is_over)
    return _foreseen(workspace, candidate, test, _waiting(workspace, candidate, test, outcome, room))


def check_testable(workspace: Workspace, candidate: Candidate) -> None:
    """Raise Refused when a candidate is live, or when the live file is not the one that it was made from."""
    skill = skill_of(workspace, candidate)
    if skill.live_version == candidate.version_id:
        raise Refused(f"candidate '{candidate.id}' is what is live already: there is nothing to test")
    if edited_on_top(workspace.store.promotions.list_promotions(skill.id), candidate.version_id, skill.live_version):
        raise Refused(f"candidate '{candidate.id}' is not to be tested. {ON_TOP}")
    if skill.live_version != candidate.base_version:
        if told := told_of_run(workspace, candidate):
            raise Refused(told)
        versions = (candidate.base_version, skill.live_version)
        endings = told_endings(*(workspace.store.skills.get_files(skill.id, each) for each in versions))
        raise Refused(
            f"the live file of '{skill.name}' is version {short(skill.live_version)}, the candidate was made from "
            f"{short(candidate.base_version)}: propose the edits again, or run: skillopt-mcp rebase {candidate.id}"
            f"{endings and f'. {endings}'}"
        )


def _nothing_to_ask(calls: Sequence[Call], /) -> list[Reply]:
    raise AssertionError(f"a decided test asks nothing, but asked {len(calls)} calls")


def _run(workspace: Workspace, test: Test, waits: bool, notify: Notify) -> Confirmation | Outstanding:
    store = workspace.store
    # Where another process draws the turn that was asked for, it is not drawn twice.
    since = paused_at(test.row, store)
    with only_here(store, test, notify if waits else None):
        backends, budget = _able(workspace, test), Budget(test.row.id, workspace.caps)
        if workspace.batch:
            test = replace(test, pace=pace_of(backends))
        way = Way(workspace, budget, notify, workspace.on_reply, workspace.n_slots)
        with span("promotion_test", test=test.row.id):
            return way.through(backends, test.row.id, lambda ask: run_test(test, store, ask, notify, since))


def _able(workspace: Workspace, test: Test) -> dict[Role, Backend]:
    """Return who answers in a test. Raises BadInput for caps or a batch that they cannot have."""
    backends = workspace.backends_for(test.tasks)
    check_caps(workspace.caps, backends)
    check_batch(workspace, backends)
    return backends


def _concluded(workspace: Workspace, candidate: Candidate, test: Test, verdict: Confirmation) -> Evaluated:
    """Return a verdict; what a host still has in hand for it is taken back."""
    evidence = evidence_so_far(workspace, test.row)
    if evidence:
        withdraw(workspace, test.row.id)
    result = _evaluated(candidate, test, verdict)
    said = f"{result.reason}{told_redraws(workspace.store, test.row)}"
    result = result.model_copy(update={"evidence": evidence, "reason": said})
    counts = workspace.store.decisions.latest(candidate.skill_id, GATE, candidate.base_version, candidate.version_id)
    if verdict.verdict == "undecided" or counts is None or counts.scope == test.row.id:
        return result
    return result.model_copy(update={"next_step": overruled(workspace, candidate, counts)})


def _waiting(
    workspace: Workspace, candidate: Candidate, test: Test, outcome: Outstanding, room: Room | None
) -> Evaluated:
    """Return the work that a host is to do next, as far as there is room; at first only what to expect."""
    store, job = workspace.store, test.row.id
    so_far = _evaluated(candidate, test, standing(test, store))
    begun = bool(store.leases.list_of(job))
    handed = hand_out(workspace, job, outcome, room) if room or begun else None
    if handed is None or not (handed.work or begun):
        return _offered(workspace, candidate, test)
    return untold(so_far).model_copy(
        update={
            "status": "work" if handed.work else "running",
            "verdict": None,
            "evidence": evidence_so_far(workspace, test.row),
            "reason": expectation(test, store),
            "job_id": job,
            "work": handed.work,
            "next_step": handed.next_step,
        }
    )


def _told_first(workspace: Workspace, candidate: Candidate, test: Test, room: Room | None) -> Evaluated | None:
    """Return what is told before a host begins a turn of a test: what it takes, or that the last one has ended.

    The last reply of a turn comes from an agent, which is told of no pause: whoever drives it has its price to ask for.
    """
    if not untouched(test, workspace.store):
        return None
    turn = f"{test.row.id} after {paused_at(test.row, workspace.store)} pairs"
    if room is None:
        workspace.jobs.offer(turn)
    if not (room and room.items):
        return _offered(workspace, candidate, test)
    if workspace.jobs.is_offered(turn) or not test.is_open:
        return None
    return _concluded(workspace, candidate, test, standing(test, workspace.store))


def _offered(workspace: Workspace, candidate: Candidate, test: Test) -> Evaluated:
    """Return what a test takes of whoever does its work, before any of it is handed out."""
    expected = expectation(test, workspace.store)
    unspent = "" if test.is_open else ", and the test takes nothing of the skill's error rate before"
    held = f"; the guard holds {candidate.id}: promoting it takes a person's look" if candidate.findings else ""
    twins = told_twins(workspace.store, candidate.skill_id, test.tasks)
    besides = "; ".join([held, *filter(None, (told_others(workspace, candidate), twins))])
    return untold(_evaluated(candidate, test, standing(test, workspace.store))).model_copy(
        update={
            "status": "work",
            "verdict": None,
            "evidence": evidence_so_far(workspace, test.row),
            "reason": f"{expected}{besides}",
            "job_id": test.row.id,
            "next_step": f"Nothing is handed out yet{unspent}. Tell the user what it takes ({expected}{besides}) and, "
            f"if that is fine, take the first work: submit_work with job_id {test.row.id}.",
        }
    )


def _foreseen(
    workspace: Workspace, candidate: Candidate, test: Test, result: Evaluated, *, is_over: bool = False
) -> Evaluated:
    """Return the result of a test without a verdict, with the reason why it may never come to one, or serve nothing.

    Of what a person rolled back any result says that.
    """
    if told := told_rolled_back(workspace.store, candidate):
        step = told if result.verdict == "accept" else f"{told}. {result.next_step}"
        result = result.model_copy(update={"next_step": step})
    if is_over:
        return result
    why = prospect(workspace, candidate.skill_id, candidate.base_version, test.rule)
    skill = workspace.store.skills.get_skill(candidate.skill_id)
    locked = "" if result.verdict else workspace.locked(skill)
    return result.model_copy(update={"reason": "; ".join(filter(None, (result.reason, why, locked)))})


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
    claim = f"{claimed(test.rule)} " if test.rule.margin else ""
    backend = test.row.backend
    missing = (
        f"; {verdict.n_missing} of {verdict.n_pairs} pairs stayed without a score, which counts against the candidate"
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
        claim=f"{claim}{described(test.row.claim, test.tasks)}",
        reason=f"{verdict.reason}{missing}{simulated}",
        backend=shortened(shown_origin(backend), 300),
        next_step=after(candidate, test, verdict),
    )


def is_simulated(backend: str) -> bool:
    """Return whether a simulation (or a script) attempted or judged: no evidence of a real model."""
    return any(origin.startswith((SIMULATED, "scripted")) for origin in origins(backend))


def _n(verdict: Confirmation) -> int:
    return verdict.n_pairs - verdict.n_missing
