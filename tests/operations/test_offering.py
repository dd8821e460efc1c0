"""Offering: a host is told what a proposal takes before it is given any of it, and agents are told of no job."""

from __future__ import annotations

import pytest
from hostwork import begun, begun_proposal
from workshop import PLACEBO, Place

from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.promoting import promote_skill
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.host_work.handing_out import Room
from skillopt_mcp.operations.looks.inspecting import inspect
from skillopt_mcp.operations.looks.listing import list_skills
from skillopt_mcp.operations.runs.reflecting import propose_from_evidence
from skillopt_mcp.operations.runs.submitting import HANDED_IN, submit_work
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace

SIMULATED = "simulated:honest"
EDITED = "---\nname: ledger-clerk\ndescription: mine\n---\n# Mine\n"


def test_what_a_proposal_takes_is_told_before_any_of_it_is_handed_out(place: Place, host: Workspace) -> None:
    told = propose_from_evidence(host, str(place.skill), rollouts=6)
    assert (told.status, told.work) == ("work", [])
    [expected] = told.notes
    assert expected == "at most 10 agent runs: 6 attempts at train tasks, up to 4 questions on what to change"
    assert told.next_step == (
        f"Nothing is handed out yet. Tell the user what it takes ({expected}) and, if that is fine, take the first "
        f"work: submit_work with job_id {told.job_id}."
    )
    assert host.store.leases.list_of(told.job_id) == []
    assert propose_from_evidence(host, str(place.skill), rollouts=6) == told
    assert len(submit_work(host, [], told.job_id).work) == 4
    again = propose_from_evidence(host, str(place.skill))
    assert (again.job_id, len(again.work)) == (told.job_id, 4)


def test_more_rollouts_than_there_are_train_tasks_are_told_as_that(place: Place, host: Workspace) -> None:
    for _ in range(2):
        told = propose_from_evidence(host, str(place.skill), rollouts=64)
        assert told.next_step.startswith("The skill has 30 train tasks: 30 rollouts, not 64. Nothing is handed out yet")
    [run] = host.store.runs.list_runs(host.skill(str(place.skill)).id)
    assert len(run.tasks) == 30


def test_a_proposal_that_was_only_told_of_gives_way_to_one_of_another_size(place: Place, host: Workspace) -> None:
    skill = str(place.skill)
    for n in range(20):
        record_trajectory(host, skill, Recording(task=f"{n}: book it", answer="1", hard=False, reason="wrong"))
    large = propose_from_evidence(host, skill, rollouts=16)
    small = begun_proposal(host, skill, rollouts=2)
    assert small.job_id != large.job_id
    run = host.store.runs.get_run(small.job_id)
    assert (len(run.tasks), len(run.sessions)) == (2, 20)
    assert host.store.runs.get_run(large.job_id).status == "stopped"
    under_way = propose_from_evidence(host, skill, rollouts=3)
    assert under_way.job_id == small.job_id
    assert under_way.next_step.startswith("This proposal was under way, with 2 rollouts: 3 were not begun. ")


@pytest.mark.parametrize(("target", "optimizer", "sizes"), [("host", SIMULATED, (4, 2)), (SIMULATED, "host", (0, 2))])
def test_a_proposal_that_waits_for_its_first_work_gives_way_whoever_does_the_rest(
    place: Place, target: str, optimizer: str, sizes: tuple[int, int]
) -> None:
    environ = {"SKILLOPT_WORK": str(place.folder / "work")}
    host = place.stack.enter_context(
        Workspace(
            place.store_path, target=target, optimizer=optimizer, project=place.folder, environ=environ, hands_out=True
        )
    )
    place.add_tasks(host)
    record_trajectory(host, str(place.skill), Recording(task="book it", answer="1", hard=False, reason="wrong"))
    first, second = (propose_from_evidence(host, str(place.skill), rollouts=each) for each in sizes)
    assert host.store.runs.get_run(first.job_id).status == "stopped"
    assert len(host.store.runs.get_run(second.job_id).tasks) == sizes[1]
    assert second.next_step.startswith("Nothing is handed out yet.")


def test_whoever_finds_a_proposal_that_was_only_told_of_is_told_what_it_takes(place: Place, host: Workspace) -> None:
    told = propose_from_evidence(host, str(place.skill), rollouts=4)
    way = f"{told.job_id} is under way, and nothing of it is handed out yet: propose_edits for 'ledger-clerk' goes on"
    assert list_skills(host).skills[0].next_step == way
    assert inspect(host, told.job_id).next_step == way
    submit_work(host, [], told.job_id)
    assert "submit_work with job_id" in list_skills(host).skills[0].next_step


