from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from skillopt_mcp.cli.main import main
from skillopt_mcp.installing.hosts import Scope, Surroundings
from skillopt_mcp.operations.hosts.connecting import Connection, Part, connections
from skillopt_mcp.operations.hosts.installing import Request, apply_plan, plan_install
from skillopt_mcp.operations.stores.diagnosing import diagnose
from skillopt_mcp.operations.workspace import Workspace


@pytest.fixture
def around(home: Path, tmp_path: Path) -> Surroundings:
    (home / "skillopt-mcp").write_text("#!/bin/sh\n")
    (home / "skillopt-mcp").chmod(0o755)
    environ = {"PATH": str(tmp_path / "empty"), "SKILLOPT_STORE": str(tmp_path / "store.db")}
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
    plan = plan_install(Request(host, scope, program, words, store=store, hooks=hooks, skill=skill), around)
    return program, Path(apply_plan(plan)[0].path)


def found(around: Surroundings, store: str = "") -> list[Connection]:
    return connections(around, Path(store or around.environ["SKILLOPT_STORE"]))


def test_a_host_that_is_not_here_is_not_told_of(around: Surroundings) -> None:
    assert found(around) == []


def test_a_host_that_has_nothing_of_us_is_told_with_the_command_that_installs_it(around: Surroundings) -> None:
    for folder in (".claude", ".codex", ".config/Claude"):
        (around.home / folder).mkdir(parents=True)
    claude, desktop, codex = found(replace(around, environ={"SKILLOPT_STORE": around.environ["SKILLOPT_STORE"]}))
    assert (claude.host, claude.missing) == ("claude-code", ["server", "hooks"])
    assert claude.mend == ["skillopt-mcp install claude-code --hooks"]
    assert (desktop.host, desktop.missing, desktop.mend) == (
        "claude-desktop", ["server"], ["skillopt-mcp install claude-desktop"],
    )  # fmt: skip
    assert (codex.host, codex.mend, codex.problems) == ("codex", ["skillopt-mcp install codex --hooks"], [])


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


@pytest.mark.parametrize("scope", ["user", "project"])
def test_hooks_are_installed_beside_the_server_which_keeps_its_backends(around: Surroundings, scope: Scope) -> None:
    install(around, "codex", "--target", "simulated:honest,seed=3", scope=scope)
    [codex] = found(around)
    where = " --project" if scope == "project" else ""
    assert codex.missing == ["hooks"]
    assert codex.mend == [f"skillopt-mcp install codex{where} --hooks --target simulated:honest,seed=3"]


def test_a_command_names_the_store_that_was_named(around: Surroundings, tmp_path: Path) -> None:
    (around.home / ".codex").mkdir()
    [codex] = found(around, str(tmp_path / "my store.db"))
    assert codex.mend == [f"skillopt-mcp --store '{tmp_path}/my store.db' install codex --hooks"]


def test_a_server_on_another_store_is_told_and_is_no_problem(around: Surroundings, tmp_path: Path) -> None:
    install(around, "claude-desktop")
    [desktop] = found(around, str(tmp_path / "mine.db"))
    assert [part.other_store for part in desktop.parts] == [str(tmp_path / "store.db")]
    assert desktop.mend == [f"skillopt-mcp --store {tmp_path}/mine.db install claude-desktop"]
    assert desktop.problems == []


def test_the_store_of_an_entry_may_come_from_its_environment(around: Surroundings, tmp_path: Path) -> None:
    program, config = install(around, "claude-desktop")
    entry = {"command": program, "args": ["serve"], "env": {"SKILLOPT_STORE": str(tmp_path / "other.db")}}
    config.write_text(json.dumps({"mcpServers": {"skillopt": entry}}))
    [desktop] = found(around)
    assert [part.other_store for part in desktop.parts] == [str(tmp_path / "other.db")]


def test_a_program_that_is_gone_is_a_problem_and_installed_again(around: Surroundings) -> None:
    program, config = install(around, "codex", hooks=True)
    os.unlink(program)
    [codex] = found(around)
    gone = f"the program '{program}' is not there any more, or cannot be run"
    assert codex.problems == [
        f"the server in '{config}': {gone}: skillopt-mcp install codex --hooks",
        f"the hooks in '{config.with_name('hooks.json')}': {gone}: skillopt-mcp install codex --hooks",
    ]


def test_hooks_that_do_not_run_at_every_event_are_a_problem(around: Surroundings) -> None:
    _, config = install(around, "claude-code", hooks=True)
    settings = config.parent / ".claude/settings.json"
    hooks = json.loads(settings.read_text())["hooks"]
    settings.write_text(json.dumps({"hooks": {"Stop": hooks["Stop"]}}))
    [problem] = found(around)[0].problems
    assert problem.startswith(f"the hooks in '{settings}': not every one of the events Stop, SessionEnd runs them")


