from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest
from workshop import LESSONS, PLACEBO, SIMULATION, Place, right_when_taught, use

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.errors import BackendError, BadInput, NotFound, Refused
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.promotion_tests import evaluate_candidate
from skillopt_mcp.promotions.consent import Consent
from skillopt_mcp.promotions.promoting import promote_skill
from skillopt_mcp.records.calls import Call
from skillopt_mcp.training.progress import Progress
from skillopt_mcp.workspace import Workspace

FEW_PAIRS = ConfirmRule(max_pairs=8)


def test_a_good_candidate_is_accepted_and_the_verdict_says_what_it_rests_on(place: Place, workspace: Workspace) -> None:
    result = evaluate_candidate(workspace, place.propose(workspace))
    assert (result.status, result.verdict) == ("verdict", "accept")
    assert result.candidate.mean > result.base.mean
    assert result.base.n == result.candidate.n == result.pairs_done
    assert (result.pairs_expected, result.claim) == (0, "on these 30 held-out tasks")
    assert [note.code for note in result.notes] == ["simulated"]
    assert result.backend.startswith("simulated:honest")
    assert result.next_step.as_command() == f"skillopt-mcp promote {result.candidate_id}"


def test_one_held_out_task_is_enough_to_test(place: Place) -> None:
    workspace = place.open()
    place.add_tasks(workspace, 2)
    use(workspace, Scripted(right_when_taught))
    result = evaluate_candidate(workspace, place.propose(workspace))
    assert (result.verdict, result.claim) == ("accept", "on these 1 held-out tasks")


def test_without_a_held_out_task_the_error_says_what_to_add(place: Place) -> None:
    workspace = place.open()
    candidate_id = place.propose(workspace)
    with pytest.raises(BadInput, match=r"no held-out task \(val or test\): add tasks"):
        evaluate_candidate(workspace, candidate_id)


@pytest.mark.parametrize("name", ["c-000000000000", "", "x" * 100_000, "a\0b", "\ud800", "'; drop table candidate; --"])
def test_an_unknown_candidate_is_refused_in_one_short_line(place: Place, workspace: Workspace, name: str) -> None:
    for operation in (evaluate_candidate, lambda ws, id: promote_skill(ws, id, Consent.PERSON)):
        with pytest.raises(NotFound) as error:
            operation(workspace, name)
        assert len(str(error.value)) < 300


def test_a_candidate_that_is_live_is_not_tested(place: Place, workspace: Workspace) -> None:
    candidate_id = place.accepted(workspace)
    promote_skill(workspace, candidate_id, Consent.PERSON_SIMULATED)
    with pytest.raises(Refused, match="is what is live already"):
        evaluate_candidate(workspace, candidate_id)


def test_waiting_ends_with_running_and_a_later_call_gets_the_verdict(place: Place, workspace: Workspace) -> None:
    let_go = threading.Event()

    def slow(call: Call) -> str:
        assert let_go.wait(30)
        return right_when_taught(call)

    use(workspace, Scripted(slow))
    candidate_id = place.propose(workspace)
    result = evaluate_candidate(workspace, candidate_id, wait_s=0.05)
    assert (result.status, result.verdict, result.pairs_done) == ("running", None, 0)
    assert result.next_step.as_command() == f"skillopt-mcp evaluate {candidate_id}"
    let_go.set()
    assert evaluate_candidate(workspace, candidate_id, wait_s=30).verdict == "accept"


def test_two_calls_at_once_share_one_test(place: Place, workspace: Workspace) -> None:
    target = Scripted(right_when_taught)
    use(workspace, target)
    candidate_id = place.propose(workspace)
    results: list[object] = []
    threads = [
        threading.Thread(target=lambda: results.append(evaluate_candidate(workspace, candidate_id))) for _ in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1]
    assert len({call.draw for call in target.calls}) * 2 == target.n_calls


def test_a_verdict_stands_and_asks_nothing_more(place: Place, workspace: Workspace) -> None:
    target = Scripted(right_when_taught)
    use(workspace, target)
    candidate_id = place.propose(workspace)
    first = evaluate_candidate(workspace, candidate_id)
    n_calls = target.n_calls
    assert evaluate_candidate(workspace, candidate_id) == first
    assert target.n_calls == n_calls


