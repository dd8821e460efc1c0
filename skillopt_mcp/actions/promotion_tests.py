"""Promotion tests: one of a candidate begun or resumed, in the background, and its verdict."""

from __future__ import annotations

import functools
from dataclasses import replace

from skillopt_mcp.actions.forecasts import foresee
from skillopt_mcp.actions.next_steps import advise_accepted, advise_skill, bring_back, is_reason_to_promote, undo_worse
from skillopt_mcp.actions.opening_tests import current_test, only_here, open_next_test
from skillopt_mcp.actions.tasks import near_train_tasks
from skillopt_mcp.actions.texts import candidate_named, check_testable
from skillopt_mcp.backends.arrivals import check_arrivals
from skillopt_mcp.backends.asking import Outstanding
from skillopt_mcp.core.calls import Rollout
from skillopt_mcp.core.candidates import GATE, Candidate, candidate_id
from skillopt_mcp.core.errors import Busy
from skillopt_mcp.core.evidence import Standing, Verdict
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.notes import Note, note_unanswered
from skillopt_mcp.core.results import Evaluated, Foreseen
from skillopt_mcp.core.tracing import span
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.progress import Notify, pause_reporter
from skillopt_mcp.training.promotion_test import BETTER, Asked, Test, held_out, run_test, standing_of, stored_test
from skillopt_mcp.workspace.evidence import is_host, is_pasted, is_simulated, kind_of, kind_of_test
from skillopt_mcp.workspace.host_work import estimate_host_test, hand_out, withdraw
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.verdicts import report_of


def evaluate_candidate(
    store: Store, models: Models, place: Place, name: str, wait: Wait | None = None, asked: Asked = BETTER, *,
    again: bool = False,
) -> Evaluated:  # fmt: skip
    """Return the verdict on a candidate, or `running` once `wait` is over (default: it waits to the end), or `work`.

    `name` is a candidate's id, or a skill whose file a person edited. The test goes on in the background; a later call
    attaches to it, and a call after the process died resumes it. A verdict stands, and nothing more is spent; `again`
    opens the next test. Where a host is the target, its work is handed out as far as `wait` has a capacity; without,
    the first call gives the estimate alone, and so does an agent's first call with any real target. A test opens, and
    takes its share of the error rate, with the first answer.

    Raises Refused when the live file is no longer the one that the candidate was made from, BackendError when no target
    is set.
    """
    candidate, wait = candidate_named(store, place, name), wait or Wait()
    wait_s, capacity = wait.seconds, wait.capacity
    check_testable(store, models, place, candidate)
    test = current_test(store, models, place, candidate, asked, again=again)
    standing = standing_of(test, store)
    if standing.verdict:
        # Noted again, nothing is asked: a process may have died between its last attempt and the note of the verdict.
        run_test(test, store, lambda _: [])
        return _conclude(store, place, candidate, test)
    foreseen = foresee(store, models, test) if test.foreseen and wait_s is not None else None
    if test.foreseen:
        at_host = is_host(models.backend("target").name)
        if at_host and not (capacity and capacity.items):
            return _offer_work(store, place, candidate, test, foreseen)
        # A new test begins once its price was shown; a simulation has none.
        is_agreed = is_simulated(test.row.backend) or wait.jobs.is_offered(candidate.id)
        if not at_host and place.is_agents and foreseen and not is_agreed:
            wait.jobs.offer(candidate.id)
            tokens = f", {foreseen.tokens_each:,} tokens each" if foreseen.tokens_each else ""
            runs = f"{foreseen.most_runs} runs of {models.backend('target').name}{tokens}"
            why = f"takes up to {runs}: ask the user first"
            step = _evaluate_step(candidate, why)
            return _describe(store, place, candidate, test, status="estimate", foreseen=foreseen, next_step=step)
        check_ready(store, models, test)
        test = open_next_test(store, models, place, candidate, asked)
    job = wait.jobs.attach(
        test.row.id, functools.partial(run_open_test, store, models, test, wait_s is None), wait.notify
    )
    is_done = job.wait(wait_s)
    if is_done:
        wait.jobs.drop(test.row.id, job)
    # Where another session's call runs it, it is running as well; submit_work reports that itself.
    busy = is_done and wait_s is not None and capacity is None and isinstance(job.result.exception(), Busy)
    if busy or not is_done:
        step = _evaluate_step(candidate, "it is still running")
        return _describe(store, place, candidate, test, status="running", foreseen=foreseen, next_step=step)
    outcome = job.result.result()
    if isinstance(outcome, Standing):
        return _conclude(store, place, candidate, test)
    # What the host is to do next, as far as its capacity goes.
    if capacity is None and not store.leases.list_of(test.row.id):
        return _offer_work(store, place, candidate, test, foreseen)
    work, step = hand_out(store, models, place, test.row.id, outcome, capacity)
    update = {"status": "work" if work else "running", "work": work, "next_step": step}
    return _offer_work(store, place, candidate, test, foreseen).model_copy(update=update)


def run_open_test(store: Store, models: Models, test: Test, waits: bool, notify: Notify) -> Standing | Outstanding:
    """Run a test that is stored; where another process runs it, wait for that one if it `waits`, or raise Busy."""
    with only_here(store, test, notify if waits else None):
        check_ready(store, models, test)
        backends, on_pause = models.backends_for(test.tasks), pause_reporter(notify)
        models.note_caller(test.row.id, test.tasks)
        with span("promotion_test", test=test.row.id):
            return models.ask_or_wait(
                test.row.id, backends, lambda ask: run_test(test, store, ask, notify), on_pause=on_pause
            )


