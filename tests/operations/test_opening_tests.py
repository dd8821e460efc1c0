"""What a promotion test takes of a skill's error rate: nothing while it is only announced, for good once begun."""

from __future__ import annotations

import threading

import pytest
from hostwork import Clock, begun, server
from workshop import PLACEBO, Place, use

from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.confirm import alpha_for
from skillopt_mcp.host_work import Capacity
from skillopt_mcp.promotion_tests import evaluate_candidate
from skillopt_mcp.records.budgets import Caps
from skillopt_mcp.records.results import Submitted
from skillopt_mcp.submitting import submit_work
from skillopt_mcp.tasks import add_tasks
from skillopt_mcp.workspace import Workspace

LIFE = 0.05


def staked(host: Workspace) -> tuple[int, float]:
    return host.store.decisions.staked(1, "host")


def test_to_ask_for_the_price_of_many_tests_takes_nothing_of_the_error_rate(place: Place, host: Workspace) -> None:
    reported = [evaluate_candidate(host, place.propose(host, f"- Placebo {n}.")) for n in range(5)]
    assert len({each.job_id for each in reported}) == 5
    assert {each.alpha for each in reported} == {round(alpha_for(1, LIFE), 6)}
    assert staked(host) == (0, 0.0)
    assert reported[0].next_step.arguments == {"job_id": reported[0].job_id}
    assert not host.store.decisions.list_tests(1)


def test_the_first_work_opens_the_test_under_the_name_that_was_announced(place: Place, host: Workspace) -> None:
    reported = [evaluate_candidate(host, place.propose(host, f"- Placebo {n}.")) for n in range(3)]
    first = submit_work(host, [], reported[1].job_id)
    assert (first.status, first.job_id) == ("work", reported[1].job_id)
    assert staked(host) == (1, pytest.approx(alpha_for(1, LIFE)))
    assert evaluate_candidate(host, reported[0].candidate_id).alpha == round(alpha_for(2, LIFE), 6)
    assert evaluate_candidate(host, reported[1].candidate_id).alpha == round(alpha_for(1, LIFE), 6)
    submit_work(host, [], reported[2].job_id)
    assert staked(host) == (2, pytest.approx(alpha_for(1, LIFE) + alpha_for(2, LIFE)))


def test_a_test_whose_work_was_handed_out_keeps_its_share_even_if_it_is_not_done(
    place: Place, host: Workspace, clock: Clock
) -> None:
    standing = begun(host, place.propose(host))
    share = staked(host)
    clock.now += 901
    for item in standing.work:
        submit_work(host, [{"work_id": item.work_id, "failed": "no time"}], capacity=Capacity(items=0))
    place.main.write_text("---\nname: ledger-clerk\ndescription: mine\n---\nMine.\n")
    assert submit_work(host, [], standing.job_id).status == "stopped"
    assert staked(host) == share == (1, pytest.approx(alpha_for(1, LIFE)))


def test_a_file_that_was_edited_after_the_price_was_given_stops_the_test_before_it_takes_anything(
    place: Place, host: Workspace
) -> None:
    candidate_id = place.propose(host)
    reported = evaluate_candidate(host, candidate_id)
    place.main.write_text("---\nname: ledger-clerk\ndescription: mine\n---\nMine.\n")
    answer = submit_work(host, [], reported.job_id)
    assert (answer.status, answer.work, staked(host)) == ("stopped", [], (0, 0.0))
    assert f"or run: skillopt-mcp evaluate {candidate_id} --rebase" in answer.reason


def test_two_sessions_that_take_the_first_work_at_once_open_one_test(
    place: Place, host: Workspace, clock: Clock
) -> None:
    reported = evaluate_candidate(host, place.propose(host))
    sessions = [server(place, clock, place.folder / "work") for _ in range(4)]
    answers: list[Submitted] = []
    at_once = threading.Barrier(len(sessions))

    def take(session: Workspace) -> None:
        at_once.wait()
        answers.append(submit_work(session, [], reported.job_id, Capacity(items=2)))

    threads = [threading.Thread(target=take, args=[each]) for each in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.status for each in answers} <= {"work", "running"}
    work = [item.work_id for each in answers for item in each.work]
    assert 0 < len(work) == len(set(work))
    assert staked(host) == (1, pytest.approx(alpha_for(1, LIFE)))


def test_a_candidate_of_a_single_step_is_found_by_the_name_of_its_test(place: Place, host: Workspace) -> None:
    reported = evaluate_candidate(host, place.propose(host))
    with host.store.candidates._pool.write() as connection:
        connection.execute("update candidate set origin = 'step'")
    assert submit_work(host, [], reported.job_id).work


def test_a_skill_whose_judge_is_not_named_does_not_hide_the_test_of_another(place: Place, host: Workspace) -> None:
    other = place.root / "aaa-kind"
    other.mkdir()
    (other / "SKILL.md").write_text("---\nname: aaa-kind\ndescription: Be kind.\n---\nBe kind.\n")
    rubric = {"prompt": "greet", "judge": {"kind": "rubric", "rubric": "Is it kind?"}, "split": "test"}
    add_tasks(host, str(other), [rubric])
    host._specs["judge"] = None
    reported = evaluate_candidate(host, place.propose(host))
    assert submit_work(host, [], reported.job_id).work


def test_caps_that_cannot_hold_stop_a_test_before_it_is_opened(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(lambda call: "no", name="anthropic:m"))
    workspace.caps = Caps(usd=1.0)
    with pytest.raises(BadInput):
        evaluate_candidate(workspace, place.propose(workspace, PLACEBO))
    assert not workspace.store.decisions.list_tests(1)
