"""What a test takes of a release's error rate: nothing before its first answer, for good from then on."""

from __future__ import annotations

import threading

import pytest
from hostwork import Clock, begun, server
from workshop import PLACEBO, Place, as_if_real, solving, use

from benchmarks.host_agent import items_of
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.budgets import Caps
from skillopt_mcp.core.calls import Call, Fault
from skillopt_mcp.core.errors import BadInput, SkillOptError
from skillopt_mcp.core.results import Evaluated, Submitted
from skillopt_mcp.gates.promotion import alpha_of
from skillopt_mcp.workspace.jobs import Capacity, Wait
from skillopt_mcp.workspace.workspace import Workspace

EDITED = "---\nname: ledger-clerk\ndescription: mine\n---\nMine.\n"


def numbers(host: Workspace) -> list[int]:
    """Return the numbers of the tests that have opened, by an answer."""
    return [row.number for row in host.store.tests.list_of_skill(1) if row.is_open]


def number(offer: Evaluated) -> int:
    assert offer.foreseen
    return offer.foreseen.test_in_release


def test_the_price_of_tests_and_their_work_take_nothing_and_the_first_answer_opens_one(
    place: Place, host: Workspace
) -> None:
    offers = [
        evaluate_candidate(
            host.store, host.models, host.place, place.propose(host, f"- Placebo {n}."), Wait(host.jobs, 1.0)
        )
        for n in range(3)
    ]
    assert [(each.job_id, number(each)) for each in offers] == [(each.candidate_id, 1) for each in offers]
    assert numbers(host) == []
    first = submit_work(host.store, host.models, host.place, [], offers[1].job_id, Wait(host.jobs))
    assert (first.status, numbers(host)) == ("work", [])
    assert (
        number(evaluate_candidate(host.store, host.models, host.place, offers[0].candidate_id, Wait(host.jobs, 1.0)))
        == 1
    )
    assert (
        evaluate_candidate(host.store, host.models, host.place, offers[1].candidate_id, Wait(host.jobs)).job_id
        == host.store.tests.list_of_skill(1)[0].id
    )
    second = submit_work(host.store, host.models, host.place, [], offers[2].job_id, Wait(host.jobs))
    for work, opened in ((items_of(second.work), [1]), (items_of(first.work), [2, 1])):
        submit_work(
            host.store,
            host.models,
            host.place,
            [{"work_id": work[0].work_id, "reply": "no"}],
            wait=Wait(host.jobs, capacity=Capacity(items=0)),
        )
        assert numbers(host) == opened
    assert (
        number(evaluate_candidate(host.store, host.models, host.place, offers[0].candidate_id, Wait(host.jobs, 1.0)))
        == 3
    )


def test_a_test_whose_work_nobody_does_takes_nothing(place: Place, host: Workspace, clock: Clock) -> None:
    standing = begun(host, place.propose(host))
    clock.now += 901
    for item in items_of(standing.work):
        submit_work(
            host.store,
            host.models,
            host.place,
            [{"work_id": item.work_id, "failed": "no time"}],
            wait=Wait(host.jobs, capacity=Capacity(items=0)),
        )
    place.main.write_text(EDITED)
    assert submit_work(host.store, host.models, host.place, [], standing.job_id, Wait(host.jobs)).status == "stopped"
    assert numbers(host) == []


def test_a_file_that_was_edited_after_the_price_was_given_stops_the_test_before_it_takes_anything(
    place: Place, host: Workspace
) -> None:
    candidate_id = place.propose(host)
    offer = evaluate_candidate(host.store, host.models, host.place, candidate_id, Wait(host.jobs))
    place.main.write_text(EDITED)
    answer = submit_work(host.store, host.models, host.place, [], offer.job_id, Wait(host.jobs))
    assert (answer.status, answer.work, numbers(host)) == ("stopped", None, [])
    assert f"or run: skillopt-mcp evaluate {candidate_id} --rebase" in answer.reason


def test_sessions_that_take_the_first_work_at_once_open_one_test(place: Place, host: Workspace, clock: Clock) -> None:
    offer = evaluate_candidate(host.store, host.models, host.place, place.propose(host), Wait(host.jobs))
    sessions = [server(place, clock, place.folder / "work") for _ in range(4)]
    answers: list[Submitted] = []
    at_once = threading.Barrier(len(sessions))

    def take(session: Workspace) -> None:
        at_once.wait()
        answers.append(
            submit_work(
                session.store,
                session.models,
                session.place,
                [],
                offer.job_id,
                Wait(session.jobs, capacity=Capacity(items=2)),
            )
        )

    threads = [threading.Thread(target=take, args=[each]) for each in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.status for each in answers} <= {"work", "running"}
    work = [item.work_id for each in answers for item in items_of(each.work)]
    assert 0 < len(work) == len(set(work))
    assert len(host.store.tests.list_of_skill(1)) == 1