def test_a_server_that_is_reached_at_an_address_has_no_program_to_be_gone(around: Surroundings) -> None:
    config = around.home / ".claude.json"
    config.write_text(json.dumps({"mcpServers": {"skillopt": {"type": "http", "url": "http://127.0.0.1:8000/mcp"}}}))
    [claude] = found(around)
    assert claude.parts == [Part(kind="server", scope="user", path=str(config), command=[])]
    assert claude.problems == []


@pytest.mark.parametrize("content", [b'{"a":,}', b"\xff", b"[]", b'{"mcpServers": {}, "mcpServers": {}} x'])
def test_a_file_that_cannot_be_read_is_a_problem_and_nothing_is_said_of_what_it_holds(
    around: Surroundings, content: bytes
) -> None:
    (around.home / ".claude.json").write_bytes(content)
    [claude] = found(around)
    assert (claude.parts, claude.missing, claude.mend) == ([], ["hooks"], [])
    [problem] = claude.problems
    assert f"'{around.home}/.claude.json'" in problem
    assert problem.endswith("mend that file")


def test_doctor_tells_of_the_skill_and_of_its_rules_where_they_are(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(around.project)
    monkeypatch.setenv("PATH", around.environ["PATH"])
    monkeypatch.setenv("SKILLOPT_STORE", around.environ["SKILLOPT_STORE"])

    def told() -> str:
        main(["doctor"])
        [line] = (line for line in capsys.readouterr().out.splitlines() if line.startswith("Installed in claude-code"))
        return line.partition(" Install with")[0]

    install(around, "claude-code")
    assert told() == "Installed in claude-code: server (user). Missing: hooks."
    install(around, "claude-code", skill=True)
    assert told() == "Installed in claude-code: server (user), skill (user), rules. Missing: hooks."
    (around.home / ".claude/settings.json").write_text("{}")
    assert told() == "Installed in claude-code: server (user), skill (user). Missing: hooks, rules."


def test_doctor_tells_of_each_host_in_one_line(
    around: Surroundings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(around.project)
    monkeypatch.setenv("PATH", around.environ["PATH"])
    monkeypatch.setenv("SKILLOPT_STORE", around.environ["SKILLOPT_STORE"])
    monkeypatch.setattr(sys, "platform", "linux")
    install(around, "codex")
    (around.home / ".cursor").mkdir()
    (around.home / ".cursor/mcp.json").write_text("{")
    assert main(["doctor"]) == 1
    printed = capsys.readouterr()
    codex, cursor = (line for line in printed.out.splitlines() if line.startswith("Installed in"))
    assert codex == (
        "Installed in codex: server (user). Missing: hooks. Install with: skillopt-mcp install codex --hooks"
    )
    unread = f"'{around.home}/.cursor/mcp.json' cannot be read: line 1, column 2: a key in double quotes is expected"
    assert cursor == f"Installed in cursor: not known. {unread}."
    assert f"error: {unread}; mend that file\n" in printed.err
    with Workspace(Path(around.environ["SKILLOPT_STORE"])) as workspace:
        assert diagnose(workspace).connections == found(around)
    assert not Path(around.environ["SKILLOPT_STORE"]).exists()


def test_a_bare_name_that_nobody_finds_is_a_problem(around: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = replace(around, environ={**around.environ, "PATH": str(around.home)})
    install(shared, "claude-code", scope="project")
    assert [(part.command[0], part.trouble) for part in found(shared)[0].parts] == [("skillopt-mcp", "")]
    monkeypatch.setenv("PATH", "/nowhere")
    assert found(around)[0].parts[0].trouble == "the program 'skillopt-mcp' is not on the PATH"


def test_hooks_that_record_nothing_as_no_skill_is_tracked_are_lacking_one(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Path(around.environ["SKILLOPT_STORE"])
    monkeypatch.setenv("SKILLOPT_STORE", str(store))
    skill = around.home / ".claude/skills/mine"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("# Mine\n")
    told = f"No skill is tracked yet, so that nothing is recorded. To begin: skillopt-mcp skills track {skill}"
    with Workspace(store) as workspace:
        assert told not in diagnose(workspace).lacking
    install(around, "claude-code", hooks=True)
    with Workspace(store) as workspace:
        assert told in diagnose(workspace).lacking
        assert not store.exists()
        workspace.skill("mine")
        assert told not in diagnose(workspace).lacking
