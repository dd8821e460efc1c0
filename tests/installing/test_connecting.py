from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from skillopt_mcp.admin.install.hosts import Scope, Surroundings
from skillopt_mcp.admin.install.installing import HostConnection, Request, apply_plan, connections, plan_install
from tests.fake_claude import put_claude


@pytest.fixture
def around(home: Path, tmp_path: Path) -> Surroundings:
    (home / "skillopt-mcp").write_text("#!/bin/sh\n")
    (home / "skillopt-mcp").chmod(0o755)
    environ = {"PATH": f"{tmp_path / 'empty'}:/usr/bin:/bin", "SKILLOPT_STORE": str(tmp_path / "store.db")}
    return Surroundings(home, tmp_path, environ, "linux")


def install(
    around: Surroundings,
    host: str,
    *arguments: str,
    hooks: bool = False,
    scope: Scope = "user",
    skill: bool = False,
) -> tuple[str, Path]:
    """Write what 'install' writes, but for its check of the server; return the program and the configuration."""
    program, store = str(around.home / "skillopt-mcp"), around.environ["SKILLOPT_STORE"]
    words = ("serve", "--store", store, *arguments)
    put_claude(around.home / "bin", around.home)
    around = replace(around, environ={**around.environ, "PATH": f"{around.home / 'bin'}:/usr/bin:/bin"})
    plan = plan_install(Request(host, scope, program, words, store=store, hooks=hooks, skill=skill), around)
    return program, Path(apply_plan(plan)[0].path)


def found(around: Surroundings, store: str = "") -> list[HostConnection]:
    return connections(around, Path(store or around.environ["SKILLOPT_STORE"]))


def test_a_host_without_our_server_gets_the_command_that_installs_it(around: Surroundings) -> None:
    assert found(around) == []
    for folder in (".claude", ".codex", ".config/Claude"):
        (around.home / folder).mkdir(parents=True)
    here = found(replace(around, environ={"SKILLOPT_STORE": around.environ["SKILLOPT_STORE"]}))
    assert [(each.host, each.missing, each.mend) for each in here] == [
        ("claude-code", ["server", "hooks"], ["skillopt-mcp install claude-code --hooks"]),
        ("claude-desktop", ["server"], ["skillopt-mcp install claude-desktop"]),
        ("codex", ["server", "hooks"], ["skillopt-mcp install codex --hooks"]),
    ]


@pytest.mark.parametrize("host", ["claude-code", "codex"])
@pytest.mark.parametrize("scope", ["user", "project"])
def test_what_install_wrote_is_found_where_it_was_written(around: Surroundings, host: str, scope: Scope) -> None:
    install(around, host, hooks=True, scope=scope)
    [one] = found(around)
    assert [(part.kind, part.scope, part.trouble, part.other_store) for part in one.parts] == [
        ("server", scope, "", None),
        ("hooks", scope, "", None),
    ]
    assert (one.host, one.missing, one.mend, one.problems) == (host, [], [], [])


def test_a_program_that_is_gone_is_a_problem_and_installed_again(around: Surroundings) -> None:
    program, _ = install(around, "codex", hooks=True)
    Path(program).unlink()
    [codex] = found(around)
    assert len(codex.problems) == 2
    assert all(program in each and "skillopt-mcp install codex --hooks" in each for each in codex.problems)


@pytest.mark.parametrize("content", [b'{"a":,}', b"\xff", b"[]", b'{"mcpServers": {}, "mcpServers": {}} x'])
def test_a_file_that_cannot_be_read_is_a_problem_and_is_not_installed_into(
    around: Surroundings, content: bytes
) -> None:
    (around.home / ".claude.json").write_bytes(content)
    [claude] = found(around)
    assert (claude.parts, claude.missing, claude.mend) == ([], ["hooks"], [])
    [problem] = claude.problems
    assert f"'{around.home}/.claude.json'" in problem


def test_the_rules_are_missing_where_the_skill_is_without_them(around: Surroundings) -> None:
    install(around, "claude-code", skill=True, hooks=True)
    [claude] = found(around)
    assert (claude.skilled, claude.ruled, claude.missing, claude.hindrance) == (["user"], True, [], "")
    settings = around.home / ".claude/settings.json"
    hooks = json.loads(settings.read_text())["hooks"]
    settings.write_text(json.dumps({"hooks": hooks, "permissions": {"allow": ["mcp__skillopt"]}}))
    [claude] = found(around)
    assert (claude.ruled, claude.missing) == (False, ["rules"])
    assert claude.mend == ["skillopt-mcp install claude-code --skill --sub-agents"]
    assert claude.mend[0] in claude.hindrance
