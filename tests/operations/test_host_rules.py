"""Host rules: with the skill, a host is allowed what its work takes, and uninstall takes out no more than that."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from host_plans import install, uninstall

from skillopt_mcp.errors import BadInput
from skillopt_mcp.installing.hosts import Scope, Surroundings
from skillopt_mcp.operations.hosts.connecting import connections
from skillopt_mcp.operations.hosts.installing import Request, apply_plan, plan_install
from skillopt_mcp.operations.hosts.uninstalling import plan_uninstall
from skillopt_mcp.operations.workplaces import Workplaces

TOOL = "mcp__skillopt__inspect"


@pytest.fixture
def around(home: Path, tmp_path: Path) -> Surroundings:
    for name in ("skillopt-mcp", "claude"):
        (home / name).write_text("#!/bin/sh\n")
        (home / name).chmod(0o755)
    (tmp_path / "project").mkdir()
    return Surroundings(home, tmp_path / "project", {"PATH": str(home)}, "linux")


def asked(around: Surroundings, store: str = "", *, hooks: bool = False, scope: Scope = "user") -> Request:
    words = ("serve", *(("--store", store) if store else ()))
    program = str(around.home / "skillopt-mcp")
    return Request("claude-code", scope, program, words, store=store or None, hooks=hooks, skill=True)


def allowed(path: Path) -> list[str]:
    found: list[str] = json.loads(path.read_text())["permissions"]["allow"]
    return found


def folder_of(store: str, environ: dict[str, str] | None = None) -> str:
    return str(Workplaces(Path(store), environ or {}).root)


@pytest.mark.parametrize(
    ("scope", "file"), [("user", ".claude/settings.json"), ("project", "project/.claude/settings.local.json")]
)
def test_the_skill_brings_the_rules_for_the_work_of_its_store(around: Surroundings, scope: Scope, file: str) -> None:
    path = (around.home if scope == "user" else around.project.parent) / file
    install(around, asked(around, "/a/store.db", scope=scope))
    rules = allowed(path)
    assert rules[-2:] == [f"{name}(/{folder_of('/a/store.db')}/**)" for name in ("Read", "Edit")]
    assert not {"mcp__skillopt", "mcp__skillopt__promote_skill", "mcp__skillopt__rollback_skill"}.intersection(rules)


def test_the_rules_are_shown_before_they_are_written_and_installing_again_changes_nothing(around: Surroundings) -> None:
    plan = plan_install(asked(around), around)
    [shown] = [change.diff for change in plan.changes if change.path.name == "settings.json"]
    assert '+      "mcp__skillopt__submit_work",' in shown
    assert '/**)"' in shown
    apply_plan(plan)
    assert plan_install(asked(around), around).changes == []


def test_another_store_has_another_folder_and_the_first_one_is_allowed_no_more(around: Surroundings) -> None:
    settings = around.home / ".claude/settings.json"
    install(around, asked(around, "/a/store.db"))
    install(around, asked(around, "/b/store.db"))
    fresh = replace(around, home=around.home / "fresh")
    install(fresh, asked(around, "/b/store.db"))
    assert allowed(settings) == allowed(fresh.home / ".claude/settings.json")


def test_a_folder_of_work_that_the_server_is_told_by_hand_is_the_one_that_is_allowed(around: Surroundings) -> None:
    install(around, asked(around))
    config = around.home / ".claude.json"
    value = json.loads(config.read_text())
    value["mcpServers"]["skillopt"]["env"] = {"SKILLOPT_WORK": "/var/work", "SKILLOPT_STORE": "/a/store.db"}
    config.write_text(json.dumps(value))
    assert connections(around, Path("/a/store.db"))[0].missing == ["hooks", "rules"]
    install(around, asked(around))
    found = allowed(around.home / ".claude/settings.json")
    assert f"Read(/{folder_of('/a/store.db', {'SKILLOPT_WORK': '/var/work'})}/**)" in found
    assert connections(around, Path("/a/store.db"))[0].missing == ["hooks"]


@pytest.mark.parametrize("name", ["w*k", "w?", "[w]", "w\\k"])
def test_a_folder_of_work_that_would_be_a_pattern_is_refused_and_nothing_is_written(
    around: Surroundings, name: str
) -> None:
    odd = replace(around, environ={**around.environ, "SKILLOPT_WORK": f"/var/{name}"})
    with pytest.raises(BadInput, match="as a pattern, and allow others, too: name one without"):
        install(odd, asked(odd))
    install(odd, replace(asked(odd), skill=False))
    plain = replace(around, environ={**around.environ, "SKILLOPT_WORK": "/var/my work (a)"})
    install(plain, asked(plain))
    assert "Edit(//var/my work (a)/skillopt-" in allowed(around.home / ".claude/settings.json")[-1]


def test_what_a_person_allowed_before_stays_when_ours_goes(around: Surroundings) -> None:
    settings = around.home / ".claude/settings.json"
    settings.parent.mkdir()
    before = json.dumps({"permissions": {"allow": [TOOL, "Bash(ls:*)"]}}, indent=4)
    settings.write_text(before)
    for edited in (False, True):
        install(around, asked(around, hooks=True))
        if edited:
            value = json.loads(settings.read_text())
            value["permissions"]["allow"].append("WebSearch")
            settings.write_text(json.dumps(value, indent=4))
        uninstall(around, asked(around, hooks=True))
        assert settings.read_text() == (before if not edited else settings.read_text())
    assert json.loads(settings.read_text()) == {"permissions": {"allow": [TOOL, "Bash(ls:*)", "WebSearch"]}}


@pytest.mark.parametrize("first", ["hooks", "skill"])
def test_hooks_and_rules_share_a_file_and_go_one_by_one(around: Surroundings, first: str) -> None:
    hooks, skill = (replace(asked(around), hooks=each, skill=not each) for each in (True, False))
    ordered = (hooks, skill) if first == "hooks" else (skill, hooks)
    settings = around.home / ".claude/settings.json"
    for request in ordered:
        install(around, request)
    uninstall(around, ordered[0])
    assert set(json.loads(settings.read_text())) == ({"permissions"} if first == "hooks" else {"hooks"})
    uninstall(around, ordered[1])
    assert not (around.home / ".claude").exists()


def test_doctor_misses_the_rules_where_the_skill_is_and_says_what_they_spare(around: Surroundings) -> None:
    store = Path("/a/store.db")
    install(around, asked(around, str(store), hooks=True))
    [claude] = connections(around, store)
    assert (claude.missing, claude.hindrance) == ([], "")
    (around.home / ".claude/settings.json").write_text('{"permissions": {"allow": ["mcp__skillopt"]}}')
    [claude] = connections(around, store)
    command = f"skillopt-mcp --store {store} install claude-code --hooks --skill"
    assert (claude.missing, claude.mend, claude.problems) == (["hooks", "rules"], [command], [])
    assert claude.hindrance == (
        "claude-code has the skill without the rules for its work: it asks you at every file of every work item, and "
        f"does none where it runs headless: {command}"
    )


def test_rules_that_a_person_keeps_in_the_project_are_no_less_worth(around: Surroundings) -> None:
    install(around, asked(around, "/a/store.db"))
    settings, project = around.home / ".claude/settings.json", around.project / ".claude/settings.local.json"
    project.parent.mkdir()
    os.replace(settings, project)
    assert connections(around, Path("/a/store.db"))[0].missing == ["hooks"]


def test_a_server_on_another_store_is_installed_anew_with_the_rules_for_this_one(around: Surroundings) -> None:
    install(around, asked(around, "/a/store.db", hooks=True))
    assert connections(around, Path("/b/store.db"))[0].mend == [
        "skillopt-mcp --store /b/store.db install claude-code --hooks --skill"
    ]


def test_uninstall_names_the_store_and_the_work_that_stay(around: Surroundings, tmp_path: Path) -> None:
    store, work = tmp_path / "store.db", tmp_path / "work"
    request = asked(around, str(store))
    install(around, request)
    assert plan_uninstall(request, around).notes == []
    store.write_bytes(b"")
    busy = replace(around, environ={**around.environ, "SKILLOPT_WORK": str(work)})
    Path(folder_of(str(store), {"SKILLOPT_WORK": str(work)})).mkdir(parents=True)
    recorded, out = uninstall(busy, request)
    assert recorded == (
        f"What was recorded stays: tasks, attempts, sessions and every version of a skill, in '{store}'. Once no host "
        "and nobody else needs them, remove that file and what lies beside it under the same name."
    )
    assert out.startswith(f"Work that is out lies in '{work}/skillopt-")
    assert uninstall(busy, request) == []
