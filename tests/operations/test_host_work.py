"""Work of a host: what it is told when a reply cannot be used, when nothing is to be had, and what goes on where."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from hostwork import Clock, begun, driven, server
from workshop import PLACEBO, SEED, Place, right_when_taught, use

from benchmarks.host_agent import Agent
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.host_work import MAX_ITEMS, Room, receive
from skillopt_mcp.promotion_tests import evaluate_candidate
from skillopt_mcp.records.calls import Call, Rollout
from skillopt_mcp.records.results import Submitted
from skillopt_mcp.show.inspecting import inspect
from skillopt_mcp.submitting import submit_work
from skillopt_mcp.tasks import add_tasks
from skillopt_mcp.workspace import Workspace

HANDS_IN = Room(items=0)
EDITED = "---\nname: ledger-clerk\ndescription: mine\n---\n# Mine\n"
GRADE = json.dumps({"reasoning": "so it says", "grade": "all"})


def handed_in(host: Workspace, work_id: str, **fields: object) -> Submitted:
    return submit_work(host, [{"work_id": work_id, **fields}], room=HANDS_IN)


def taught(call: Call) -> bool:
    return isinstance(call.request, Rollout) and PLACEBO in call.request.files.text


def right_answer_of(call: Call) -> str:
    assert isinstance(call.request, Rollout)
    return str(call.request.task.judge.model_dump()["expected"])


def with_rubrics(place: Place, clock: Clock, n: int, votes: int = 1) -> Workspace:
    """Return a host whose skill has `n` held-out tasks that a rubric judges, and 10 that are computed."""
    rubric = {"kind": "rubric", "rubric": "Is it kind?", "votes": votes}
    exact = {"kind": "exact", "expected": "yes"}
    tasks = [{"prompt": f"{k}: greet", "judge": rubric, "split": "test"} for k in range(n)]
    tasks += [{"prompt": f"{k}: say yes", "judge": exact, "split": "test"} for k in range(10)]
    add_tasks(place.open(), str(place.skill), tasks)
    return server(place, clock, place.folder / "work")


def first_question(host: Workspace, job: str) -> str:
    """Return the id of the first question to a judge; attempts that come before are made."""
    while work := submit_work(host, [], job).work:
        for item in work:
            if Path(item.folder, "reply.schema.json").exists():
                return item.work_id
            handed_in(host, item.work_id, reply="Hello.")
    raise AssertionError("no judge was asked")


def test_work_that_came_back_to_its_session_is_listed_once(place: Place, host: Workspace, clock: Clock) -> None:
    job = (standing := begun(host, place.propose(host))).job_id
    clock.now += 901
    again = [item for _ in range(2) for item in submit_work(host, [], job, Room(items=16)).work]
    listed = [line.split()[0] for line in inspect(host, job).text.splitlines() if line.startswith("  w-")]
    assert sorted(listed) == sorted(item.work_id for item in again)
    assert not {item.work_id for item in standing.work} & set(listed)


def test_a_judge_that_never_answers_in_json_leaves_no_score_and_blocks_nothing(place: Place, clock: Clock) -> None:
    host = with_rubrics(place, clock, 20)
    job = evaluate_candidate(host, place.propose(host)).job_id
    work_id = first_question(host, job)
    assert [handed_in(host, work_id, reply=f"banana {n}").receipts[0].status for n in range(2)] == ["refused"] * 2
    last = handed_in(host, work_id, reply="banana").receipts[0]
    assert last.status == "accepted"
    assert last.reason.startswith("it is missing now, after 3 replies that could not be used (the reply has no JSON")
    again = handed_in(host, work_id, reply=GRADE).receipts[0]
    assert again.status == "duplicate"
    assert not Path(host.work_folders.folder(work_id)).exists()
    assert sum(row.n_missing for row in host.store.ledger.list_rows(job)) == 1


def test_replies_that_cannot_be_used_count_with_those_that_were_given_up(place: Place, clock: Clock) -> None:
    host = with_rubrics(place, clock, 20)
    job = evaluate_candidate(host, place.propose(host)).job_id
    work_id = first_question(host, job)
    handed_in(host, work_id, reply="banana")
    assert handed_in(host, work_id, failed="too hard").receipts[0].reason == "it is handed out again"
    call_id = next(lease.call_id for lease in host.store.leases.list_of(job) if lease.id == work_id)
    while submit_work(host, [], job, Room(items=MAX_ITEMS)).work:
        pass
    out = [each for each in host.store.leases.unanswered_of(job) if each.call_id == call_id]
    assert handed_in(host, out[0].id, reply="banana").receipts[0].reason.startswith("it is missing now")


def test_a_test_whose_judge_never_answers_usably_ends_without_a_score(place: Place, clock: Clock) -> None:
    rubric = {"kind": "rubric", "rubric": "Is it kind?"}
    tasks = [{"prompt": f"{k}: greet", "judge": rubric, "split": "test"} for k in range(12)]
    add_tasks(place.open(), str(place.skill), tasks)
    host = server(place, clock, place.folder / "work")
    candidate_id, rule = place.propose(host), ConfirmRule(max_pairs=4)
    job = (standing := evaluate_candidate(host, candidate_id, rule=rule, room=Room(16))).job_id
    while standing.status == "work":
        receive(host, [{"work_id": item.work_id, "reply": f"banana {n}"} for n in range(3) for item in standing.work])
        standing = evaluate_candidate(host, candidate_id, rule=rule, room=Room(16))
    assert (standing.verdict, standing.pairs_done, standing.base.n, standing.candidate.n) == ("undecided", 4, 0, 0)
    assert "pairs so far: 4, 4 of them without a score;" in inspect(host, job).text


def test_a_host_that_was_killed_with_work_out_does_not_stop_the_test_for_another_one(
    place: Place, host: Workspace, clock: Clock
) -> None:
    job = begun(host, place.propose(host)).job_id
    while submit_work(host, [], job, Room(items=4)).work:
        pass
    stuck = len(host.store.leases.unanswered_of(job))
    other, n_done = server(place, clock, place.folder / "work"), 0
    while (standing := submit_work(other, [], job)).work:
        for item in standing.work:
            handed_in(other, item.work_id, reply="1.00")
        n_done += len(standing.work)
    assert standing.status == "running"
    assert 0 < n_done <= 2 * MAX_ITEMS - stuck
    assert f"{stuck} items are out (0 to your agents)" in standing.next_step.why
    clock.now += 901
    done = driven(other, Agent(SEED), submit_work(other, [], job))
    assert done.evaluated


def test_a_second_session_that_asks_for_a_test_under_way_is_told_that_it_runs(
    place: Place, workspace: Workspace
) -> None:
    let_go = threading.Event()
    use(workspace, Scripted(lambda call: (let_go.wait(30), right_when_taught(call))[1]))
    candidate_id = place.propose(workspace)
    evaluate_candidate(workspace, candidate_id, wait_s=0.05)
    other = place.open()
    use(other, Scripted(right_when_taught))
    told = evaluate_candidate(other, candidate_id, wait_s=30)
    assert (told.status, told.verdict) == ("running", None)
    let_go.set()
    assert evaluate_candidate(workspace, candidate_id).verdict == "accept"
    assert evaluate_candidate(other, candidate_id, wait_s=30).verdict == "accept"
