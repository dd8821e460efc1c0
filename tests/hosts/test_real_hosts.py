"""Real hosts: Claude Code and Codex train a skill through the server, from the first record to the changed file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from real_hosts import Session, host_environment, run_claude, run_codex
from scripted_model import Json, Script, ToolCall, Turn

from benchmarks.doors import run_as_person
from skillopt_mcp.backends.world import TOPICS, make_skill, make_tasks
from skillopt_mcp.core.judging import judge_json

pytestmark = pytest.mark.hosts

SEED = 11
N_TASKS = 36
NAME = "ledger-clerk"
PROGRAM = str(Path(sys.executable).with_name("skillopt-mcp"))


@dataclass(frozen=True)
class Host:
    """One host: the variable that names its binary, how it is run, and where in a project it looks for skills."""

    variable: str
    run: Callable[[str, Path, list[str], Script], Session]
    skills: str


HOSTS = {
    "claude": Host("CLAUDE", run_claude, ".claude/skills"),
    "older-claude": Host("CLAUDE_OLDER", run_claude, ".claude/skills"),
    "codex": Host("CODEX", run_codex, ".agents/skills"),
}


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> Host:
    found: Host = HOSTS[request.param]
    if not os.environ.get(found.variable):
        pytest.skip(f"{found.variable} names no binary: see .ci/hosts")
    return found


def command(place: Path, *arguments: str) -> str:
    """Return what a person's command prints, run in the project of `place`."""
    environment = host_environment(place / "home", {"SKILLOPT_STORE": str(place / "store.db")})
    done = run_as_person([PROGRAM, *arguments], adds=True, cwd=place / "project", env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def prepare(place: Path, skills: str) -> Path:
    """Return a skill of the simulated world in a new project, with its tasks, which a person has added."""
    folder = place / "project" / skills / NAME
    folder.mkdir(parents=True)
    (place / "home").mkdir()
    (folder / "SKILL.md").write_bytes(make_skill(SEED).main)
    tasks = [{"prompt": task.prompt, "judge": json.loads(judge_json(task.judge))} for task in make_tasks(N_TASKS, SEED)]
    (place / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    command(place, "tasks", "add", str(folder), str(place / "tasks.jsonl"))
    return folder / "SKILL.md"


def training(place: Path, skill: Path) -> Script:
    """Return the script of a session that records, adds tasks, proposes, evaluates to the end and promotes."""
    text = skill.read_text()
    lessons = [topic.lesson for topic in TOPICS if topic.lesson not in text]
    edits = [{"op": "append", "content": f"- {lesson}"} for lesson in lessons]
    opening = [
        ToolCall(
            "record_trajectory", {"skill": NAME, "task": "Close page 1", "hard": False, "reason": "rounded early"}
        ),
        ToolCall("record_trajectory", {"skill": NAME, "task": "Close page 2", "hard": True, "answer": '{"sum": 3}'}),
        ToolCall("add_tasks", {"skill": NAME, "file": str(place / "tasks.jsonl")}),
        ToolCall("propose_edits", {"skill": NAME, "edits": edits, "reasoning": "these rules were missing"}),
    ]

    def next_turn(results: list[Json]) -> Turn:
        if len(results) < len(opening):
            return [opening[len(results)]]
        last = results[-1]
        if last.get("status") in ("candidate", "running"):
            return [ToolCall("evaluate_candidate", {"candidate_id": last["candidate_id"]})]
        if last.get("accepted"):
            return [ToolCall("promote_skill", {"candidate_id": last["candidate_id"]})]
        return ["done"]

    return next_turn


def test_a_host_trains_a_skill_from_the_first_record_to_the_changed_file(host: Host, tmp_path: Path) -> None:
    skill = prepare(tmp_path, host.skills)
    before = skill.read_bytes()
    command(tmp_path, "skills", "permit", str(skill.parent), "--simulated", "--yes")
    server = [PROGRAM, "serve", "--store", str(tmp_path / "store.db"), "--target", f"simulated:honest,seed={SEED}"]
    session = host.run(os.environ[host.variable], tmp_path, server, training(tmp_path, skill))
    assert session.exit_code == 0, session.stderr
    results = session.results()
    assert [result.get("n_new") for result in results[:2]] == [1, 2], results
    assert results[2].get("duplicates") == N_TASKS, results
    # The session wrote the edit itself: no permission covers what came from no rollout of ours.
    assert results[-1].get("status") == "needs_approval", results
    assert skill.read_bytes() == before
    made = next(result["candidate_id"] for result in results if result.get("candidate_id"))
    command(tmp_path, "promote", made, "--simulated", "--yes")
    after = skill.read_text()
    assert after.encode() != before
    assert [topic.name for topic in TOPICS if topic.lesson not in after] == []
    [change] = json.loads(command(tmp_path, "show", NAME, "--json"))["history"]["rows"]
    assert (change["kind"], change["verdict"], change["version"]) == ("promote", "better", results[-1]["version"])
    assert change["by"] == "person, terminal (root)"


def test_without_a_permission_a_host_changes_nothing(host: Host, tmp_path: Path) -> None:
    skill = prepare(tmp_path, host.skills)
    before = skill.read_bytes()
    server = [PROGRAM, "serve", "--store", str(tmp_path / "store.db"), "--target", f"simulated:honest,seed={SEED}"]
    session = host.run(os.environ[host.variable], tmp_path, server, training(tmp_path, skill))
    assert session.exit_code == 0, session.stderr
    assert session.results()[-1].get("status") == "needs_approval", session.results()
    assert skill.read_bytes() == before