def test_a_verdict_that_a_killed_process_could_not_note_is_noted_by_the_next_call(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate_id = place.propose(workspace)
    with monkeypatch.context() as patched:
        patched.setattr(workspace.store.decisions, "add_decision", lambda _: None)
        assert evaluate_candidate(workspace, candidate_id).verdict == "accept"
    assert promote_skill(workspace, candidate_id, Consent.PERSON_SIMULATED).status == "refused"
    assert evaluate_candidate(workspace, candidate_id).verdict == "accept"
    assert promote_skill(workspace, candidate_id, Consent.PERSON_SIMULATED).status == "promoted"


def test_undecided_goes_on_with_fresh_pairs_at_the_same_error_rate(place: Place, workspace: Workspace) -> None:
    candidate_id = place.propose(workspace, PLACEBO)
    first = evaluate_candidate(workspace, candidate_id, rule=FEW_PAIRS)
    assert (first.verdict, first.pairs_done) == ("undecided", 8)
    assert first.next_step.as_command() == f"skillopt-mcp evaluate {candidate_id}"
    other = evaluate_candidate(workspace, place.propose(workspace, "- Another placebo."), rule=FEW_PAIRS)
    assert other.alpha < first.alpha
    second = evaluate_candidate(workspace, candidate_id, rule=FEW_PAIRS)
    assert (second.pairs_done, second.alpha) == (16, first.alpha)
    assert promote_skill(workspace, candidate_id, Consent.PERSON_SIMULATED).status == "undecided"


def test_missing_replies_never_make_an_accept_and_are_reported(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(lambda _: BackendFault("refusal", "no")))
    candidate_id = place.propose(workspace)
    result = evaluate_candidate(workspace, candidate_id)
    assert result.verdict != "accept"
    [missing] = [note.numbers for note in result.notes if note.code == "missing_replies"]
    assert missing == {"n": result.pairs_done, "pairs": result.pairs_done}
    assert (result.base.n, result.candidate.n) == (0, 0)
    assert promote_skill(workspace, candidate_id, Consent.PERSON_SIMULATED).status != "promoted"


def test_a_candidate_gains_nothing_from_replies_that_its_rival_loses(place: Place, workspace: Workspace) -> None:
    def answer(call: Call) -> str | BackendFault:
        return right_when_taught(call) if LESSONS in call.request.files.text else BackendFault("refusal", "no")  # type: ignore[union-attr]

    use(workspace, Scripted(answer))
    assert evaluate_candidate(workspace, place.propose(workspace)).verdict != "accept"


def test_a_test_that_failed_can_be_started_again(place: Place, workspace: Workspace) -> None:
    candidate_id = place.propose(workspace)
    for failure in (BackendFault("auth", "the key is wrong"), TimeoutError("not what waiting raises")):

        def answer(_: Call, failure: Exception = failure) -> BackendFault:
            if isinstance(failure, BackendFault):
                return failure
            raise failure

        use(workspace, Scripted(answer))
        with pytest.raises((BackendError, TimeoutError), match=r"the key is wrong|not what"):
            evaluate_candidate(workspace, candidate_id, wait_s=30)
    use(workspace, Scripted(right_when_taught))
    assert evaluate_candidate(workspace, candidate_id, wait_s=30).verdict == "accept"


def test_where_another_process_draws_a_turn_a_call_waits_for_it_and_draws_none_of_its_own(
    place: Place, workspace: Workspace
) -> None:
    let_go, sent = threading.Event(), list[Call]()
    use(workspace, Scripted(lambda _: (let_go.wait(30), "no")[1]))
    candidate_id = place.propose(workspace)
    evaluate_candidate(workspace, candidate_id, wait_s=0.05, rule=FEW_PAIRS)
    other = place.open()
    use(other, Scripted(lambda call: (sent.append(call), "no")[1]))
    reported: list[Progress] = []

    def hear(progress: Progress) -> None:
        reported.append(progress)
        let_go.set()

    result = evaluate_candidate(other, candidate_id, notify=hear, rule=FEW_PAIRS)
    assert (result.verdict, result.pairs_done, sent) == ("undecided", 8, [])
    assert (reported[0].stage, reported[0].n_done, reported[0].n_total) == ("confirm", 0, 8)


_KILLED = """
import os, signal, sys
from pathlib import Path
from skillopt_mcp.promotion_tests import evaluate_candidate
from skillopt_mcp.workspace import Workspace
store, project, target, candidate_id, n_rounds = sys.argv[1:]
workspace = Workspace(Path(store), target=target, project=Path(project))
real, seen = workspace.store.decisions.add_pairs, []
def add_pairs(*arguments):
    real(*arguments)
    seen.append(arguments)
    if len(seen) == int(n_rounds):
        os.kill(os.getpid(), signal.SIGKILL)
workspace.store.decisions.add_pairs = add_pairs
evaluate_candidate(workspace, candidate_id)
"""


def test_a_test_whose_process_was_killed_goes_on_with_every_pair(place: Place, workspace: Workspace) -> None:
    candidate_id = place.propose(workspace, PLACEBO)
    command = [sys.executable, "-c", _KILLED, str(place.store_path), str(place.folder), SIMULATION, candidate_id, "3"]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (test,) = workspace.store.decisions.list_confirmations(1, *_versions(workspace, candidate_id))
    kept = workspace.store.decisions.list_pairs(test.id)
    assert len(kept) == 24
    resumed = evaluate_candidate(workspace, candidate_id)
    assert workspace.store.decisions.list_pairs(test.id)[:24] == kept

    whole = place.open(store="uninterrupted.db")
    place.add_tasks(whole)
    assert place.propose(whole, PLACEBO) == candidate_id
    again = evaluate_candidate(whole, candidate_id)
    assert (again.verdict, again.reason, again.base, again.candidate, again.pairs_done) == (
        resumed.verdict, resumed.reason, resumed.base, resumed.candidate, resumed.pairs_done
    )  # fmt: skip


def _versions(workspace: Workspace, candidate_id: str) -> tuple[str, str]:
    candidate = workspace.store.candidates.get_candidate(candidate_id)
    return candidate.base_version, candidate.version_id
