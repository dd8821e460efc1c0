"""Installing: the five hosts' own files get our entry and nothing else, and are again as they were afterwards."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.doors import TIMEOUT_S, Workbench
from tests.acceptance.doors_care import files_of, start_no_server
from tests.fake_claude import put_claude
from tests.processes import Script

JSON = """{
  // a person's own words
  "numStartups" : 3,
  "%s": {
    "other": {"command": "/bin/true",   "args": []}
  },
  "after": [1,2]
}
"""
PLAIN = JSON.replace("  // a person's own words\n", "")
TOML = '# mine\nmodel = "gpt-6"\n[mcp_servers.other]\ncommand = "/bin/true" # here\n\n[tui]\ntheme = "dark"'
CODE = ".config/Code/User/mcp.json"
DESKTOP = ".config/Claude/claude_desktop_config.json"
HOSTS = {
    "claude-code": (".claude.json", PLAIN % "mcpServers", "mcpServers"),
    "claude-desktop": (DESKTOP, PLAIN % "mcpServers", "mcpServers"),
    "codex": (".codex/config.toml", TOML, "mcp_servers"),
    "cursor": (".cursor/mcp.json", PLAIN % "mcpServers", "mcpServers"),
    "vscode": (CODE, JSON % "servers", "servers"),
}


# Installing starts the server that the entry names; in one host the real one is enough.
STARTED = "claude-code"


def entries(path: Path, key: str) -> dict[str, Any]:
    """Return the servers that a host's file names."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("//"))
    read = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    return dict(read[key])


def own(found: dict[str, Any]) -> dict[str, Any]:
    """Return the one entry that is not the person's."""
    [ours] = [entry for name, entry in found.items() if name not in ("other", "later")]
    return dict(ours)


@pytest.mark.parametrize("host", HOSTS)
def test_install_adds_an_entry_that_starts_and_uninstall_leaves_every_byte(
    bench: Workbench, home: Path, host: str
) -> None:
    bench.prepare = start_no_server
    put_claude(home / "bin", home)
    bench.environ["PATH"] = f"{home / 'bin'}:{bench.environ['PATH']}"
    name, text, key = HOSTS[host]
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    before = files_of(home)
    bench.facts("install", host, dry_run=True)
    assert bench.run("install", host).exit_code == (0 if host == "vscode" else 1), "what is written needs a yes"
    assert files_of(home) == before
    bench.prepare = None if host == STARTED else start_no_server
    shown = bench.facts("install", host, yes=True)
    bench.prepare = start_no_server
    if host == "vscode":
        assert files_of(home) == before, "its file is the person's to edit"
        snippet = json.loads(str(shown["by_hand"][0]).partition(":\n")[2])
        path.write_text(text.replace(f'"{key}": {{', f'"{key}": {{"skillopt": {json.dumps(snippet[key]["skillopt"])},'))
    written = path.read_text()
    found = entries(path, key)
    assert found["other"] == {"command": "/bin/true"} | ({} if path.suffix == ".toml" else {"args": []})
    if path.suffix == ".toml":  # every line of the person's is there still, in order
        rest = iter(written.splitlines())
        assert [line for line in text.splitlines() if line not in rest] == []
    elif host != "vscode":
        assert list(json.loads(written))[:3] == list(json.loads(text))
    ours = own(found)
    listed = Script([ours["command"], *ours["args"]], home, os.environ | ours.get("env", {}), stdin=FRAMES)
    assert listed.wait() == 0
    tools = json.loads(listed.out.splitlines()[-1])["result"]["tools"]
    assert {tool["name"] for tool in tools} >= {"add_tasks", "promote_skill", "submit_work"}
    assert own(entries(path, key)) == ours
    bench.facts("install", host, yes=True)
    assert path.read_text() == written, "once is enough"
    bench.facts("uninstall", host, yes=True)
    if host == "vscode":
        assert path.read_text() == written
        path.write_text(text)
    elif host == "claude-code":  # it writes its file by itself
        assert set(entries(path, key)) == {"other"}
    else:
        assert path.read_bytes() == text.encode()
    assert {name for name in files_of(home) if "backup" not in name and "store" not in name} == set(before)


FRAMES = "".join(
    json.dumps({"jsonrpc": "2.0", **frame}) + "\n"
    for frame in (
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
    )
)


