"""The host's loop over MCP: what the price of a test costs, what a bad hand-in is told, how lost work is found."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tool_calls import ask_all, ask_one, error_text, make_skill

from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.server.app import SkillOptServer
from skillopt_mcp.server.tools import tools_over

TASKS = [{"prompt": f"{n}: say yes", "judge": {"kind": "exact", "expected": "yes"}, "split": "test"} for n in range(30)]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(
        tmp_path / "store.db", target="host", optimizer="host", judge="host", project=tmp_path / "project",
        environ={"SKILLOPT_WORK": str(tmp_path / "work")}, hands_out=True,
    )  # fmt: skip


@pytest.fixture
def served(tmp_path: Path, workspace: Workspace) -> SkillOptServer:
    make_skill(tmp_path)
    server = SkillOptServer(partial(tools_over, workspace))
    ask_one(server, "add_tasks", skill="ledger", tasks=TASKS)
    return server


def proposed(server: SkillOptServer, content: str) -> str:
    made = ask_one(server, "propose_edits", skill="ledger", edits=[{"op": "append", "content": content}])
    return str(made["candidate_id"])


def handed_in(server: SkillOptServer, reply: dict[str, Any]) -> dict[str, Any]:
    answer = ask_one(server, "submit_work", replies=[reply], max_items=0)
    return dict(answer["receipts"][0]) | {"next_step": answer["next_step"]}


def test_four_prices_cost_nothing_and_the_work_that_is_taken_one_share(
    workspace: Workspace, served: SkillOptServer
) -> None:
    told = [ask_one(served, "evaluate_candidate", candidate_id=proposed(served, f"- Note {n}.")) for n in range(4)]
    assert {(each["status"], len(each["work"]), each["alpha"]) for each in told} == {("work", 0, told[0]["alpha"])}
    assert workspace.store.decisions.list_tests(1) == []
    taken = ask_one(served, "submit_work", job_id=told[2]["job_id"])
    assert len(taken["work"]) == 4
    [test] = workspace.store.decisions.list_tests(1)
    assert (test.id, round(test.alpha, 6)) == (told[2]["job_id"], told[2]["alpha"])
    again = ask_one(served, "evaluate_candidate", candidate_id=told[3]["candidate_id"])
    assert again["alpha"] < told[3]["alpha"]
    assert len(workspace.store.decisions.list_tests(1)) == 1


def test_what_tasks_without_an_attempt_name_next_is_work_for_the_host_and_needs_no_key(served: SkillOptServer) -> None:
    assert ask_one(served, "list_skills")["skills"][0]["next_step"] == "record_trajectory"  # no train task
    train = [{**task, "prompt": f"{n}: say no", "split": "train"} for n, task in enumerate(TASKS[:5])]
    added = ask_one(served, "add_tasks", skill="ledger", tasks=train)["next_step"]
    listed = ask_one(served, "list_skills")["skills"][0]["next_step"]
    assert "propose_edits with rollouts 5 (a host needs no key for that)" in added
    assert listed == "propose_edits with rollouts 5, or record_trajectory"
    offered = ask_one(served, "propose_edits", skill="ledger", rollouts=5)
    taken = ask_one(served, "submit_work", job_id=offered["job_id"])
    assert (offered["status"], len(taken["work"])) == ("work", 4)


def test_an_agent_that_breaks_the_schema_is_told_how_to_mend_it(served: SkillOptServer) -> None:
    ask_one(served, "record_trajectory", skill="ledger", task="total it", hard=False, reason="no VAT")
    offered = ask_one(served, "propose_edits", skill="ledger")
    assert (offered["status"], offered["work"]) == ("work", [])
    [item] = ask_one(served, "submit_work", job_id=offered["job_id"])["work"]
    edit = {"op": "append", "content": "- Add VAT.", "sources": [1]}
    receipt = handed_in(served, {"work_id": item["work_id"], "reply": {"reasoning": "VAT", "edits": [edit]}})
    assert receipt["status"] == "refused"
    told = (
        'edits.0: "evidence" missing and "sources" not known (needed are op, evidence, possible target, content, path'
    )
    assert told in receipt["reason"]
    assert told in receipt["next_step"]
    mended = {"op": "append", "target": None, "content": "- Add VAT.", "path": "SKILL.md", "evidence": [1]}
    taken = handed_in(served, {"work_id": item["work_id"], "reply": {"reasoning": "VAT", "edits": [mended]}})
    assert taken["status"] == "accepted"


def test_an_answer_beside_a_failure_is_refused_and_the_work_stays_out(served: SkillOptServer) -> None:
    job = ask_one(served, "evaluate_candidate", candidate_id=proposed(served, "- Note."))["job_id"]
    work = ask_one(served, "submit_work", job_id=job)["work"]
    receipt = handed_in(served, {"work_id": work[0]["work_id"], "reply": "yes", "failed": "no"})
    assert receipt["status"] == "refused"
    assert "give reply, or failed, and leave out the other" in receipt["next_step"]
    shown = ask_one(served, "inspect", id=job)
    assert all(f"\n  {item['work_id']} since " in shown["text"] for item in work)
    assert handed_in(served, {"work_id": work[0]["work_id"], "reply": "yes"})["status"] == "accepted"


def test_a_job_that_was_only_told_of_says_how_it_is_begun(served: SkillOptServer) -> None:
    job = ask_one(served, "evaluate_candidate", candidate_id=proposed(served, "- Note."))["job_id"]
    [result] = ask_all(served, [("inspect", {"id": job})])
    assert error_text(result).endswith("is not begun: submit_work with it as job_id takes the first")
