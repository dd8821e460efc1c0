"""Loading: what a host would run by loading a text is shown to a person at a terminal before the host has it."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import anyio
import pytest
from console import run_at_a_terminal, run_forked
from mcp import Client
from mcp_types import CallToolResult, TextContent

from skillopt_mcp.actions.promotions.consent import add_root
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.server.app import SkillOptServer
from skillopt_mcp.server.services import services_over
from skillopt_mcp.workspace.workspace import Workspace
from tests.fake_host import claude_lines, make_host

SKILL = "---\nname: desk\ndescription: Answers at the desk.\n---\n# Desk\n\nAnswer in one word.\n"


@pytest.mark.parametrize("answer", ["n", "y"])
def test_a_command_that_runs_by_loading_waits_for_a_person_at_a_terminal(tmp_path: Path, answer: str) -> None:
    host = make_host(tmp_path, "claude")
    host.play(*claude_lines("done", ("Skill", {"skill": "desk"}, "Launching skill: desk")))
    folder = tmp_path / "skills" / "desk"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (tmp_path / "new.md").write_text(f"{SKILL}Today is !`date +%F`.\n")
    rows = [
        {"prompt": f"Say {word}", "judge": {"kind": "exact", "expected": "done"}, "split": "test"}
        for word in ("a", "b", "c")
    ]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert run_forked(["skills", "track", str(folder)], tmp_path).returncode == 0
    assert run_forked(["tasks", "add", "desk", "tasks.jsonl"], tmp_path).returncode == 0
    target = f"claude-code:m,binary={host.path}"
    command = ["evaluate", "desk", "--file", "new.md", "--target", target, "--max-pairs", "6", "--yes"]
    script = run_forked(command, tmp_path)
    assert script.returncode != 0
    assert not (host.path.parent / "seen.json").exists(), "the host was started without a person"
    environ = {key: value for key, value in os.environ.items() if key != "CLAUDECODE"}
    code, screen = run_at_a_terminal(command, tmp_path, environ, answer)
    assert "RUNS WHILE IT IS LOADED: !`date +%F`" in screen
    assert (host.path.parent / "seen.json").exists() == (answer == "y")
    assert (code == 0) == (answer == "y")


def test_the_command_that_a_host_is_named_lets_its_test_and_promotion_go_on(tmp_path: Path) -> None:
    host = make_host(tmp_path, "claude")
    host.play(*claude_lines("done", ("Skill", {"skill": "desk"}, "Launching skill: desk")))
    folder = tmp_path / "skills" / "desk"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    target = f"claude-code:m,binary={host.path}"
    workspace = Workspace(tmp_path / "store.db", project=tmp_path)
    workspace._specs["target"] = target
    workspace.models._backends["target"] = open_backend(target)  # as if a person had it remembered
    add_root(workspace.store, str(folder.parent))
    rows = [{"prompt": f"Say {n}", "judge": {"kind": "exact", "expected": "done"}, "split": "test"} for n in range(2)]
    workspace.place.login = "a person"
    assert add_tasks(workspace.store, workspace.place, str(folder), rows).added == 2
    services = services_over(workspace)
    server = SkillOptServer(lambda: services)

    def tool(name: str, **arguments: object) -> CallToolResult:
        async def call() -> CallToolResult:
            async with Client(server) as client:
                return await client.call_tool(name, arguments)

        return anyio.run(call)

    edits = [{"op": "append", "content": "Today is !`date +%F`."}]
    made = tool("propose_edits", skill="desk", edits=edits).structured_content
    assert made
    candidate = made["candidate_id"]
    tool("evaluate_candidate", candidate_id=candidate)  # the estimate
    refused = tool("evaluate_candidate", candidate_id=candidate)
    assert refused.is_error
    [text] = [part.text for part in refused.content if isinstance(part, TextContent)]
    _, _, command = text.partition("see it at a terminal: ")
    words = [*shlex.split(command)[1:], "--max-pairs", "4", "--yes", "--store", str(tmp_path / "store.db")]
    environ = {key: value for key, value in os.environ.items() if key != "CLAUDECODE"}
    code, screen = run_at_a_terminal(words, tmp_path, environ, "y")
    assert (code, "RUNS WHILE IT IS LOADED: !`date +%F`" in screen) == (0, True), screen
    tested = tool("evaluate_candidate", candidate_id=candidate)
    assert tested.structured_content
    assert (tested.is_error, tested.structured_content["status"]) == (False, "verdict")
    stopped = tool("promote_skill", candidate_id=candidate, unproven=True).structured_content
    assert stopped
    assert stopped["status"] == "held"
    words = [*shlex.split(stopped["next_step"]["command"])[1:], "--store", str(tmp_path / "store.db")]
    code, screen = run_at_a_terminal(words, tmp_path, environ, "y")
    assert (code, "date +%F" in (folder / "SKILL.md").read_text()) == (0, True), screen