def test_what_others_wrote_since_stays_and_a_file_that_does_not_parse_is_left_alone(
    bench: Workbench, home: Path
) -> None:
    bench.prepare = start_no_server
    put_claude(home / "bin", home)
    bench.environ["PATH"] = f"{home / 'bin'}:{bench.environ['PATH']}"
    for host, (name, text, key) in HOSTS.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        bench.facts("install", host, yes=True)
        before = path.read_text()
        if path.suffix == ".toml":
            path.write_text(before + '\n[mcp_servers.later]\ncommand = "/bin/false"\n')
        else:
            path.write_text(before.replace(f'"{key}": {{', f'"{key}": {{"later": {{"command": "/bin/false"}},', 1))
        bench.facts("uninstall", host, yes=True)
        assert set(entries(path, key)) == {"other", "later"}, host
        path.write_text(text[:-4] + "{{")
        broken = path.read_bytes()
        for command in ("install", "uninstall"):
            assert bench.run(command, host, yes=True).exit_code == 1, (host, command)
            assert path.read_bytes() == broken


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_hooks_and_the_skill_come_and_go_and_the_persons_own_stay(bench: Workbench, home: Path, host: str) -> None:
    bench.prepare = start_no_server
    folder = home / (".claude" if host == "claude-code" else ".codex")
    hooks = folder / ("settings.json" if host == "claude-code" else "hooks.json")
    folder.mkdir()
    mine = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "/bin/true"}]}]}}
    hooks.write_text(json.dumps(mine))
    before = files_of(home)
    bench.facts("install", host, hooks=True, skill=True, yes=True)
    assert len(json.loads(hooks.read_text())["hooks"]) > 1
    assert len(list(home.rglob("SKILL.md"))) == 1
    bench.facts("uninstall", host, hooks=True, skill=True, yes=True)
    after = {name: content for name, content in files_of(home).items() if "backup" not in name and "store/" not in name}
    assert after == before


@pytest.mark.parametrize(("host", "program"), [("claude-code", "claude"), ("codex", "codex"), ("cursor", "")])
def test_the_hosts_own_command_line_does_the_work_where_there_is_one(
    bench: Workbench, home: Path, host: str, program: str
) -> None:
    bench.prepare, bench.environ["PATH"] = start_no_server, str(home / "bin")
    name, _, key = HOSTS[host]

    def backends(**options: object) -> tuple[list[str], str]:
        done = bench.facts("install", host, yes=True, **options)
        if by_hand := done["by_hand"]:
            return json.loads(shlex.split(by_hand[0])[-1])["args"][3:], " ".join(done["notes"])
        return own(entries(home / name, key))["args"][3:], " ".join(done["notes"])

    words, notes = backends()
    assert (words, f"the program '{program}' is not found" in notes) == ([], bool(program))
    (home / "bin").mkdir()
    put_claude(home / "bin", home)
    (home / "bin/codex").write_text("#!/bin/sh\necho 1.0\n")
    (home / "bin/codex").chmod(0o755)
    own_words = ["--target", host, "--optimizer", host, "--judge", host] if program else []
    assert backends()[0] == own_words
    assert backends(sub_agents=True) == ([], "")
    named = ["--target", "codex:m,timeout=9.0", *own_words[2:]]
    assert backends(target="codex:m,timeout=9.0")[0] == named
    if program:
        [found] = [each for each in bench.facts("doctor")["connections"] if each["host"] == host]
        assert found["mend"] == [f"skillopt-mcp install {host} --hooks --target codex:m,timeout=9.0"]


@pytest.mark.hosts
@pytest.mark.parametrize(("host", "variable"), [("claude-code", "CLAUDE"), ("codex", "CODEX")])
def test_the_real_host_lists_the_server_until_it_is_uninstalled(
    bench: Workbench, home: Path, host: str, variable: str
) -> None:
    if not os.environ.get(variable):
        pytest.skip(f"{variable} names no binary: see .ci/hosts")

    def listed() -> str:
        done = subprocess.run(
            [os.environ[variable], "mcp", "list"], cwd=bench.project, env=bench.environ, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        return done.stdout

    (home / "bin").mkdir()
    (home / "bin" / variable.lower()).symlink_to(os.environ[variable])
    bench.environ["PATH"] = f"{home / 'bin'}:{bench.environ['PATH']}"
    bench.facts("install", host, yes=True)
    assert str(Path(sys.executable).with_name("skillopt-mcp")) in listed()
    bench.facts("uninstall", host, yes=True)
    assert "skillopt-mcp" not in listed()
