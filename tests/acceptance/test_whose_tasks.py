"""Whose tasks: what an agent adds waits for a person, and a permission covers no test on what no person has seen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult

from tests.acceptance.doors import PROMOTED
from tests.acceptance.doors_care import AGENT_SHELLS, UNAPPROVED, Desk, Server, status, tasks_of


@pytest.fixture
def bare(tmp_path: Path, home: Path) -> Desk:
    """Return a desk without tasks, whose permission covers a simulation, too."""
    bare = Desk(tmp_path)
    bare.facts("skills track", bare.skill_path)
    bare.facts("skills permit", bare.skill_path, simulated=True, yes=True)
    return bare


def splits(desk: Desk) -> dict[str, int]:
    return desk.facts("tasks list", desk.skill_path)["splits"]


def verdict_of(server: Server, candidate_id: str) -> Any:
    while (found := server.tool("evaluate_candidate", candidate_id=candidate_id))["status"] == "running":
        pass
    return found


def review(desk: Desk, answer: str) -> str:
    done = desk.at_terminal("tasks review", desk.skill_path, answer=answer, question="[k]eep")
    assert done.exit_code == 0, done.out
    return done.out


def add_as_person(desk: Desk, rows: list[dict[str, Any]]) -> None:
    done = desk.at_terminal("tasks add", desk.skill_path, desk.write_tasks(rows))
    assert done.exit_code == 0, done.out


def test_an_agents_own_tasks_put_nothing_live_until_a_person_has_looked(bare: Desk) -> None:
    before = bare.files()
    with bare.serve(target=bare.target, optimizer=bare.target) as server:
        *rows, last = tasks_of(62)
        for part in (rows, [last]):
            added = server.tool("add_tasks", skill=str(bare.skill_path), tasks=part)
        assert added["splits"] == {"train": 62, "val": 0, "test": 0}
        assert [note["code"] for note in added["notes"]][:1] == ["waiting"]
        assert added["next_step.command"].startswith("skillopt-mcp tasks review ")
        assert server.tool("list_skills")["skills"][0]["next_step"]["action"] == "tasks review"
        candidate = bare.learned(server)
        with pytest.raises(Exception, match="no held-out task"):
            verdict_of(server, candidate)
        assert (status(server, "promote_skill", candidate_id=candidate), bare.files()) == ("refused", before)
        # One is skipped, one dropped, one kept, and a quit keeps the decisions; then all that came with the first.
        assert "1 kept, 1 dropped, 60 not looked at" in review(bare, "s\nd\nk\nq\n")
        assert "59 kept, 0 dropped, 1 not looked at" in review(bare, "a\nq\n")
        assert "1 kept, 0 dropped, 0 not looked at" in review(bare, "k\n")
        found = splits(bare)
        assert sum(found.values()) == 61
        assert found["test"] == pytest.approx(2 * found["train"], abs=3)
        assert verdict_of(server, candidate).verdict == "better"
        assert status(server, "promote_skill", candidate_id=candidate) == PROMOTED
    assert bare.verify() == 0


def test_a_test_on_tasks_that_nobody_looked_at_runs_and_is_under_no_permission(bare: Desk) -> None:
    before = bare.files()
    bare.facts("tasks add", bare.skill_path, bare.write_tasks(tasks_of()))  # nobody watches: as in CI
    assert splits(bare) == {"train": 18, "val": 0, "test": 36}
    gap = "no person has looked at 36 of its 36 held-out tasks"
    with bare.dialog(None, target=bare.target, optimizer=bare.target) as server:
        candidate = bare.learned(server)
        planned = bare.facts("evaluate", candidate, target=bare.target, dry_run=True)
        assert planned["foreseen.beyond_permission"][0].startswith(gap)
        assert verdict_of(server, candidate).verdict == "better"
        refused = server.tool("promote_skill", candidate_id=candidate)
        assert (refused["status"], refused["reason"].startswith(gap)) == (UNAPPROVED, True)
    assert bare.files() == before
    shown = bare.at_terminal("promote", candidate, simulated=True, answer="n\n")
    assert "TASKS NOT LOOKED AT: 36 of 36" in shown.out
    review(bare, "a\n")
    assert splits(bare) == {"train": 18, "val": 0, "test": 36}, "what did not wait stays in its split"
    with bare.serve() as server:
        assert status(server, "promote_skill", candidate_id=candidate) == PROMOTED


def test_the_third_row_of_a_dialog_says_how_many_tasks_nobody_looked_at(bare: Desk) -> None:
    bare.facts("skills revoke", bare.skill_path)
    rows = tasks_of()
    bare.facts("tasks add", bare.skill_path, bare.write_tasks(rows[:18]))
    add_as_person(bare, rows[18:])
    with bare.dialog(ElicitResult(action="cancel"), target=bare.target, optimizer=bare.target) as server:
        candidate = bare.learned(server)
        assert verdict_of(server, candidate).verdict == "better"
        server.tool("promote_skill", candidate_id=candidate)
        [question] = server.questions
    assert question.splitlines()[2].startswith("TASKS NOT LOOKED AT: 12 of 36")


@pytest.mark.parametrize("shell", ["", *AGENT_SHELLS[:1]], ids=["unattended", "agent"])
def test_where_a_person_has_tasks_the_others_wait_and_change_no_unit(bare: Desk, shell: str) -> None:
    rows = [{**row, "group": "mine"} if row["id"] in ("q1", "q2") else row for row in tasks_of()]
    add_as_person(bare, rows)
    judge = {"kind": "exact", "expected": "mine"}
    theirs = [
        {**rows[0], "id": "another judge", "judge": judge, "split": "test"},
        {**rows[1], "id": "another judge of a held-out one", "judge": judge},
        {
            **rows[3],
            "id": "its group",
            "prompt": "A prompt that is quite unlike the others, isn't it?",
            "group": "mine",
        },
        {**rows[4], "id": "nearly the same", "prompt": f"{rows[4]['prompt']} please", "split": "test"},
        {**rows[5], "id": "the same"},
    ]
    with bare.serve(target=bare.target, optimizer=bare.target) as server:
        candidate = bare.learned(server)
    units = bare.facts("evaluate", candidate, target=bare.target, dry_run=True)["foreseen.units"]
    if shell:
        bare.environ[shell] = "1"
    done = bare.run("tasks add", bare.skill_path, bare.write_tasks(theirs), json=True)
    assert (done.exit_code, done.facts["added"], done.facts["duplicates"]) == (1, 1, 1)
    assert [each["index"] for each in done.facts["rejected"]] == [0, 1, 2]
    assert "tasks review" in done.facts["next_step.command"]
    removed = bare.run("tasks remove", bare.skill_path, "q1", yes=True)
    assert (removed.exit_code, "person" in removed.err) == (1, True)
    bare.environ.pop(shell, None)
    assert splits(bare) == {"train": 19, "val": 0, "test": 36}
    assert bare.facts("evaluate", candidate, target=bare.target, dry_run=True)["foreseen.units"] == units
    # A task that takes the id and the place of a removed one is another task.
    assert bare.at_terminal("tasks remove", bare.skill_path, "q4").exit_code == 0
    if shell:
        bare.environ[shell] = "1"
    bare.facts("tasks add", bare.skill_path, bare.write_tasks([{**rows[4], "judge": judge}]))
    bare.environ.pop(shell, None)
    assert splits(bare) == {"train": 20, "val": 0, "test": 35}


def test_what_a_person_adds_that_waits_is_theirs(bare: Desk) -> None:
    rows = tasks_of(9)
    with bare.serve() as server:
        server.tool("add_tasks", skill=str(bare.skill_path), tasks=rows)
    add_as_person(bare, rows)
    assert splits(bare) == Counter(row["split"] for row in rows) | {"val": 0}
    assert bare.at_terminal("tasks review", bare.skill_path).out.startswith("0 kept")


@pytest.mark.parametrize("shell", ["", *AGENT_SHELLS])
def test_only_a_person_at_a_terminal_reviews(bare: Desk, shell: str) -> None:
    bare.facts("tasks add", bare.skill_path, bare.write_tasks(tasks_of(3)))
    if shell:
        bare.environ[shell] = "1"
        done = bare.at_terminal("tasks review", bare.skill_path, question="[k]eep", answer="a\n")
    else:
        done = bare.run("tasks review", bare.skill_path, stdin="a\n")
    assert done.exit_code == 1
    assert "terminal" in done.out + done.err
    bare.environ.pop(shell, None)
    assert "3 left" in review(bare, "q\n")


def test_an_agent_with_no_held_out_task_is_sent_to_the_person_and_not_to_a_test(bare: Desk) -> None:
    with bare.serve(target=bare.target, optimizer=bare.target) as server:
        server.tool("add_tasks", skill=str(bare.skill_path), tasks=tasks_of(3))
        edits = [{"op": "append", "content": "Be brief."}]
        proposed = server.tool("propose_edits", skill=str(bare.skill_path), edits=edits)
        candidate = proposed["candidate_id"]
        refused = server.tool("promote_skill", candidate_id=candidate)
        for answer in (proposed, refused, server.tool("inspect", id=candidate)):
            assert answer["next_step.action"] == "tasks review", answer
        with pytest.raises(Exception, match="skillopt-mcp tasks review "):
            verdict_of(server, candidate)
        review(bare, "a\n")
        assert server.tool("inspect", id=candidate)["next_step.action"] == "evaluate_candidate"