def test_an_agent_that_hands_in_is_told_nothing_of_a_job_that_stopped(place: Place, host: Workspace) -> None:
    candidate_id = place.propose(host)
    job = begun(host, candidate_id)
    place.main.write_text(EDITED)
    first, second, *_ = job.work
    answer = submit_work(host, [{"work_id": first.work_id, "reply": "1"}], room=Room(items=0))
    assert [each.status for each in answer.receipts] == ["accepted"]
    assert (answer.status, answer.reason, answer.next_step) == ("done", "", HANDED_IN)
    refused = submit_work(host, [{"work_id": second.work_id}], room=Room(items=0))
    assert (refused.status, refused.reason) == ("running", "")
    assert refused.next_step.startswith("1 of 1 reply was NOT taken (there is no reply")
    driver = submit_work(host, [], job.job_id)
    assert (driver.status, driver.next_step) == (
        "stopped",
        "What was accepted is kept. Somebody edited the file. Their edit is kept: call propose_edits with its edits "
        f"again (inspect {candidate_id} shows them), or at a terminal: skillopt-mcp rebase {candidate_id}; either "
        "makes a new candidate to evaluate.",
    )


def test_an_agent_that_hands_in_is_told_nothing_of_a_job_that_goes_on(place: Place, host: Workspace) -> None:
    [item, *_] = begun(host, place.propose(host)).work
    answer = submit_work(host, [{"work_id": item.work_id, "reply": "1"}], room=Room(items=0))
    assert (answer.reason, answer.work, answer.next_step) == ("", [], HANDED_IN)


def test_work_on_what_is_live_meanwhile_leaves_nothing_to_do(place: Place, host: Workspace) -> None:
    candidate_id = place.propose(host)
    job = begun(host, candidate_id)
    place.accepted(place.open())
    promoted = promote_skill(place.open(), candidate_id, Consent.PERSON_SIMULATED)
    assert promoted.status == "promoted"
    answer = submit_work(host, [{"work_id": job.work[0].work_id, "reply": "1"}])
    assert answer.status == "stopped"
    assert answer.next_step == (
        "What was accepted is kept. Nothing: it is what is live. To undo it: rollback_skill with skill ledger-clerk."
    )


def test_a_proposal_that_was_given_up_is_asked_for_again(place: Place, host: Workspace) -> None:
    first = begun_proposal(host, str(place.skill), rollouts=4)
    place.main.write_text(EDITED)
    assert propose_from_evidence(host, str(place.skill), rollouts=4).job_id != first.job_id
    answer = submit_work(host, [{"work_id": first.work[0].work_id, "reply": "{}"}])
    assert answer.status == "stopped"
    assert answer.next_step == "What was accepted is kept. Call propose_edits for 'ledger-clerk' again."


def test_a_second_test_of_a_skill_names_the_first_before_it_is_opened(place: Place, host: Workspace) -> None:
    first = place.propose(host)
    assert "error rate" not in evaluate_candidate(host, first).reason
    job = begun(host, first).job_id
    told = evaluate_candidate(host, place.propose(host, PLACEBO))
    note = f"{job}, the test of {first}, is not decided yet, and each test takes its share of the skill's error rate"
    assert told.work == []
    assert told.reason.endswith(note)
    assert note in told.next_step


def test_work_is_known_by_its_folder_and_in_capitals(place: Place, host: Workspace) -> None:
    first, second, *_ = begun(host, place.propose(host)).work
    replies = [{"work_id": f"{first.folder}/", "reply": "1"}, {"work_id": f" {second.work_id.upper()}", "reply": "1"}]
    receipts = submit_work(host, replies, room=Room(items=0)).receipts
    assert [(each.work_id, each.status) for each in receipts] == [
        (first.work_id, "accepted"), (second.work_id, "accepted")
    ]  # fmt: skip


def test_a_reason_that_many_replies_share_is_told_in_full_a_few_times(place: Place, host: Workspace) -> None:
    begun(host, place.propose(host))
    receipts = submit_work(host, [f"w-{n:032x}" for n in range(50)]).receipts
    assert [each.work_id for each in receipts] == [f"w-{n:032x}" for n in range(50)]
    assert {each.status for each in receipts} == {"unknown"}
    assert [each.reason for each in receipts[:3]] == ["nobody was ever given work of this id"] * 3
    assert {each.reason for each in receipts[3:]} == {"as above"}


def test_a_reply_after_a_failure_is_told_as_not_taken(place: Place, host: Workspace) -> None:
    [item, *_] = begun(host, place.propose(host)).work
    submit_work(host, [{"work_id": item.work_id, "failed": "no tool"}], room=Room(items=0))
    [late] = submit_work(host, [{"work_id": item.work_id, "reply": "1"}], room=Room(items=0)).receipts
    assert (late.status, late.reason) == (
        "duplicate", "this work was given up as failed before: nothing more is taken for it"
    )  # fmt: skip
