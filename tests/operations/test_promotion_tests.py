"""Promotion tests: which two texts they compare, what they take of a release's error rate, and when they wait."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter

import pytest
from hostwork import Clock, begun, driven
from workshop import LESSONS, PLACEBO, SEED, SIMULATION, Place, as_if_real, is_taught, right_when_taught, solving, use

from benchmarks.host_agent import Agent, items_of
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions.promoting import choose_unproven, promote_skill
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.actions.texts import candidate_of_files
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core import evidence
from skillopt_mcp.core.budgets import Caps
from skillopt_mcp.core.calls import Call
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import BackendError, BadInput, CapReached, NotFound, Refused
from skillopt_mcp.core.evidence import Arm
from skillopt_mcp.core.results import Evaluated
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.promotion_tests import PromotionTests
from skillopt_mcp.training.promotion_test import BETTER, Asked
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.workspace import Workspace

HARM = "- Answer no."


@pytest.fixture
def fresh(place: Place) -> Workspace:
    """Return a workspace whose skill has no task yet, with a target that counts as real."""
    workspace = place.open()
    use(workspace, as_if_real())
    return workspace


def report_on(workspace: Workspace, name: str, asked: Asked = BETTER, *, again: bool = False) -> evidence.TestReport:
    """Return the report of a test that has decided."""
    found = evaluate_candidate(workspace.store, workspace.models, workspace.place, name, asked=asked, again=again)
    assert found.test
    return found.test


def place_of(call: Call) -> tuple[int, Arm, int]:
    """Return the unit, the arm and the number of an attempt."""
    _, unit, arm, number, *_ = call.draw.split("/")
    return int(unit), "base" if arm == "base" else "candidate", int(number)


# Which two texts


def test_a_persons_edit_is_tested_against_the_version_that_was_tested_or_known_before(
    place: Place, fresh: Workspace
) -> None:
    place.add_held_out(fresh, 8)
    versions = [fresh.place.skill("ledger-clerk").live_version]
    with pytest.raises(BadInput, match="is unchanged since version"):
        evaluate_candidate(fresh.store, fresh.models, fresh.place, "ledger-clerk")
    for n, line in enumerate((PLACEBO, LESSONS)):
        place.main.write_bytes(place.main.read_bytes() + f"\n{line}\n".encode())
        found = evaluate_candidate(fresh.store, fresh.models, fresh.place, "ledger-clerk")
        made = fresh.store.candidates.get_candidate(found.candidate_id)
        versions.append(fresh.place.skill("ledger-clerk").live_version)
        assert (made.origin, made.base_version, made.version_id) == ("person", *versions[-2:])
        assert (found.accepted, found.next_step is None) == (bool(n), True)
        assert found.test
        assert found.test.test_in_release == n + 1
    assert evaluate_candidate(fresh.store, fresh.models, fresh.place, "ledger-clerk") == found


def test_a_candidate_that_is_live_is_not_report_on(place: Place, workspace: Workspace) -> None:
    candidate_id = place.accepted(workspace)
    promote_skill(workspace.store, workspace.place, candidate_id, Consent.PERSON_SIMULATED)
    with pytest.raises(Refused, match="is what is live already"):
        evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id)


@pytest.mark.parametrize("name", ["c-000000000000", "", "x" * 100_000, "a\0b", "\ud800", "'; drop table candidate; --"])
def test_an_unknown_candidate_is_refused_in_one_short_line(workspace: Workspace, name: str) -> None:
    store, place = workspace.store, workspace.place
    for operation in (
        lambda: evaluate_candidate(store, workspace.models, place, name),
        lambda: promote_skill(store, place, name, Consent.PERSON),
    ):
        with pytest.raises(NotFound) as error:
            operation()
        assert len(str(error.value)) < 300


# What a test takes of the error rate of a release


def test_each_test_takes_a_third_of_what_is_left_until_a_promotion(place: Place, fresh: Workspace) -> None:
    place.add_held_out(fresh, 8)
    alphas = [0.05 / 3 * (2 / 3) ** n for n in range(3)]
    reports = [report_on(fresh, place.propose(fresh, f"- Placebo {n}.")) for n in range(2)]
    live = place.main.read_bytes()
    place.main.write_bytes(live + b"\nMy own words.\n")
    reports.append(report_on(fresh, "ledger-clerk"))
    assert [each.alpha for each in reports] == pytest.approx(alphas)
    assert [each.test_in_release for each in reports] == [1, 2, 3]
    place.main.write_bytes(live)
    accepted = place.propose(fresh)
    simulated = place.open()
    assert report_on(simulated, accepted).test_in_release == 1, "tests of simulations are apart"
    assert report_on(fresh, accepted).test_in_release == 4
    assert promote_skill(fresh.store, fresh.place, accepted, Consent.PERSON).status == "promoted"
    after = report_on(fresh, place.propose(fresh, PLACEBO))
    assert (after.test_in_release, after.alpha) == (1, pytest.approx(alphas[0]))
    assert after.promotions_here == 1


def test_a_test_takes_its_share_when_it_opens_and_keeps_it(place: Place, fresh: Workspace) -> None:
    place.add_held_out(fresh, 8)
    fresh.models.caps = Caps(calls=10)
    first, second = place.propose(fresh), place.propose(fresh, PLACEBO)
    with pytest.raises(CapReached):
        evaluate_candidate(fresh.store, fresh.models, fresh.place, first)
    fresh.models.caps = Caps()
    assert report_on(fresh, second).test_in_release == 2
    assert report_on(fresh, first).test_in_release == 1


def test_a_verdict_stands_and_asks_nothing_and_again_opens_the_next_test(place: Place, fresh: Workspace) -> None:
    place.add_held_out(fresh, 8)
    use(fresh, target := solving(is_taught))
    candidate_id = place.propose(fresh)
    first, n_calls = evaluate_candidate(fresh.store, fresh.models, fresh.place, candidate_id), target.n_calls
    assert evaluate_candidate(fresh.store, fresh.models, fresh.place, candidate_id) == first
    assert target.n_calls == n_calls
    assert first.test
    second = report_on(fresh, candidate_id, again=True)
    assert (second.verdict, second.test_in_release, second.test_id == first.test.test_id) == ("better", 2, False)
    assert target.n_calls > n_calls
    assert report_on(fresh, candidate_id) == second


# What it asks


def test_tasks_of_one_group_are_one_unit(place: Place, fresh: Workspace) -> None:
    place.add_held_out(fresh, 16, n_groups=8)
    report = report_on(fresh, place.propose(fresh))
    assert (report.verdict, report.units.of, report.passes, report.few_tasks) == ("better", 8, 8, True)


@pytest.mark.parametrize(
    ("content", "verdict"), [(LESSONS, "better_here"), (PLACEBO, "cant_tell"), (HARM, "worse_here")]
)
def test_a_small_suite_shows_what_is_so_on_its_own_tasks_and_only_a_person_promotes_on_it(
    place: Place, fresh: Workspace, content: str, verdict: str
) -> None:
    place.add_held_out(fresh, 3)
    use(fresh, solving(lambda call: is_taught(call) or (content == HARM and place_of(call)[1] == "base")))
    candidate_id = place.propose(fresh, content)
    found = evaluate_candidate(fresh.store, fresh.models, fresh.place, candidate_id)
    assert found.test
    assert (found.test.verdict, found.accepted, found.test.test_in_release) == (verdict, False, 0)
    assert promote_skill(fresh.store, fresh.place, candidate_id, Consent.PERSON).status == "refused"
    unproven = Consent("person", "terminal", unproven=True)
    assert promote_skill(fresh.store, fresh.place, candidate_id, unproven).status == "promoted"


@pytest.mark.parametrize(("is_shorter", "status"), [(True, "promoted"), (False, "refused")])
def test_no_worse_is_a_reason_to_promote_a_shorter_text_alone(
    place: Place, fresh: Workspace, is_shorter: bool, status: str
) -> None:
    place.add_held_out(fresh, 8)
    text, new = place.main.read_text(), place.folder / "new.md"
    new.write_text(text[: -len(text) // 10] if is_shorter else text[:-4])
    use(fresh, solving(lambda call: True))
    candidate_id = candidate_of_files(fresh.store, fresh.place, "ledger-clerk", new).id
    found = evaluate_candidate(fresh.store, fresh.models, fresh.place, candidate_id, asked=Asked(margin=0.1))
    assert found.test
    assert (found.test.verdict, found.test.margin, found.accepted) == ("no_worse", 0.1, is_shorter)
    assert promote_skill(fresh.store, fresh.place, candidate_id, Consent.PERSON).status == status


# Attempts without an answer


def test_a_test_that_failed_can_be_started_again(place: Place, workspace: Workspace) -> None:
    candidate_id = place.propose(workspace)
    for failure in (BackendFault("auth", "the key is wrong"), TimeoutError("not what waiting raises")):

        def answer(_: Call, failure: Exception = failure) -> BackendFault:
            if isinstance(failure, BackendFault):
                return failure
            raise failure

        use(workspace, Scripted(answer))
        with pytest.raises((BackendError, TimeoutError), match=r"the key is wrong|not what"):
            evaluate_candidate(
                workspace.store, workspace.models, workspace.place, candidate_id, Wait(workspace.jobs, 30)
            )
    use(workspace, Scripted(right_when_taught))
    assert evaluate_candidate(
        workspace.store, workspace.models, workspace.place, candidate_id, Wait(workspace.jobs, 30)
    ).accepted


# Stopped, and gone on with


def test_waiting_ends_with_running_and_a_later_call_gets_the_verdict(place: Place, workspace: Workspace) -> None:
    let_go = threading.Event()
    use(workspace, Scripted(lambda call: right_when_taught(call) if let_go.wait(30) else ""))
    candidate_id = place.propose(workspace)
    result = evaluate_candidate(
        workspace.store, workspace.models, workspace.place, candidate_id, Wait(workspace.jobs, 0.05)
    )
    assert (result.status, result.accepted, result.test, result.attempts_done) == ("running", None, None, 0)
    assert result.next_step.as_command() == f"skillopt-mcp evaluate {candidate_id}"
    let_go.set()
    assert evaluate_candidate(
        workspace.store, workspace.models, workspace.place, candidate_id, Wait(workspace.jobs, 30)
    ).accepted


def test_calls_at_once_from_one_process_and_from_another_share_one_test(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, other, at_once, real = Scripted(right_when_taught), place.open(), threading.Barrier(3), PromotionTests.open
    # All of them before the first goes on, which would soon have decided.
    monkeypatch.setattr(PromotionTests, "open", lambda *given: (at_once.wait(30), real(*given), at_once.wait(30))[1])
    candidate_id = place.propose(workspace)
    for each in (workspace, other):
        use(each, target)
    results: list[Evaluated] = []
    threads = [
        threading.Thread(
            target=lambda each=each: results.append(
                evaluate_candidate(each.store, each.models, each.place, candidate_id, Wait(each.jobs))
            )
        )  # type: ignore[misc]
        for each in (workspace, workspace, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1] == results[2]
    assert len(workspace.store.tests.list_of_skill(1)) == 1
    assert set(Counter((call.draw, call.request.digest) for call in target.calls).values()) == {1}


def test_a_test_that_is_stopped_again_and_again_ends_as_one_that_was_not_and_pays_nothing_twice(
    place: Place, workspace: Workspace
) -> None:
    candidate_id = place.propose(workspace)
    for calls in range(5, 10_000, 5):
        workspace.models.caps = Caps(calls=calls)
        try:
            report = report_on(workspace, candidate_id)
            break
        except CapReached:
            pass
    whole = place.open(store="whole.db")
    place.add_tasks(whole)
    assert place.propose(whole) == candidate_id
    assert report_on(whole, candidate_id) == report
    assert calls > 10
    n_sent = [each.store.budgets.get_spent(report.test_id).calls for each in (workspace, whole)]
    assert n_sent == [report.runs.base + report.runs.candidate] * 2


_KILLED = """
import os, signal, sys
from pathlib import Path
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.workspace.workspace import Workspace
store, project, target, candidate_id = sys.argv[1:]
workspace = Workspace(Path(store), target=target, project=Path(project))
real, calls = workspace.store.tests.add_attempts, []
def add_attempts(*arguments):
    real(*arguments)
    calls.append(arguments)
    if len(calls) == 20:
        os.kill(os.getpid(), signal.SIGKILL)
