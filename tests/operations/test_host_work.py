"""Work of a host: unusable replies, nothing to hand out, and resuming."""

from __future__ import annotations

import threading
from pathlib import Path

from hostwork import Clock, begun, server
from workshop import Place, right_when_taught, use

from benchmarks.host_agent import items_of
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.work import EVIDENCE
from skillopt_mcp.core.results import Proposed
from skillopt_mcp.reports.lookup import inspect
from skillopt_mcp.workspace.host_replies import receive
from skillopt_mcp.workspace.jobs import Capacity, Wait
from skillopt_mcp.workspace.workspace import Workspace


def test_work_that_came_back_to_its_session_is_listed_once(place: Place, host: Workspace, clock: Clock) -> None:
    job = (standing := begun(host, place.propose(host))).job_id
    clock.now += 901
    again = [
        item
        for _ in range(2)
        for item in items_of(
            submit_work(host.store, host.models, host.place, [], job, Wait(host.jobs, capacity=Capacity(items=6))).work
        )
    ]
    listed = [
        "-".join(line.split()[0].rsplit("/", 2)[1:])
        for line in inspect(host.store, host.place, job).text.splitlines()
        if line.startswith("  /")
    ]
    assert sorted(listed) == sorted(item.work_id for item in again)
    assert not {item.work_id for item in items_of(standing.work)} & set(listed)


def test_one_file_holds_the_skill_and_the_task_and_the_skills_other_files_lie_next_to_it(
    place: Place, host: Workspace
) -> None:
    (place.skill / "references").mkdir()
    (place.skill / "references/rates.md").write_text("VAT is 19 %.\n")
    [item, *_] = items_of(begun(host, place.propose(host)).work)
    files = {str(path.relative_to(item.folder)) for path in Path(item.folder).rglob("*") if path.is_file()}
    assert files == {"WORK.md", "skill/ledger-clerk/references/rates.md"}
    order = Path(item.folder, "WORK.md").read_text()
    text = place.main.read_text()
    assert text.partition("\n---\n")[2].strip() in order
    assert "description:" not in order, "front matter is for hosts that load the skill"
    assert "files of the skill are in `skill/ledger-clerk/`" in order


def test_one_file_holds_all_of_a_question(place: Place, host: Workspace, proposal: Proposed) -> None:
    order = Path(items_of(proposal.work)[0].folder, "WORK.md").read_text()
    parts = ["# Instructions", '"properties"', EVIDENCE, place.main.read_text()]
    assert sorted(parts, key=order.index) == parts


def test_a_test_whose_judge_never_answers_usably_waits(place: Place, clock: Clock) -> None:
    rubric = {"kind": "rubric", "rubric": "Is it kind?"}
    tasks = [{"prompt": f"{k}: greet", "judge": rubric, "split": "test"} for k in range(12)]
    opened = place.open()
    add_tasks(opened.store, opened.place, str(place.skill), tasks)
    host = server(place, clock, place.folder / "work")
    standing = begun(host, place.propose(host))
    while standing.status == "work":
        receive(
            host.store,
            host.place,
            [{"work_id": item.work_id, "reply": f"banana {n}"} for n in range(3) for item in items_of(standing.work)],
        )
        standing = submit_work(
            host.store, host.models, host.place, [], standing.job_id, Wait(host.jobs, capacity=Capacity(16))
        )
    assert standing.status == "stopped"
    assert "could not be judged" in standing.reason
    assert host.store.tests.list_attempts(standing.job_id) == []


def test_a_second_session_that_asks_for_a_test_under_way_sees_that_it_runs(place: Place, workspace: Workspace) -> None:
    let_go = threading.Event()
    use(workspace, Scripted(lambda call: (let_go.wait(30), right_when_taught(call))[1]))
    candidate_id = place.propose(workspace)
    evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id, Wait(workspace.jobs, 0.05))
    other = place.open()
    use(other, Scripted(right_when_taught))
    standing = evaluate_candidate(other.store, other.models, other.place, candidate_id, Wait(other.jobs, 30))
    assert (standing.status, standing.accepted) == ("running", None)
    let_go.set()
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id).accepted
    assert evaluate_candidate(other.store, other.models, other.place, candidate_id, Wait(other.jobs, 30)).accepted
