"""Host loop: real hosts that no backend was named to run all work themselves, by fresh agents where they have them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from real_hosts import host_environment, run_claude, run_configured_codex
from scripted_model import Json, Script, Team, ToolCall, Turn
from test_real_hosts import NAME, PROGRAM, SEED, command, prepare

from benchmarks.host_agent import Agent
from skillopt_mcp.backends.catalogue import TOPICS

pytestmark = pytest.mark.hosts

MARK = "WORK-ORDER "
AT_ONCE = 8
MOST_WAITS = 100
TOOLS = ("add_tasks", "propose_edits", "evaluate_candidate", "submit_work", "promote_skill", "rollback_skill")


def opening(place: Path, skill: Path, *, deferred: bool) -> list[ToolCall]:
    """Return the calls up to a candidate; where tools are deferred, they are looked up first."""
    text = skill.read_text()
    edits = [{"op": "append", "content": f"- {topic.lesson}"} for topic in TOPICS if topic.lesson not in text]
    search = ",".join(f"mcp__skillopt__{tool}" for tool in TOOLS)
    found = [ToolCall("ToolSearch", {"query": f"select:{search}"}, server="")] if deferred else []
    return [
        *found,
        ToolCall("add_tasks", {"skill": NAME, "file": str(place / "tasks.jsonl")}),
        ToolCall("propose_edits", {"skill": NAME, "edits": edits, "reasoning": "these rules were missing"}),
    ]


def driving(place: Path, skill: Path, do: Script, *, deferred: bool = False) -> Script:
    """Return the script of a session that trains with nobody but itself; `do` turns an answer's work into calls."""
    first = opening(place, skill, deferred=deferred)
    jobs: list[str] = []

    def next_turn(results: list[Json]) -> Turn:
        if len(results) < len(first):
            return [first[len(results)]]
        last = results[-1]
        if last.get("job_id"):
            jobs.append(last["job_id"])
        if last.get("work"):
            return do(results)
        evaluated = last.get("evaluated") or {}
        if last.get("status") == "candidate":
            return [ToolCall("evaluate_candidate", {"candidate_id": last["candidate_id"]})]
        if evaluated.get("verdict") == "accept":
            return [ToolCall("promote_skill", {"candidate_id": evaluated["candidate_id"]})]
        if last.get("status") == "promoted":
            return [ToolCall("rollback_skill", {"skill": NAME})]
        if last.get("status") in ("rolled_back", "needs_approval", "refused", "stopped", "undecided"):
            return ["done"]
        if [result.get("status") for result in results[-MOST_WAITS:]] == ["running"] * MOST_WAITS:
            return ["gave up"]
        if last.get("status") == "running":
            time.sleep(0.3)
        return [ToolCall("submit_work", {"job_id": jobs[-1], "max_items": AT_ONCE})]

    return next_turn


def replying(results: list[Json]) -> Turn:
    """Do the work oneself: its answers go with the call."""
    work = results[-1]["work"]
    replies = [{"work_id": item["work_id"], "reply": Agent(SEED).do(item["folder"])} for item in work]
    return [ToolCall("submit_work", {"replies": replies, "max_items": AT_ONCE})]


def delegating(results: list[Json]) -> Turn:
    """Start a fresh agent for each piece of work, all at once."""
    orders = [f"{MARK}{item['folder']} END" for item in results[-1]["work"]]
    shared = {"description": "one piece of work", "subagent_type": "general-purpose"}
    return [ToolCall("Agent", {**shared, "prompt": order}, server="") for order in orders]


def working(order: str, results: list[Json]) -> Turn:
    """Do the work of a folder, and submit it."""
    if any("receipts" in result for result in results):
        return ["submitted"]
    folder = order.partition(" END")[0]
    if not Path(folder).is_dir():
        return ["the test has decided meanwhile, and this work was withdrawn"]
    Agent(SEED).do(folder)
    return [ToolCall("submit_work", {"replies": [{"work_id": Path(folder).name}], "max_items": 0})]


def installed(place: Path, host: str) -> None:
    """Install the server, its hooks and its skill for a host, as a person would, in its own home."""
    environment = host_environment(
        place / "home", {"CLAUDE_CONFIG_DIR": str(place / "home/.claude"), "CODEX_HOME": str(place / "home/.codex")}
    )
    done = subprocess.run(
        [PROGRAM, "--store", str(place / "store.db"), "install", host, "--hooks", "--skill", "--yes"],
        cwd=place / "project", env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def prepared(place: Path, skills: str) -> Path:
    skill = prepare(place, skills)
    command(place, "skills", "permit", str(skill.parent), "--yes")
    return skill


@pytest.mark.parametrize("variable", ["CLAUDE", "CLAUDE_OLDER"])
def test_claude_trains_by_agents_that_submit_at_once_and_no_backend_is_named(variable: str, tmp_path: Path) -> None:
    binary = os.environ.get(variable) or pytest.skip(f"{variable} names no binary: see .ci/hosts")
    skill = prepared(tmp_path, ".claude/skills")
    before = skill.read_bytes()
    installed(tmp_path, "claude-code")
    script = Team(MARK, driving(tmp_path, skill, delegating, deferred=variable == "CLAUDE"), working)
    session = run_claude(binary, tmp_path, None, script)
    assert session.exit_code == 0, session.stderr
    results = session.results()
    assert [result["status"] for result in results[-2:]] == ["promoted", "rolled_back"], results[-3:]
    assert skill.read_bytes() == before
    rows = json.loads(command(tmp_path, "history", NAME, "--json"))["rows"]
    assert [row["kind"] for row in rows] == ["rollback", "promote"]
    assert {row["by"] for row in rows} == {"standing permission"}
    done = [result for result in results if result.get("evaluated")]
    assert done[-1]["evaluated"]["evidence"] == "host-run, exposed"


def test_codex_trains_by_itself_in_its_sandbox(tmp_path: Path) -> None:
    binary = os.environ.get("CODEX") or pytest.skip("CODEX names no binary: see .ci/hosts")
    skill = prepared(tmp_path, ".agents/skills")
    before = skill.read_bytes()
    script = driving(tmp_path, skill, replying)
    session = run_configured_codex(binary, tmp_path, "", script, lambda: installed(tmp_path, "codex"))
    assert session.exit_code == 0, session.stderr
    results = session.results()
    assert [result["status"] for result in results[-2:]] == ["promoted", "rolled_back"], results[-3:]
    assert {result["skill_path"] for result in results[-2:]} == {str(skill.parent)}
    assert skill.read_bytes() == before
    rows = json.loads(command(tmp_path, "history", NAME, "--json"))["rows"]
    assert [row["kind"] for row in rows] == ["rollback", "promote"]
    assert {row["by"] for row in rows} == {"standing permission"}
