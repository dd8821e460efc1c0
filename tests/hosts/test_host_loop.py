"""Host loop: real hosts that no backend was named to run all work themselves, by fresh agents where they have them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from real_hosts import host_environment, run_claude, run_configured_codex
from scripted_model import Json, Script, Team, ToolCall, Turn
from test_real_hosts import NAME, PROGRAM, SEED, command, prepare

from benchmarks.host_agent import Agent, Item, items_of
from skillopt_mcp.backends.world import TOPICS

pytestmark = pytest.mark.hosts

MARK = "WORK-ORDER "
AT_ONCE = 8
MOST_WAITS = 100
ENDS = ("needs_approval", "refused", "stopped")
WRITING = "mcp__skillopt__promote_skill"
TOOLS = ("add_tasks", "propose_edits", "evaluate_candidate", "submit_work", "promote_skill")
Doing = Callable[[list[Item], list[str]], Turn]


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


def driving(place: Path, skill: Path, do: Doing, *, deferred: bool = False) -> Script:
    """Return the script of a session that trains with nobody but itself.

    `do` turns work, and what the host's own tools have said since it came, into calls; into none when it is done.
    """
    first = opening(place, skill, deferred=deferred)
    jobs: list[str] = []

    def next_turn(results: list[Json]) -> Turn:
        if len(results) < len(first):
            return [first[len(results)]]
        last = results[-1]
        if last.get("job_id"):
            jobs.append(last["job_id"])
        came = max((at for at, result in enumerate(results) if "work" in result), default=0)
        since = [result["text"] for result in results[came + 1 :] if set(result) == {"text"}]
        if len(since) == len(results) - came - 1 and (turn := do(items_of(results[came].get("work")), since)):
            return turn
        evaluated = last.get("evaluated") or {}
        if last.get("status") == "candidate":
            return [ToolCall("evaluate_candidate", {"candidate_id": last["candidate_id"]})]
        if evaluated.get("accepted"):
            return [ToolCall("promote_skill", {"candidate_id": evaluated["candidate_id"]})]
        if evaluated.get("accepted") is False or last.get("status") in ("promoted", *ENDS):
            return ["done"]
        if [result.get("status") for result in results[-MOST_WAITS:]] == ["running"] * MOST_WAITS:
            return ["gave up"]
        if last.get("status") == "running":
            time.sleep(0.3)
        return [ToolCall("submit_work", {"job_id": jobs[-1], "max_items": AT_ONCE})]

    return next_turn


def by_oneself(work: list[Item], said: list[str]) -> Turn:
    """Do the work with the host's own shell, in its sandbox: read all of it, then write every answer."""
    folders = [item.folder for item in work]
    if not said:
        return [shell(f"cat {folder}/WORK.md") for folder in folders]
    if len(said) == len(work):
        answers = [Agent(SEED).attempt(text) for text in said]
        return [shell(f"echo {each} > {folder}/answer.md") for each, folder in zip(answers, folders, strict=True)]
    return []


def shell(command: str) -> ToolCall:
    return ToolCall("exec_command", {"cmd": command}, server="")


def delegating(work: list[Item], said: list[str]) -> Turn:
    """Start a fresh agent, of the kind that comes with us, for each piece of work, all at once."""
    shared = {"description": "one piece of work", "subagent_type": "skillopt-worker"}
    orders = [] if said else [f"{MARK}{item.folder} END" for item in work]
    return [ToolCall("Agent", {**shared, "prompt": order}, server="") for order in orders]


def working(order: str, results: list[Json]) -> Turn:
    """Do the work of a folder with the host's own tools alone, one after the other."""
    folder = order.partition(" END")[0]
    read = [shown(result) for result in results]
    if not read:
        return [ToolCall("Read", {"file_path": f"{folder}/WORK.md"}, server="")]
    if len(read) == 1:
        answer = Agent(SEED).attempt(read[0])
        return [ToolCall("Write", {"file_path": f"{folder}/answer.md", "content": answer}, server="")]
    return ["done"]


def shown(result: Json) -> str:
    """Return the text of a file as it was before the host's tool numbered its lines and added words of its own."""
    text = str(result.get("text", "")).partition("<system-reminder>")[0]
    return re.sub(r"^ *\d+(?:→|\t|$)", "", text, flags=re.MULTILINE).rstrip()