def check_ready(store: Store, models: Models, test: Test) -> None:
    """Raise what keeps a test from being asked: caps that cannot hold, a judge program, a text that does not arrive."""
    target = models.ready_for(test.tasks)["target"]
    arms = [Rollout(files, task).next_to(test.other) for task in test.tasks for files in (test.base, test.candidate)]
    made = candidate_id(test.row.skill_id, test.row.base_version, test.row.version_id)
    see = NextStep(action="evaluate_candidate", arguments={"candidate_id": made, "target": target.name})
    check_arrivals(store, target, arms, see.as_command())


def stored_verdict(store: Store, place: Place, candidate: Candidate) -> Evaluated | None:
    """The newest verdict on a candidate; None before its first. Nobody is asked."""
    decision = store.decisions.latest(candidate.skill_id, GATE, candidate.base_version, candidate.version_id)
    row = store.tests.find(decision.scope) if decision else None
    return _describe(store, place, candidate, stored_test(store, row)) if row else None


def _conclude(store: Store, place: Place, candidate: Candidate, test: Test) -> Evaluated:
    """A verdict; what a host still has in hand for it is taken back."""
    if kind_of(test.row.backend) == "host":
        withdraw(store, place, test.row.id)
    return _describe(store, place, candidate, test)


def _offer_work(store: Store, place: Place, candidate: Candidate, test: Test, foreseen: Foreseen | None) -> Evaluated:
    """Where an open test of a host stands, and what it takes; the work itself is not handed out here."""
    estimate = estimate_host_test(test, store, foreseen)
    least, most = estimate.agent_runs()
    job = candidate.id if test.foreseen else test.row.id
    why = f"takes {least} to {most} agent runs: ask the user first"
    step = NextStep(action="submit_work", arguments={"job_id": job}, why=why)
    near = near_train_tasks(store, candidate.skill_id, test.tasks)
    is_inside = place.root_of(store.skills.get_skill(candidate.skill_id))
    notes = [*([] if is_inside else [Note(code="outside_skill_roots")]), *([near] if near else [])]
    so_far = _describe(
        store, place, candidate, test,
        status="work", foreseen=foreseen, estimate=estimate, job_id=job, next_step=step,
    )  # fmt: skip
    return so_far.model_copy(update={"notes": [*so_far.notes, *notes]})


def _describe(store: Store, place: Place, candidate: Candidate, test: Test, **fields: object) -> Evaluated:
    """Where a test stands; without a verdict with these `fields`, with one with what to do next."""
    standing, kind = standing_of(test, store), kind_of_test(store, test.row.id, test.row.backend)
    notes = [Note(code="rolled_back", ids=[candidate.id])] if bring_back(store, candidate) else []
    notes += [Note(code="never_opened")] if standing.verdict == "not_tested" else []
    held = held_out(store.tasks.list_in_use(test.tasks[0].skill_id)) if is_pasted(test.row.backend) else ()
    n_left = sum(each.judge.kind == "opens" for each in held)
    notes += [Note(code="left_out", numbers={"n": n_left})] if n_left else []
    n_open, n = sum(each.judge.kind == "opens" for each in test.tasks), len(test.tasks)
    notes += [Note(code="mixed", numbers={"n": n_open, "of": n})] if 0 < n_open < n else []
    notes += [] if standing.verdict else note_unanswered(store.calls.count_faults(test.row.id))
    found = Evaluated(
        status="verdict" if standing.verdict else "running",
        candidate_id=candidate.id,
        accepted=is_reason_to_promote(store, candidate, standing.verdict) if standing.verdict else None,
        evidence=kind,
        same_session=kind == "host" and store.candidates.is_answered_by_author(candidate.id, test.row.id),
        attempts_done=standing.runs.candidate + standing.runs.base,
        test=report_of(store, test, standing) if standing.verdict else None,
        notes=notes,
        next_step=_advise_after(store, place, candidate, standing.verdict) if standing.verdict else None,
    )
    return found.model_copy(update=fields)


def _advise_after(store: Store, place: Place, candidate: Candidate, verdict: Verdict) -> NextStep | None:
    """What to do after a verdict: promote it, or propose other edits; a live text needs nothing."""
    skill = store.skills.get_skill(candidate.skill_id)
    if candidate.version_id == skill.live_version:
        return undo_worse(store, place, candidate, verdict)
    if is_reason_to_promote(store, candidate, verdict) and not bring_back(store, candidate):
        return advise_accepted(store, candidate, place)
    if verdict == "better_here" and not place.is_agents:
        why = "better on these cases; of others nothing is proven"
        return NextStep.at_terminal("promote_skill", {"candidate_id": candidate.id, "unproven": True}, why)
    # The same after every other verdict: the author of edits learns only whether a candidate was accepted.
    step = advise_skill(store, skill)
    if verdict == "not_tested":
        return replace(step, why="the skill was never opened: its description has to say when it applies")
    return step


def _evaluate_step(candidate: Candidate, why: str) -> NextStep:
    return NextStep(action="evaluate_candidate", arguments={"candidate_id": candidate.id}, why=why)
