"""Readme configs: what README tells to type for each host, typed into that host."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from real_hosts import host_environment, run_configured_codex
from scripted_model import Json, ToolCall, Turn

pytestmark = pytest.mark.hosts

ROOT = Path(__file__).resolve().parents[2]


def binary(variable: str) -> str:
    """Return the path of a host's binary."""
    if not os.environ.get(variable):
        pytest.skip(f"{variable} names no binary: see .ci/hosts")
    return os.environ[variable]


def block(kind: str, marked: str) -> str:
    """Return the one code block of README of a kind that holds a text."""
    blocks = re.findall(rf"^```{kind}\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    [found] = [text for text in blocks if marked in text]
    return str(found)


def claude(variable: str, home: Path, *arguments: str) -> str:
    """Return what Claude Code prints for a command about its servers."""
    settings = {"CLAUDE_CONFIG_DIR": str(home / ".claude"), "DISABLE_AUTOUPDATER": "1"}
    settings["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
    done = subprocess.run(
        [binary(variable), *arguments],
        cwd=home,
        env=host_environment(home, settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("variable", ["CLAUDE", "CLAUDE_OLDER"])
def test_claude_code_connects_to_the_server_as_readme_adds_it(variable: str, tmp_path: Path) -> None:
    program, *arguments = shlex.split(block("sh", "claude mcp add"))
    assert program == "claude"
    claude(variable, tmp_path, *arguments)
    told = claude(variable, tmp_path, "mcp", "get", "skillopt")
    assert "Connected" in told
    assert "Command: skillopt-mcp" in told


@pytest.mark.parametrize("variable", ["CLAUDE", "CLAUDE_OLDER"])
def test_claude_code_takes_the_example_of_claude_desktop_too(variable: str, tmp_path: Path) -> None:
    example = json.loads((ROOT / "claude_desktop_config.example.json").read_text())
    [(name, server)] = example["mcpServers"].items()
    claude(variable, tmp_path, "mcp", "add-json", name, json.dumps({**server, "command": "skillopt-mcp"}), "-s", "user")
    assert "Connected" in claude(variable, tmp_path, "mcp", "get", name)


def test_codex_calls_the_server_as_readme_configures_it(tmp_path: Path) -> None:
    def script(results: list[Json]) -> Turn:
        return ["done"] if results else [ToolCall("list_skills", {})]

    session = run_configured_codex(binary("CODEX"), tmp_path, block("toml", "command = "), script)
    assert session.exit_code == 0, session.stderr
    [result] = session.results()
    assert result["skills"] == []