def installed(place: Path, host: str, binary: str) -> None:
    """Install the server, its hooks and its skill for a host, as a person would, in its own home."""
    (place / "bin").mkdir()
    (place / "bin" / ("claude" if host == "claude-code" else host)).symlink_to(binary)
    environment = host_environment(
        place / "home", {"CLAUDE_CONFIG_DIR": str(place / "home/.claude"), "CODEX_HOME": str(place / "home/.codex")}
    )
    environment["PATH"] = f"{place / 'bin'}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        [PROGRAM, "--store", str(place / "store.db"), "install", host, "--hooks", "--skill", "--sub-agents", "--yes"],
        cwd=place / "project", env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def prepared(place: Path, skills: str) -> Path:
    skill = prepare(place, skills)
    command(place, "skills", "permit", str(skill.parent), "--yes")
    return skill


def a_person_decides(place: Path, skill: Path, before: bytes, results: list[Json]) -> Json:
    """Return the end of a test that was accepted, once a person, whom no permission replaces, has promoted it."""
    assert results[-1].get("status") == "needs_approval", results[-3:]
    assert skill.read_bytes() == before
    [*_, done] = [result["evaluated"] for result in results if result.get("evaluated")]
    command(place, "promote", done["candidate_id"], "--yes")
    assert skill.read_bytes() != before
    command(place, "rollback", NAME, "--yes")
    assert skill.read_bytes() == before
    rows = json.loads(command(place, "show", NAME, "--json"))["history"]["rows"]
    assert [(row["kind"], row["verdict"]) for row in rows][-1] == ("promote", "better")
    return dict(done)


@pytest.mark.parametrize("variable", ["CLAUDE", "CLAUDE_OLDER"])
def test_claude_trains_by_agents_that_call_no_tool_of_the_server_and_no_backend_is_named(
    variable: str, tmp_path: Path
) -> None:
    binary = os.environ.get(variable) or pytest.skip(f"{variable} names no binary: see .ci/hosts")
    skill = prepared(tmp_path, ".claude/skills")
    before = skill.read_bytes()
    installed(tmp_path, "claude-code", binary)
    script = Team(MARK, driving(tmp_path, skill, delegating, deferred=variable == "CLAUDE"), working)
    # The work is done with what install allowed; a person allows the tool that writes a skill, for themselves.
    session = run_claude(binary, tmp_path, None, script, allowed=WRITING)
    assert session.exit_code == 0, session.stderr
    results = session.results()
    evaluated = a_person_decides(tmp_path, skill, before, results)
    assert (evaluated["evidence"], evaluated["test"]) == ("host", None)


def test_codex_trains_by_itself_in_its_sandbox(tmp_path: Path) -> None:
    binary = os.environ.get("CODEX") or pytest.skip("CODEX names no binary: see .ci/hosts")
    skill = prepared(tmp_path, ".agents/skills")
    before = skill.read_bytes()
    script = driving(tmp_path, skill, by_oneself)
    session = run_configured_codex(binary, tmp_path, "", script, lambda: installed(tmp_path, "codex", binary))
    assert session.exit_code == 0, session.stderr
    results = session.results()
    assert a_person_decides(tmp_path, skill, before, results)["same_session"] is True


@pytest.mark.parametrize("variable", ["CLAUDE", "CLAUDE_OLDER"])
def test_what_install_allows_claude_is_its_work_and_neither_to_write_a_skill_nor_to_read_elsewhere(
    variable: str, tmp_path: Path
) -> None:
    binary = os.environ.get(variable) or pytest.skip(f"{variable} names no binary: see .ci/hosts")
    prepare(tmp_path, ".claude/skills")
    (tmp_path / "elsewhere.txt").write_text("no folder of work\n")
    installed(tmp_path, "claude-code", binary)
    search = ",".join(f"mcp__skillopt__{tool}" for tool in ("list_skills", "promote_skill", "rollback_skill"))
    calls = [
        *([ToolCall("ToolSearch", {"query": f"select:{search}"}, server="")] if variable == "CLAUDE" else []),
        ToolCall("list_skills", {}),
        ToolCall("promote_skill", {"candidate_id": "c-000000000000"}),
        ToolCall("rollback_skill", {"skill": NAME}),
        ToolCall("Read", {"file_path": str(tmp_path / "elsewhere.txt")}, server=""),
    ]

    def next_turn(results: list[Json]) -> Turn:
        return [calls[len(results)]] if len(results) < len(calls) else ["done"]

    listed, *denied = run_claude(binary, tmp_path, None, next_turn, allowed="").results()[-4:]
    assert [row["name"] for row in listed["skills"]] == [NAME]
    assert all("permission" in result["text"] for result in denied), denied
