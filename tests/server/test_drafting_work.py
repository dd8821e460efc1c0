"""Drafting as work: a host's agents draft tasks, which wait for a person; no backend is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tool_calls import connected

from benchmarks.host_agent import items_of
from benchmarks.repositories import make_repositories
from skillopt_mcp.server.app import Services, SkillOptServer
from skillopt_mcp.server.tools import tools_over
from skillopt_mcp.workspace.workspace import Workspace
from tests.drafting import Drafter, make_skill


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    return make_skill(tmp_path / "project" / ".claude" / "skills" / "ship-notes")


@contextmanager
def serving(place: Path) -> Iterator[SkillOptServer]:
    """Lend a server of a host without a backend."""
    with Workspace(
        place / "store.db", target="host", optimizer="host", judge="host", project=place / "project",
        environ={"SKILLOPT_WORK": str(place / "work")}, hands_out=True,
    ) as workspace:  # fmt: skip
        workspace.place.caller = "agent"
        yield SkillOptServer(lambda: Services(tools_over(workspace)))


def mine(place: Path, drafter: Callable[[str], str], stop_after: int = 99) -> list[dict[str, Any]]:
    """Return the answers to add_tasks and submit_work, until all is done, or so many answers were written."""

    async def ask(client: Client) -> list[dict[str, Any]]:
        async def call(tool: str, **arguments: object) -> dict[str, Any]:
            result = await client.call_tool(tool, arguments)
            assert result.structured_content, result.content
            return result.structured_content

        answers, left = [await call("add_tasks", skill="ship-notes", source="skill")], stop_after
        while answers[-1]["status"] == "work" and left:
            for item in items_of(answers[-1].get("work"))[:left]:
                order = (Path(item.folder) / "WORK.md").read_text()
                (Path(item.folder) / "answer.md").write_text(drafter(order))
                left -= 1
            answers.append(await call("submit_work", job_id=answers[0]["job_id"]))
        return answers

    with serving(place) as server:
        return connected(server, ask)


def test_a_hosts_agents_draft_tasks_after_the_user_was_told_how_many_it_takes(tmp_path: Path, skill: Path) -> None:
    drafter = Drafter()
    estimate, *later = mine(tmp_path, drafter)
    assert (estimate["status"], estimate["work"], estimate["next_step"]["action"]) == ("work", None, "submit_work")
    assert "takes up to 9 agent runs: ask the user first" in estimate["next_step"]["why"]
    done = later[-1]
    assert (done["status"], done["added"]["added"], drafter.n_asked) == ("done", 18, 6)
    assert done["next_step"]["action"] == "tasks review"
    assert sum(done["added"]["drafted"].values()) == 18
    with Workspace(tmp_path / "store.db") as workspace:
        tasks = workspace.store.tasks.list_in_use(workspace.place.skill(str(skill)).id)
        assert [(task.waits, task.looked_at, task.split) for task in tasks] == [(True, False, "train")] * 18
    assert mine(tmp_path, drafter)[0]["duplicates"] == 18
    assert drafter.n_asked == 6


def test_a_server_that_ended_meanwhile_asks_nothing_twice(tmp_path: Path, skill: Path) -> None:
    drafter = Drafter(lambda task, text: task if "cannot be used" in text else {**task, "accepted": ""})
    mine(tmp_path, drafter, stop_after=4)
    done = mine(tmp_path, drafter)[-1]
    # Six questions, and three for what failed: all drafts of these are usable.
    assert (done["added"]["added"], drafter.n_asked) == (18, 9)
    assert len(done["added"]["dropped"]) == done["added"]["n_rejected"] == 0


def test_what_an_agent_is_shown_of_it_holds_nothing_that_is_held_out(tmp_path: Path, skill: Path) -> None:
    with Workspace(tmp_path / "store.db") as workspace:
        rows = [
            {"prompt": f"sealed {n}?", "judge": {"kind": "exact", "expected": f"hush {n}"}, "split": "test"}
            for n in "ab"
        ]
        from skillopt_mcp.actions.tasks import add_tasks

        add_tasks(workspace.store, workspace.place, str(skill), rows)
    guess = {"prompt": "sealed a?", "expected": ["hush a"], "accepted": "hush a", "rejected": "loud a"}
    drafter, shown = Drafter(lambda task, text: {**task, **guess}), list[str]()
    answers = mine(tmp_path, lambda order: shown.append(order) or drafter(order))
    assert not any("hush" in order for order in shown[:6])
    assert (answers[-1]["added"]["added"], answers[-1]["added"]["n_rejected"]) == (0, 18)
    assert "hush" not in json.dumps(answers)
    assert "sealed" not in json.dumps(answers)


def test_nothing_to_draft_from_is_said(tmp_path: Path, skill: Path) -> None:
    async def ask(client: Client) -> list[Any]:
        return [
            await client.call_tool("add_tasks", {"skill": "ship-notes", "source": "sessions"}),
            await client.call_tool("submit_work", {"job_id": "m-1-skill"}),
            await client.call_tool("submit_work", {"job_id": "m-9-skill-12345678"}),
            await client.call_tool("add_tasks", {"skill": "ship-notes", "source": "skill", "file": "x.json"}),
        ]

    with serving(tmp_path) as server:
        results = connected(server, ask)
    assert all(result.is_error for result in results)
    said = [result.content[0].text for result in results]
    assert "no session" in said[0]
    assert "there is no job" in said[1]
    assert "give one of tasks, file and source" in said[3]


def test_the_next_step_of_a_correction_is_to_draft_its_task(tmp_path: Path, skill: Path) -> None:
    async def ask(client: Client) -> list[dict[str, Any]]:
        said = {"skill": str(skill), "task": "Write the line.", "answer": "- Gone", "correction": "say BREAKING"}
        recorded = (await client.call_tool("record_trajectory", said)).structured_content
        step = recorded["next_step"]
        work = (await client.call_tool(step["action"], step["arguments"])).structured_content
        again = (await client.call_tool("submit_work", work["next_step"]["arguments"])).structured_content
        return [recorded, work, again]

    with serving(tmp_path) as server:
        recorded, work, again = connected(server, ask)
        assert (recorded["next_step"]["action"], work["status"]) == ("add_tasks", "work")
        assert recorded["next_step"]["command"].startswith("skillopt-mcp tasks mine ")
        [item] = items_of(again["work"])
        assert "say BREAKING" in (Path(item.folder) / "WORK.md").read_text()


def test_the_commits_of_the_skills_repository_become_tasks_without_work(tmp_path: Path, skill: Path) -> None:
    made = make_repositories(tmp_path / "made")["releases"]
    (made / ".git").rename(tmp_path / "project" / ".git")

    async def ask(client: Client) -> Any:
        return (await client.call_tool("add_tasks", {"skill": "ship-notes", "source": "repo"})).structured_content

    (skill / "SKILL.md").write_text((skill / "SKILL.md").read_text().replace("```", ""))
    with serving(tmp_path) as server:
        answer = connected(server, ask)
    assert answer["dropped"] == []
    assert (answer["status"], answer["added"], answer["drafted"]) == ("done", 4, {"release": 4})
    assert "basket_5" not in json.dumps(answer)
