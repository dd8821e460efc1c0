"""Tests over MCP: how far one is and whether it accepted, nothing of what it saw, and who adopts what it did not."""

from __future__ import annotations

import json
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from full_server import LESSONS, NO, SEED, YES, Person, World, call, with_client
from mcp import Client

from benchmarks.host_agent import Agent, items_of
from skillopt_mcp.actions.promotions.consent import permit
from skillopt_mcp.core.calls import Call, Reply
from skillopt_mcp.reports.history import history
from skillopt_mcp.server import tools

FIGURES = ("solved", "gain", "units", "better", "worse", "p_bound", "verdict_")
IDLE = "Keep the receipts together with the page."


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def evaluated(world: World, name: str) -> dict[str, Any]:
    return call(world.server(), "evaluate_candidate", {"candidate_id": name})


def test_a_test_goes_on_in_the_background_and_its_author_learns_how_far_it_is_and_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "CALL_WAIT_S", 0.2)
    world, n_replies, going_on = World(tmp_path), count(), threading.Event()

    def hold(_call: Call, _reply: Reply) -> None:
        if next(n_replies) >= 20:
            going_on.wait(60)

    world.workspace.models.on_reply = hold
    candidate_id = world.propose()
    first, last = evaluated(world, candidate_id), evaluated(world, candidate_id)
    while last["attempts_done"] < 20:
        last = evaluated(world, candidate_id)
    assert (last["status"], last["accepted"], last["test"]) == ("running", None, None)
    assert (first["foreseen"]["units"], last["attempts_done"], last["foreseen"]) == (60, 20, None)
    going_on.set()
    while last["status"] == "running":
        last = evaluated(world, candidate_id)
    assert (last["accepted"], last["attempts_done"], last["next_step"]["action"]) == (True, 0, "promote_skill")


def test_no_answer_shows_more_of_a_test_than_whether_it_accepted(world: World) -> None:
    server, answers = world.server(), []
    for text in (LESSONS, IDLE):
        candidate_id = world.propose(text)
        answers.append(evaluated(world, candidate_id))
        assert evaluated(world, candidate_id) == answers[-1]
        [test] = [
            row
            for row in world.workspace.store.tests.list_of_skill(1)
            if row.version_id == world.workspace.store.candidates.get_candidate(candidate_id).version_id
        ]
        answers += [call(server, "inspect", {"id": each}) for each in (candidate_id, test.id, "ledger-clerk")]
        answers.append(call(server, "promote_skill", {"candidate_id": candidate_id}))
    good, idle = answers[0], answers[5]
    assert (good["accepted"], idle["accepted"]) == (True, False)
    assert idle["next_step"]["arguments"] == {"candidate_id": good["candidate_id"]}, "the other one waits"
    unlike = {"accepted", "candidate_id", "next_step"}
    assert {name: good[name] for name in good.keys() - unlike} == {name: idle[name] for name in idle.keys() - unlike}
    for answer in answers:
        text = json.dumps(answer)
        assert [figure for figure in FIGURES if f'"{figure}' in text] == []
        assert not any(word in text for word in ("of 100", "NO GAIN", "BETTER", "cant_tell", "not_better"))
        assert len(text.encode()) < 10_000


def test_a_persons_edit_is_tested_by_the_name_of_its_skill(world: World) -> None:
    async def ask(client: Client) -> bool:
        return (await client.call_tool("evaluate_candidate", {"candidate_id": "ledger-clerk"})).is_error

    assert with_client(world.server(), ask), "nothing was edited"
    world.main.write_text(f"{world.main.read_text()}\n{LESSONS}\n")
    edited = world.main.read_bytes()
    done = evaluated(world, "ledger-clerk")
    assert (done["accepted"], done["test"], done["next_step"]) == (True, None, None)
    assert world.main.read_bytes() == edited