def test_a_skill_whose_judge_is_not_named_does_not_hide_the_test_of_another(place: Place, host: Workspace) -> None:
    other = place.root / "aaa-kind"
    other.mkdir()
    (other / "SKILL.md").write_text("---\nname: aaa-kind\ndescription: Be kind.\n---\nBe kind.\n")
    rubric = {"prompt": "greet", "judge": {"kind": "rubric", "rubric": "Is it kind?"}, "split": "test"}
    add_tasks(host.store, host.place, str(other), [rubric])
    host._specs["judge"] = None
    offer = evaluate_candidate(host.store, host.models, host.place, place.propose(host), Wait(host.jobs))
    assert items_of(submit_work(host.store, host.models, host.place, [], offer.job_id, Wait(host.jobs)).work)


def test_caps_that_cannot_hold_stop_a_test_before_it_is_opened(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(lambda call: "no", name="anthropic:m"))
    workspace.models.caps = Caps(usd=1.0)
    with pytest.raises(BadInput):
        evaluate_candidate(workspace.store, workspace.models, workspace.place, place.propose(workspace, PLACEBO))
    assert numbers(workspace) == []


@pytest.mark.parametrize(
    ("fault", "n_answered", "opened"),
    [("auth", 0, []), ("model_not_found", 0, []), ("connection", 0, []), ("server", 0, []), ("auth", 1, [1])],
)
@pytest.mark.usefixtures("impatient")
def test_a_test_without_an_answer_takes_nothing_and_its_first_answer_counts_whatever_ends_it(
    place: Place, workspace: Workspace, fault: Fault, n_answered: int, opened: list[int]
) -> None:
    answers = iter([True] * n_answered)
    use(workspace, solving(lambda _: next(answers, BackendFault(fault, "no"))))
    first, second = (place.propose(workspace, f"{PLACEBO} {n}") for n in range(2))
    workspace.models.concurrency = 1
    with pytest.raises(SkillOptError):
        evaluate_candidate(workspace.store, workspace.models, workspace.place, first)
    assert numbers(workspace) == opened
    use(workspace, as_if_real())
    reports = [
        evaluate_candidate(workspace.store, workspace.models, workspace.place, each).test for each in (second, first)
    ]
    after = [2, 1] if opened else [1, 2]
    assert [(each.test_in_release, each.alpha) for each in reports if each] == [(n, float(alpha_of(n))) for n in after]
    assert sorted(numbers(workspace)) == [1, 2]
    assert verify_store(place.store_path, live=False).problems == []


@pytest.mark.parametrize(("n_calls", "opened"), [(0, []), (1, [1])])
def test_a_cap_that_stops_a_test_before_its_first_answer_takes_nothing(
    place: Place, workspace: Workspace, n_calls: int, opened: list[int]
) -> None:
    use(workspace, as_if_real())
    workspace.models.caps = Caps(calls=n_calls)
    with pytest.raises(SkillOptError):
        evaluate_candidate(workspace.store, workspace.models, workspace.place, place.propose(workspace, PLACEBO))
    assert numbers(workspace) == opened


def test_tests_that_are_run_at_once_take_a_number_each_and_use_its_error_rate(
    place: Place, workspace: Workspace
) -> None:
    candidates = [place.propose(workspace, f"{PLACEBO} {n}") for n in range(3)]
    all_planned, found = threading.Barrier(3), dict[int, float]()

    def run(candidate_id: str) -> None:
        asked = threading.Event()

        def solves(_: Call) -> bool:
            if not asked.is_set():  # each has its plan, made as the first test
                asked.set()
                all_planned.wait(60)
            return False

        own = place.open()
        own.models.concurrency = 1
        use(own, solving(solves))
        report = evaluate_candidate(own.store, own.models, own.place, candidate_id, Wait(own.jobs)).test
        assert report
        found[report.test_in_release] = report.alpha

    threads = [threading.Thread(target=run, args=[each]) for each in candidates]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: float(alpha_of(n)) for n in (1, 2, 3)}
    assert verify_store(place.store_path, live=False).problems == []


@pytest.mark.usefixtures("impatient")
def test_an_edit_that_no_answer_was_given_for_is_no_base_of_the_next_edit(place: Place, workspace: Workspace) -> None:
    before = workspace.place.skill("ledger-clerk").live_version
    use(workspace, solving(lambda _: BackendFault("auth", "no")))
    for text in (EDITED, f"{EDITED}And more.\n"):
        place.main.write_text(text)
        with pytest.raises(SkillOptError):
            evaluate_candidate(workspace.store, workspace.models, workspace.place, "ledger-clerk")
        made = workspace.store.candidates.list_candidates(1)[-1]
        assert made.base_version == before
