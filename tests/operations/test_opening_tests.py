"""What a host's test takes of a release's error rate: nothing while it is only announced, for good once begun."""

from __future__ import annotations

import threading

import pytest
from hostwork import Clock, begun, server
from workshop import PLACEBO, Place, use

from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.budgets import Caps
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.results import Evaluated, Submitted
from skillopt_mcp.workspace.host_work import Capacity
from skillopt_mcp.workspace.workspace import Workspace

EDITED = "---\nname: ledger-clerk\ndescription: mine\n---\nMine.\n"


def numbers(host: Workspace) -> list[int]:
    """Return the numbers of the tests that have opened."""
    return [row.number for row in host.store.tests.list_of_skill(1)]


def number(offer: Evaluated) -> int:
    assert offer.foreseen
    return offer.foreseen.test_in_release


def test_the_price_of_tests_takes_nothing_and_the_first_work_opens_one(place: Place, host: Workspace) -> None:
    offers = [evaluate_candidate(host, place.propose(host, f"- Placebo {n}."), 1.0) for n in range(3)]
    assert [(each.job_id, number(each)) for each in offers] == [(each.candidate_id, 1) for each in offers]
    assert numbers(host) == []
    first = submit_work(host, [], offers[1].job_id)
    assert (first.status, numbers(host)) == ("work", [1])
    assert number(evaluate_candidate(host, offers[0].candidate_id, 1.0)) == 2
    assert evaluate_candidate(host, offers[1].candidate_id).job_id == host.store.tests.list_of_skill(1)[0].id
    submit_work(host, [], offers[2].job_id)
    assert numbers(host) == [1, 2]


def test_a_test_whose_work_was_handed_out_keeps_its_share_even_if_it_is_not_done(
    place: Place, host: Workspace, clock: Clock
) -> None:
    standing = begun(host, place.propose(host))
    clock.now += 901
    for item in standing.work:
        submit_work(host, [{"work_id": item.work_id, "failed": "no time"}], capacity=Capacity(items=0))
    place.main.write_text(EDITED)
    assert submit_work(host, [], standing.job_id).status == "stopped"
    assert numbers(host) == [1]


def test_a_file_that_was_edited_after_the_price_was_given_stops_the_test_before_it_takes_anything(
    place: Place, host: Workspace
) -> None:
    candidate_id = place.propose(host)
    offer = evaluate_candidate(host, candidate_id)
    place.main.write_text(EDITED)
    answer = submit_work(host, [], offer.job_id)
    assert (answer.status, answer.work, numbers(host)) == ("stopped", [], [])
    assert f"or run: skillopt-mcp evaluate {candidate_id} --rebase" in answer.reason


def test_sessions_that_take_the_first_work_at_once_open_one_test(place: Place, host: Workspace, clock: Clock) -> None:
    offer = evaluate_candidate(host, place.propose(host))
    sessions = [server(place, clock, place.folder / "work") for _ in range(4)]
    answers: list[Submitted] = []
    at_once = threading.Barrier(len(sessions))

    def take(session: Workspace) -> None:
        at_once.wait()
        answers.append(submit_work(session, [], offer.job_id, Capacity(items=2)))

    threads = [threading.Thread(target=take, args=[each]) for each in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.status for each in answers} <= {"work", "running"}
    work = [item.work_id for each in answers for item in each.work]
    assert 0 < len(work) == len(set(work))
    assert numbers(host) == [1]


def test_a_skill_whose_judge_is_not_named_does_not_hide_the_test_of_another(place: Place, host: Workspace) -> None:
    other = place.root / "aaa-kind"
    other.mkdir()
    (other / "SKILL.md").write_text("---\nname: aaa-kind\ndescription: Be kind.\n---\nBe kind.\n")
    rubric = {"prompt": "greet", "judge": {"kind": "rubric", "rubric": "Is it kind?"}, "split": "test"}
    add_tasks(host, str(other), [rubric])
    host._specs["judge"] = None
    offer = evaluate_candidate(host, place.propose(host))
    assert submit_work(host, [], offer.job_id).work


def test_caps_that_cannot_hold_stop_a_test_before_it_is_opened(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(lambda call: "no", name="anthropic:m"))
    workspace.caps = Caps(usd=1.0)
    with pytest.raises(BadInput):
        evaluate_candidate(workspace, place.propose(workspace, PLACEBO))
    assert numbers(workspace) == []
