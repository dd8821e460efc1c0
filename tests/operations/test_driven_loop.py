from __future__ import annotations

from pathlib import Path

from hostwork import Clock, begun, server
from workshop import LESSONS, Place, use

from benchmarks.host_agent import items_of
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.workspace.jobs import Wait


def test_a_host_judges_rubrics_of_answers_that_a_backend_gave(place: Place, clock: Clock) -> None:
    rubric = {"kind": "rubric", "rubric": "It is right."}
    tasks = [{"prompt": f"{n}: greet", "judge": rubric, "split": "test"} for n in range(30)]
    opened = place.open()
    add_tasks(opened.store, opened.place, str(place.skill), tasks)
    host = server(place, clock, place.folder / "work")
    use(host, Scripted(lambda call: "good" if LESSONS in call.request.files.text else "bad", name="anthropic:m"))
    standing = begun(host, place.propose(host, LESSONS))
    while standing.status == "work":
        replies = []
        for item in items_of(standing.work):
            evidence = Path(item.folder, "WORK.md").read_text()
            grade = "all" if "good" in evidence.partition("## Answer")[2] else "none"
            replies.append({"work_id": item.work_id, "reply": {"reasoning": "seen", "grade": grade}})
        standing = submit_work(host.store, host.models, host.place, replies, wait=Wait(host.jobs))
    assert standing.evaluated
    assert (standing.evaluated.accepted, standing.evaluated.evidence) == (True, "host")