@pytest.mark.parametrize(("era", "is_tested"), [("auto", False), ("legacy", True)])
def test_only_a_person_who_is_told_so_adopts_what_is_not_proven(world: World, era: str, is_tested: bool) -> None:
    candidate_id, before = world.propose(IDLE), world.main.read_bytes()
    if is_tested:
        assert evaluated(world, candidate_id)["accepted"] is False
    permit(world.workspace.store, world.workspace.place, "ledger-clerk", simulated=True)
    promote = ("promote_skill", {"candidate_id": candidate_id, "unproven": True})
    alone = call(world.server(), *promote, era)
    assert (alone["status"], "--unproven" in alone["next_step"]["command"]) == ("needs_approval", True)
    for answer, status in ((NO, "needs_approval"), (YES, "promoted")):
        assert world.main.read_bytes() == before
        person = Person(answer)
        assert call(world.server(), *promote, era, person)["status"] == status
        [asked] = person.asked
        assert "unproven" in asked.split("\n", 3)[2], "among the rows that every host shows"
    assert IDLE in world.main.read_text()
    [row] = history(world.workspace.store, world.workspace.place, "ledger-clerk").rows
    assert (row.verdict, row.by) == ("unproven", "person, dialog")
    assert "UNPROVEN" in call(world.server(), "inspect", {"id": "ledger-clerk"})["text"]


def test_a_session_that_tests_its_own_edit_promotes_it_by_a_person_alone(tmp_path: Path) -> None:
    world = World(tmp_path, "host", n_tasks=36)
    server, agent, before = world.server(), Agent(SEED), world.main.read_bytes()
    edits = [{"op": "append", "content": LESSONS}]
    proposed = call(server, "propose_edits", {"skill": str(world.skill), "edits": edits})
    promote = ("promote_skill", {"candidate_id": proposed["candidate_id"]})
    standing = call(server, "evaluate_candidate", {"candidate_id": proposed["candidate_id"]})
    assert (standing["status"], standing["work"], standing["estimate"]["by_host"]) == ("work", None, ["target"])
    job, replies = standing["job_id"], list[dict[str, str]]()
    while (standing := call(server, "submit_work", {"job_id": job, "replies": replies}))["status"] != "done":
        for item in items_of(standing["work"]):
            agent.do(item.folder)
        replies = [{"work_id": item.work_id} for item in items_of(standing["work"])]
        time.sleep(0.01 if replies else 0.1)
    done = standing["evaluated"]
    assert (done["accepted"], done["evidence"], done["same_session"], done["test"]) == (True, "host", True, None)
    permit(world.workspace.store, world.workspace.place, "ledger-clerk", simulated=True)
    assert call(server, *promote)["status"] == "needs_approval"
    assert world.main.read_bytes() == before
    person = Person(YES)
    assert call(server, *promote, person=person)["status"] == "promoted"
    [asked] = person.asked
    first_rows = asked.split("\n")[:3]
    assert ("host evidence" in first_rows[1], "session" in first_rows[2]) == (True, True)


def test_a_command_for_a_person_names_a_store_that_is_not_the_default_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = f"{LESSONS}\nSee https://elsewhere.example for more."
    made = call(
        world.server(), "propose_edits", {"skill": "ledger-clerk", "edits": [{"op": "append", "content": held}]}
    )
    given = {"candidate_id": made["candidate_id"]}

    def commands() -> list[str]:
        answers = [call(world.server(), *tool) for tool in (("evaluate_candidate", given), ("list_skills", {}))]
        found = [each["next_step"] for each in (*answers, *answers[1]["skills"])]
        return [step["command"] for step in found if step["action"] == "promote_skill"]

    promote, store = f"skillopt-mcp promote {made['candidate_id']} --simulated", str(world.workspace.store.path)
    assert commands() == [f"{promote} --store {store}"] * 3
    monkeypatch.setattr("skillopt_mcp.server.tools.store_path", lambda *_: world.workspace.store.path)
    first, *_ = tools.tools_over(world.workspace)
    assert first.fn().next_step.command == promote
