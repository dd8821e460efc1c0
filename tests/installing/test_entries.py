from __future__ import annotations

import json
import time
import tomllib
from pathlib import Path
from typing import cast

import pytest

from skillopt_mcp.admin.install.entries import HostSettings, Server, find_hooks, hook_line, put_server
from skillopt_mcp.admin.install.hosts import Surroundings, places
from skillopt_mcp.core.errors import BadInput

SECONDS = {"SessionStart": 30, "Stop": 30, "SessionEnd": 30}
HOME, PROJECT = Path("/home/me"), Path("/home/me/project")
PROGRAM = "/opt/my tools/skillopt-mcp"
LINE = hook_line(PROGRAM, None)


def around(platform: str = "linux", **environ: str) -> Surroundings:
    return Surroundings(HOME, PROJECT, environ, platform)


CODEX = places("codex", "user", around())
ENTRY = cast(Server, {"command": PROGRAM, "args": ["serve"], **CODEX.host.entry})


@pytest.mark.parametrize(
    ("host", "scope", "place", "path"),
    [
        ("claude-code", "user", around(), "/home/me/.claude.json"),
        ("claude-code", "project", around(), "/home/me/project/.mcp.json"),
        ("claude-code", "user", around(CLAUDE_CONFIG_DIR="/c"), "/c/.claude.json"),
        ("codex", "user", around(), "/home/me/.codex/config.toml"),
        ("codex", "user", around(CODEX_HOME="/x"), "/x/config.toml"),
        ("codex", "project", around(), "/home/me/project/.codex/config.toml"),
        ("cursor", "user", around(), "/home/me/.cursor/mcp.json"),
        ("cursor", "project", around(), "/home/me/project/.cursor/mcp.json"),
        ("vscode", "user", around(), "/home/me/.config/Code/User/mcp.json"),
        ("vscode", "user", around("win32", APPDATA="/appdata"), "/appdata/Code/User/mcp.json"),
        ("vscode", "project", around(), "/home/me/project/.vscode/mcp.json"),
        ("claude-desktop", "user", around(), "/home/me/.config/Claude/claude_desktop_config.json"),
        (
            "claude-desktop",
            "user",
            around("darwin"),
            "/home/me/Library/Application Support/Claude/claude_desktop_config.json",
        ),
    ],
)
def test_each_host_has_its_file(host: str, scope: str, place: Surroundings, path: str) -> None:
    assert places(host, "project" if scope == "project" else "user", place).config == Path(path)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1 "b"}', "line 1, column 9"),
        ('{\n  "a" 1}', "line 2, column 7"),
        ('{"a": 1} x', "line 1, column 10"),
        ("[1]", "line 1, column 1"),
        ('{"a": "x', "line 1, column 7"),
    ],
)
def test_a_text_that_does_not_parse_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(BadInput, match=place):
        put_server(text, places("cursor", "user", around()), ENTRY)


def test_a_text_of_too_many_levels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(text: str) -> object:
        raise RecursionError

    # As the reader does, at a depth that depends on the version of Python.
    monkeypatch.setattr(json, "loads", run_out)
    with pytest.raises(BadInput, match="too many levels"):
        put_server("[]", places("cursor", "user", around()), ENTRY)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '# mine\nmodel = "x" # why\n',
        'model = "x"\r\n[mcp_servers.a]\r\ncommand = "b"\r\n',
        '[mcp_servers]\n[mcp_servers.a]\ncommand = "b"\n\n[profiles.z]\nk = 1\n',
        "[mcp_servers.a]\nx = 1\n[tui]\nk = 1\n[mcp_servers.b]\ny = 1\n",
        'mcp_servers.a.command = "b"\n\n[[things]]\nq = 1\n\n\n',
        'mcp_servers = { a = { command = "b" } }\n',
        'notes = """\n[mcp_servers.other]\n"""\n',
    ],
)
def test_a_toml_table_comes_and_goes_and_every_line_of_the_persons_stays(text: str) -> None:
    made = put_server(text, CODEX, ENTRY)
    expected = tomllib.loads(text)
    expected.setdefault("mcp_servers", {})["skillopt"] = ENTRY
    assert tomllib.loads(made) == expected
    assert put_server(made, CODEX, ENTRY) == made
    left = put_server(made, CODEX, None)
    assert tomllib.loads(left) == tomllib.loads(text)
    assert [line for line in left.splitlines() if line] == [line for line in text.splitlines() if line]


def test_a_comment_on_the_table_after_ours_stays_when_ours_goes() -> None:
    ours = '[mcp_servers.skillopt]\ncommand = "x"\n'
    assert put_server(f"a = 1\n\n{ours}\n# theirs\n[tui]\nk = 1\n", CODEX, None) == "a = 1\n\n# theirs\n[tui]\nk = 1\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_json_keeps_its_ends_of_lines(newline: str) -> None:
    text = newline.join(["{", '  "mcpServers": {', '    "a": {}', "  }", "}", ""])
    made = put_server(text, places("cursor", "user", around()), ENTRY)
    assert {line[len(line.rstrip("\r\n")) :] for line in made.splitlines(keepends=True)} == {newline}


OURS = HostSettings(LINE)


def test_hooks_come_once_and_go_without_a_trace() -> None:
    mine = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}, "model": "opus"}
    text = json.dumps(mine, indent=2) + "\n"
    made = OURS.put(HostSettings(hook_line("/old/skillopt-mcp", None)).put(text, SECONDS), SECONDS)
    hooks = json.loads(made)["hooks"]
    assert hooks["Stop"][0] == mine["hooks"]["Stop"][0]  # type: ignore[index]
    assert [len(hooks[event]) for event in SECONDS] == [1, 2, 1]
    assert OURS.put(made, SECONDS) == made
    assert find_hooks(made) == dict.fromkeys(SECONDS, LINE)
    assert OURS.take(made) == text


def test_of_a_group_of_hooks_that_somebody_put_ours_into_only_ours_goes() -> None:
    mine, ours = ({"type": "command", "command": line} for line in ("x", LINE))
    text = json.dumps({"hooks": {"Stop": [{"matcher": "*", "hooks": [mine, ours]}], "PreCompact": [{"hooks": [ours]}]}})
    assert json.loads(OURS.take(text)) == {"hooks": {"Stop": [{"matcher": "*", "hooks": [mine]}]}}
    made = json.loads(OURS.put(text, SECONDS))["hooks"]["Stop"]
    assert [len(group["hooks"]) for group in made] == [1, 1]


@pytest.mark.parametrize("text", ['{"a": "' + '\\"' * 20_000, "{" + "/*" * 200_000, '{"a": [1' + ", " * 200_000])
def test_a_large_file_that_breaks_off_is_named_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(BadInput, match="line 1, column "):
        find_hooks(text)
    assert time.process_time() - began < 1