workspace.store.tests.add_attempts = add_attempts
evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id)
"""


def test_a_test_whose_process_was_killed_goes_on_with_every_attempt(place: Place, workspace: Workspace) -> None:
    candidate_id = place.propose(workspace, PLACEBO)
    command = [sys.executable, "-c", _KILLED, str(place.store_path), str(place.folder), SIMULATION, candidate_id]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    [row] = workspace.store.tests.list_of_skill(1)
    kept = workspace.store.tests.list_attempts(row.id)
    assert len(kept) == 20
    report = report_on(workspace, candidate_id)
    assert set(kept) <= set(workspace.store.tests.list_attempts(row.id))
    whole = place.open(store="uninterrupted.db")
    place.add_tasks(whole)
    assert place.propose(whole, PLACEBO) == candidate_id
    assert report_on(whole, candidate_id) == report


def test_a_verdict_that_a_killed_process_could_not_note_is_noted_by_the_next_call(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate_id = place.propose(workspace)
    with monkeypatch.context() as patched:
        patched.setattr(workspace.store.decisions, "add_decision", lambda _: None)
        assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id).accepted
    assert promote_skill(workspace.store, workspace.place, candidate_id, Consent.PERSON_SIMULATED).status == "refused"
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id).accepted
    assert promote_skill(workspace.store, workspace.place, candidate_id, Consent.PERSON_SIMULATED).status == "promoted"


@pytest.mark.parametrize(("hours", "verdict", "void"), [(23, "better", ""), (25, "cant_tell", "hours")])
def test_attempts_at_a_task_that_are_a_day_apart_are_not_compared(
    place: Place, host: Workspace, clock: Clock, hours: int, verdict: str, void: str
) -> None:
    agent, first = Agent(SEED), begun(host, place.propose(host))
    for item in items_of(first.work):
        agent.do(item.folder)
    submit_work(
        host.store,
        host.models,
        host.place,
        [{"work_id": item.work_id} for item in items_of(first.work)],
        wait=Wait(host.jobs),
    )
    pool = Pool(host.store.path)
    with pool.write() as connection:
        connection.execute("update reply set answered_at = answered_at - ?", [hours * 3600])
    pool.close()
    clock.now += hours * 3600
    done = driven(
        host, agent, submit_work(host.store, host.models, host.place, [], first.job_id, Wait(host.jobs))
    ).evaluated
    assert done
    assert done.test
    assert (done.test.verdict, done.test.void) == (verdict, void)
    candidate = host.store.candidates.get_candidate(done.candidate_id)
    assert choose_unproven(host.store, candidate, done.test) is None, "what was not compared is not offered unproven"


# What agents learn


def test_a_tool_call_learns_of_a_test_that_it_did_not_accept_and_nothing_else(place: Place, fresh: Workspace) -> None:
    place.add_held_out(fresh, 8)
    candidate_id = place.propose(fresh, PLACEBO)
    found = evaluate_candidate(fresh.store, fresh.models, fresh.place, candidate_id)
    told = found.for_agents()
    assert (told.accepted, told.test, told.attempts_done) == (False, None, 0)
    for consent in (Consent.STANDING, Consent.APPROVED):
        refused = promote_skill(fresh.store, fresh.place, candidate_id, consent)
        assert (refused.status, refused.reason) == ("refused", "its promotion test did not accept it")
        assert refused.next_step
        assert refused.next_step.action == "add_tasks", "there is nothing to propose from"
