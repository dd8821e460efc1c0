"""Dialogs: what a person in front of a real host sees of a question before a live file changes, and what a yes does."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_anthropic import Messages
from fake_openai import Responses
from real_hosts import CODEX_CONFIG, LOOPBACK_KEY, claude_settings, codex_server, folders, host_environment
from scripted_model import Json, Script, ToolCall, Turn, serving
from terminals import Terminal, in_terminal
from test_host_approvals import LESSONS, SEED, prepare

from skillopt_mcp.backends.world import make_skill

pytestmark = pytest.mark.hosts

PROGRAM = str(Path(sys.executable).with_name("skillopt-mcp"))
TITLE = "I have read the change: write it"
ENTER, SPACE, DOWN = "\r", " ", "\x1b[B"
CLAUDE_TICK, CLAUDE_CURSOR = "☒", "❯"
END = "The model has come to an end"


def main_file(place: Path) -> bytes:
    return (place / "project/skills/ledger-clerk/SKILL.md").read_bytes()


def binary(host: str) -> str:
    if not os.environ.get(host):
        pytest.skip(f"{host} names no binary: see .ci/hosts")
    return os.environ[host]


def promoting(candidate_id: str) -> Script:
    """Return a model that promotes once it has seen the server answer: before that, a host may lose a question."""

    turns: list[Turn] = [[ToolCall("list_skills", {})], [ToolCall("promote_skill", {"candidate_id": candidate_id})]]

    def next_turn(results: list[Json]) -> Turn:
        return [*turns, [END]][len(results)]  # type: ignore[return-value]

    return next_turn


@contextmanager
def claude(host: str, place: Path, candidate_id: str) -> Iterator[Terminal]:
    """Run Claude Code as a person does who has been through its first questions."""
    home, project = folders(place)
    told = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [LOOPBACK_KEY], "rejected": []},
        "projects": {str(project): {"hasTrustDialogAccepted": True}},
    }
    (home / ".claude").mkdir()
    (home / ".claude" / ".claude.json").write_text(json.dumps(told))
    server = {"command": PROGRAM, "args": ["serve", "--store", str(place / "store.db")]}
    config = place / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"skillopt": server}}))
    command = [binary(host), "--model", "claude-sonnet-4-5", "--mcp-config", str(config), "--strict-mcp-config"]
    command += ["--allowedTools=mcp__skillopt", "Use the skillopt tools."]
    with serving(Messages, promoting(candidate_id)) as model:
        environment = host_environment(home, claude_settings(home, model.port))
        with in_terminal(command, project, environment) as terminal:
            yield terminal


@contextmanager
def codex(place: Path, candidate_id: str) -> Iterator[Terminal]:
    """Run Codex as a person does who trusts the folder."""
    home, project = folders(place)
    (home / ".codex").mkdir()
    with serving(Responses, promoting(candidate_id)) as model:
        config = CODEX_CONFIG.replace("PORT", str(model.port)).replace('"never"', '"on-request"')
        config += codex_server([PROGRAM, "serve", "--store", str(place / "store.db")])
        config += f'\n[projects.{json.dumps(str(project))}]\ntrust_level = "trusted"\n'
        (home / ".codex" / "config.toml").write_text(config)
        environment = host_environment(home, {"CODEX_HOME": str(home / ".codex"), "LOOPBACK_KEY": "loopback-only"})
        with in_terminal([binary("CODEX"), "--no-daemon", "Use the skillopt tools."], project, environment) as terminal:
            yield terminal


def test_codex_shows_the_whole_change_and_writes_it_after_a_yes(tmp_path: Path) -> None:
    binary("CODEX")
    candidate_id = prepare(tmp_path, approved=False)
    with codex(tmp_path, candidate_id) as terminal:
        shown = terminal.wait_for("enter to submit")
        for text in (TITLE, "Verdict: BETTER", *(f"+{line}" for line in LESSONS.splitlines())):
            assert "".join(text.split()) in shown
        assert main_file(tmp_path) == make_skill(SEED).main
        terminal.press(ENTER, until=END, again_s=2)
    assert main_file(tmp_path).decode().endswith(f"{LESSONS}\n")


@pytest.mark.parametrize("host", ["CLAUDE", "CLAUDE_OLDER"])
def test_claude_shows_the_first_rows_at_least_and_writes_it_after_a_yes(host: str, tmp_path: Path) -> None:
    binary(host)
    candidate_id = prepare(tmp_path, approved=False)
    with claude(host, tmp_path, candidate_id) as terminal:
        shown = terminal.wait_for("Esc to cancel")
        for text in (
            TITLE,
            "Verdict: BETTER (SIMULATION).",
            f"skillopt-mcp show {candidate_id}",
        ):
            assert "".join(text.split()) in shown
        assert main_file(tmp_path) == make_skill(SEED).main
        terminal.press(SPACE, until=CLAUDE_TICK)
        terminal.press(DOWN, until=CLAUDE_CURSOR)
        terminal.press(ENTER, until=END, again_s=2)
    assert main_file(tmp_path).decode().endswith(f"{LESSONS}\n")
