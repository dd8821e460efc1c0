"""Held out: what an agent can read, in its shell or by tools and resources, has nothing of a test task or a test."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest
from console import BACKENDS, SEED, TARGET, parsed, run_forked
from mcp import Client
from mcp.shared.exceptions import MCPError

from benchmarks.agent_looks import OTHERS, REFUSED, SEALED, acting, reading, resource_names
from skillopt_mcp.actions.promotions.consent import add_root
from skillopt_mcp.backends.world import TOPICS, make_skill, make_tasks, right_answer
from skillopt_mcp.cli.command import describe_commands
from skillopt_mcp.core.skills import short
from skillopt_mcp.server.app import SkillOptServer
from skillopt_mcp.server.resources import TEMPLATES
from skillopt_mcp.server.services import services_over
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.tasks.splits import DEFAULT_SHARES
from skillopt_mcp.workspace.workspace import Workspace

MARK = "vermilion-okapi"
SKILL = "ledger-clerk"
LESSONS = "\n".join(f"- {topic.lesson}" for topic in TOPICS)


@dataclass(frozen=True)
class Trained:
    """A skill with a finished run, its promotion test and an attempt at a test task; no agent reads the `secrets`."""

    folder: Path
    names: dict[str, str]
    secrets: tuple[str, ...]

    @property
    def store(self) -> Path:
        return self.folder / "store.db"

    def run(self, line: str, out: Path) -> subprocess.CompletedProcess[str]:
        words = [word.format(**self.names, out=out) for word in line.split()]
        return run_forked(["--store", str(self.store), *words], self.folder)

    def leaked(self, *texts: str) -> list[str]:
        return [secret for secret in self.secrets for text in texts if secret in text]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    path = folder / "skills" / SKILL
    path.mkdir(parents=True)
    (path / "SKILL.md").write_bytes(make_skill(SEED).main)
    tasks = []
    for n, task in enumerate(make_tasks(90, SEED)):
        split = ("train", "val", "test")[n % 3]
        if split == "test":
            prompt = f"{task.prompt} ({MARK})"
            parts = [
                {"judge": {"kind": "exact", "expected": each}} for each in (right_answer(SEED, prompt), f"{MARK}-{n}")
            ]
            task = replace(
                task, prompt=prompt, judge=parse_judge({"kind": "weighted", "judges": parts, "threshold": 0.5})
            )
        tasks.append(replace(task, split=split))
    with Workspace(folder / "store.db") as workspace:
        add_root(workspace.store, str(path.parent))
        skill = workspace.place.skill(str(path))
        workspace.store.tasks.add_tasks(skill.id, tasks, DEFAULT_SHARES)
    run = ["--store", str(folder / "store.db"), "replay", SKILL, *BACKENDS, "--epochs", "1", "--yes", "--json"]
    done = parsed(run_forked(run, folder))
    assert done["verdict"] == "better"
    with Workspace(folder / "store.db") as workspace:
        [test] = workspace.store.tests.list_of_skill(skill.id)
        decision = workspace.store.decisions.latest_in(test.id)
        # Its judge cannot be passed, which a check says with what it expects.
        parts = [{"kind": "exact", "expected": each} for each in (MARK, "another")]
        broken = replace(tasks[2], prompt=f"Name the animal, {MARK}.", name="broken",
                         judge=parse_judge({"kind": "all", "judges": parts}))  # fmt: skip
        workspace.store.tasks.add_tasks(skill.id, [broken], DEFAULT_SHARES)
        held = next(task for task in workspace.store.tasks.list_in_use(skill.id) if task.split == "test")
    with Workspace(folder / "store.db") as workspace:
        service = services_over(workspace)
        recorded = calls(
            service_over(service), ("record_trajectory", {"skill": SKILL, "task": held.name, "answer": MARK})
        )
    (folder / "own.jsonl").write_text(
        json.dumps({"prompt": "What is 2 + 5?", "judge": {"kind": "exact", "expected": "7"}})
    )
    names = {
        "skill": SKILL, "folder": str(path), "run": done["run_id"], "candidate": done["candidate_id"], "test": test.id,
        "version": short(test.base_version), "new": short(test.version_id), "file": str(folder / "own.jsonl"),
        "trajectory": json.loads(recorded)["trajectory_id"], "target": TARGET, "optimizer": TARGET,
    }  # fmt: skip
    assert decision
    figures = ("more of 100", '"test_in_release"', '"solved"', f'"test": "{test.id}"')
    return Trained(folder, names, (MARK, decision.reason, "its promotion test", *figures))


def service_over(services: object) -> SkillOptServer:
    return SkillOptServer(lambda: services)  # type: ignore[arg-type, return-value]


def calls(server: SkillOptServer, *asked: tuple[str, dict[str, object]]) -> str:
    """Return all that tools answer, errors too."""

    async def run() -> str:
        async with Client(server) as client:
            assert {name for name, _ in asked} <= {tool.name for tool in (await client.list_tools()).tools}
            return "\n".join(
                [each.text for name, given in asked for each in (await client.call_tool(name, given)).content]
            )  # type: ignore[union-attr]

    return anyio.run(run)


@pytest.mark.parametrize("line", [line for lines in SEALED.values() for line in lines])
def test_in_a_shell_of_an_agent_nothing_shows_what_is_held_out(
    trained: Trained, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    done = trained.run(line, tmp_path)
    assert "is for a person" not in done.stderr
    assert done.stdout
    written = [file.read_text("utf-8", "replace") for file in tmp_path.rglob("*") if file.is_file()]
    assert ("{out}" in line) is bool(written)
    assert trained.leaked(done.stdout, done.stderr, *written) == []


@pytest.mark.parametrize("line", [line for lines in REFUSED.values() for line in lines])
def test_what_is_held_out_as_a_whole_is_for_a_person(
    trained: Trained, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_CI", "1")
    done = trained.run(line, tmp_path)
    assert (done.returncode, list(tmp_path.iterdir())) == (1, [])
    assert "is for a person" in done.stderr
    assert "in a terminal of your own" in done.stderr
    assert trained.leaked(done.stdout, done.stderr) == []


def test_every_command_is_one_that_shows_nothing_to_an_agent() -> None:
    assert set(describe_commands(actions=True)) == {*REFUSED, *SEALED} | OTHERS


def test_a_person_sees_all_of_it(trained: Trained, tmp_path: Path) -> None:
    for line in ("tasks list {skill}", "tasks check {skill}", "tasks export {skill}"):
        done = trained.run(line, tmp_path)
        assert MARK in done.stdout + done.stderr, line
    lines = ("show {test}", "show {run}", "show {candidate}", "show --json", "show {run} --json")
    shown = [trained.run(line, tmp_path).stdout for line in lines]
    assert trained.run("show {run} --out {out}/run", tmp_path).returncode == 0
    shown.append((tmp_path / "run" / "summary.json").read_text())
    assert {*trained.leaked(*shown), MARK} == {*trained.secrets}
    assert trained.run("store backup {out}/copy.db", tmp_path).returncode == 0
    assert MARK.encode() in (tmp_path / "copy.db").read_bytes()


def test_an_agent_may_count_the_tasks_and_read_those_of_train_and_val(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AI_AGENT", "1")
    listed = parsed(trained.run("tasks list {skill} --json", tmp_path))
    assert listed["splits"] == {"train": 30, "val": 30, "test": 31}
    assert [row["split"] for row in listed["tasks"]] == ["train", "val"] * 30
    assert "31 test tasks not shown" in trained.run("tasks list {skill}", tmp_path).stderr
    [problem] = json.loads(trained.run("tasks check {skill} --json", tmp_path).stdout)["problems"]
    assert (problem["id"], "not shown to agents" in problem["reason"]) == ("broken", True)
    shown = parsed(trained.run("show {candidate} --json", tmp_path))["candidate"]
    assert (shown["verdict"], shown["reason"]) == ("accepted", "")


@pytest.fixture
def server(trained: Trained) -> Callable[[], SkillOptServer]:
    workspace = Workspace(trained.store, target=TARGET, optimizer=TARGET, project=trained.folder, environ={})
    services = services_over(workspace)
    return lambda: service_over(services)


def test_no_tool_shows_what_is_held_out(trained: Trained, server: Callable[[], SkillOptServer]) -> None:
    asked, others = reading(trained.names), acting(trained.names, "broken", LESSONS)
    assert trained.leaked(calls(server(), *asked)) == []
    assert MARK not in calls(server(), *others)

    async def all_tools() -> set[str]:
        async with Client(server()) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert anyio.run(all_tools) == {name for name, _ in (*asked, *others)}


def test_no_resource_shows_what_is_held_out(trained: Trained, server: Callable[[], SkillOptServer]) -> None:
    names = resource_names(trained.names)
    uris = [each.uri_template.format(**names) for each in TEMPLATES]
    refused = [f"skillopt://{kind}/{names[id]}" for kind in ("candidate", "run") for id in ("test", "trajectory")]

    async def read() -> list[str]:
        async with Client(server()) as client:
            listed = [str(each.uri) for each in (await client.list_resources()).resources]
            texts = [(await client.read_resource(uri)).contents[0].text for uri in (*listed, *uris)]  # type: ignore[union-attr]
            for uri in refused:
                with pytest.raises(MCPError):
                    await client.read_resource(uri)
            return texts

    texts = anyio.run(read)
    assert (len(texts), all(texts)) == (9, True)
    assert trained.leaked(*texts) == []
