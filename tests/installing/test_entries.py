from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from skillopt_mcp.errors import BadInput
from skillopt_mcp.installing.entries import (
    hook_command,
    hook_seconds,
    installed_hooks,
    installed_server,
    server_entry,
    with_hooks,
    with_server,
    without_hooks,
    without_server,
)
from skillopt_mcp.installing.hosts import HOSTS, Surroundings, host_environment, places

EVENTS = ("Stop", "SessionEnd")
SECONDS = dict.fromkeys(EVENTS, 30)
HOME, PROJECT = Path("/home/me"), Path("/home/me/project")
PROGRAM = "/opt/my tools/skillopt-mcp"


def around(platform: str = "linux", **environ: str) -> Surroundings:
    return Surroundings(HOME, PROJECT, environ, platform)


@pytest.mark.parametrize("host", HOSTS)
def test_the_entry_of_every_host_is_found_again_and_taken_out(host: str) -> None:
    where = places(host, "user", around())
    entry = server_entry(host, PROGRAM, ["serve", "--store", "/s.db"])
    text = with_server("", where, entry)
    assert installed_server(text, where) == entry
    assert entry["command"] == PROGRAM
    assert installed_server(without_server(text, where), where) is None


@pytest.mark.parametrize(
    ("host", "scope", "path"),
    [
        ("claude-code", "user", "/home/me/.claude.json"),
        ("claude-code", "project", "/home/me/project/.mcp.json"),
        ("codex", "user", "/home/me/.codex/config.toml"),
        ("codex", "project", "/home/me/project/.codex/config.toml"),
        ("cursor", "user", "/home/me/.cursor/mcp.json"),
        ("cursor", "project", "/home/me/project/.cursor/mcp.json"),
        ("vscode", "user", "/home/me/.config/Code/User/mcp.json"),
        ("vscode", "project", "/home/me/project/.vscode/mcp.json"),
        ("claude-desktop", "user", "/home/me/.config/Claude/claude_desktop_config.json"),
    ],
)
def test_each_host_has_its_file(host: str, scope: str, path: str) -> None:
    assert places(host, "project" if scope == "project" else "user", around()).config == Path(path)


def test_moved_folders_of_hosts_are_honoured() -> None:
    claude = places("claude-code", "user", around(CLAUDE_CONFIG_DIR="/c"))
    assert (claude.config, claude.hooks, claude.skills) == (
        Path("/c/.claude.json"), Path("/c/settings.json"), Path("/c/skills"),
    )  # fmt: skip
    codex = places("codex", "user", around(CODEX_HOME="/x"))
    assert (codex.config, codex.hooks) == (Path("/x/config.toml"), Path("/x/hooks.json"))


def test_desktop_programs_keep_their_settings_where_their_system_says() -> None:
    mac = places("claude-desktop", "user", around("darwin")).config
    assert mac == HOME / "Library/Application Support/Claude/claude_desktop_config.json"
    windows = places("vscode", "user", around("win32", APPDATA="/appdata")).config
    assert windows == Path("/appdata/Code/User/mcp.json")


def test_claude_desktop_knows_no_projects() -> None:
    with pytest.raises(BadInput, match="leave out --project"):
        places("claude-desktop", "project", around())


def test_only_claude_code_tells_a_server_the_whole_environment() -> None:
    told = around(PATH="/my/bin", HOME="/home/me", OPENAI_API_KEY="k")
    assert host_environment("claude-code", told)["OPENAI_API_KEY"] == "k"
    assert host_environment("codex", told) == {"PATH": "/my/bin", "HOME": "/home/me"}
    assert host_environment("cursor", told)["PATH"] == "/usr/bin:/bin:/usr/sbin:/sbin"


def test_a_broken_file_is_refused_in_its_own_form() -> None:
    entry = server_entry("cursor", PROGRAM, ["serve"])
    commented = '{\n  // mine\n  "mcpServers": {},\n}\n'
    assert "// mine" in with_server(commented, places("cursor", "user", around()), entry)
    with pytest.raises(BadInput, match="line 2"):
        with_server(commented, places("claude-code", "user", around()), entry)


def test_a_file_that_cannot_be_changed_safely_is_left_alone() -> None:
    inline = 'mcp_servers = { a = { command = "b" } }\n'
    with pytest.raises(BadInput, match="edit it by hand"):
        with_server(inline, places("codex", "user", around()), server_entry("codex", PROGRAM, ["serve"]))


def test_hooks_come_once_and_go_without_a_trace() -> None:
    mine = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}, "model": "opus"}
    text = json.dumps(mine, indent=2) + "\n"
    line = hook_command(PROGRAM, None)
    made = with_hooks(text, SECONDS, line)
    hooks = json.loads(made)["hooks"]
    assert hooks["Stop"][0] == mine["hooks"]["Stop"][0]  # type: ignore[index]
    assert [len(hooks[event]) for event in EVENTS] == [2, 1]
    assert with_hooks(made, SECONDS, line) == made
    assert installed_hooks(made) == dict.fromkeys(EVENTS, line)
    assert without_hooks(made) == text


def test_a_hook_of_another_installation_is_replaced() -> None:
    made = with_hooks(
        with_hooks("", SECONDS, hook_command("/old/skillopt-mcp", None)), SECONDS, hook_command(PROGRAM, "/s")
    )
    assert "/old/" not in made
    assert [len(json.loads(made)["hooks"][event]) for event in EVENTS] == [1, 1]


def test_of_a_group_of_hooks_that_somebody_put_ours_into_only_ours_goes() -> None:
    mine, ours = ({"type": "command", "command": line} for line in ("x", hook_command(PROGRAM, None)))
    text = json.dumps({"hooks": {"Stop": [{"matcher": "*", "hooks": [mine, ours]}], "PreCompact": [{"hooks": [ours]}]}})
    assert json.loads(without_hooks(text)) == {"hooks": {"Stop": [{"matcher": "*", "hooks": [mine]}]}}
    made = json.loads(with_hooks(text, SECONDS, hook_command(PROGRAM, None)))["hooks"]["Stop"]
    assert [len(group["hooks"]) for group in made] == [1, 1]
    assert made[0] == {"matcher": "*", "hooks": [mine]}


def test_codex_is_asked_for_no_more_time_at_the_end_of_a_session_than_it_gives() -> None:
    assert hook_seconds("codex", EVENTS) == {"Stop": 30, "SessionEnd": 3}
    assert hook_seconds("claude-code", EVENTS) == {"Stop": 30, "SessionEnd": 30}


def test_codex_lets_what_was_promoted_be_rolled_back_as_easily() -> None:
    tools = server_entry("codex", PROGRAM, ["serve"])["tools"]
    assert tools == {name: {"approval_mode": "approve"} for name in ("promote_skill", "rollback_skill")}


@pytest.mark.skipif(sys.platform == "win32", reason="hooks run in a POSIX shell")
def test_the_line_of_a_hook_names_the_program_whatever_its_path_and_always_succeeds() -> None:
    assert hook_command(PROGRAM, "/my store.db") == (
        "'/opt/my tools/skillopt-mcp' capture --store '/my store.db' || true"
    )
