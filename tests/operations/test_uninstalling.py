from __future__ import annotations

import json
import os
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from host_plans import install, uninstall
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt_mcp.errors import BadInput
from skillopt_mcp.installing.hosts import Surroundings, places
from skillopt_mcp.operations.hosts.installing import Request
from skillopt_mcp.operations.hosts.shipping import AGENT, SKILL
from skillopt_mcp.operations.hosts.uninstalling import left_behind, plan_uninstall
from skillopt_mcp.operations.looks.listing import list_skills
from skillopt_mcp.operations.stores.diagnosing import diagnose
from skillopt_mcp.operations.workspace import Workspace

PROGRAM = str(Path(sys.executable).with_name("skillopt-mcp"))
PLACES = [
    (host, scope, hooked)
    for host, hooked in (("claude-code", True), ("codex", True), ("cursor", False), ("vscode", False))
    for scope in ("user", "project")
]


def surroundings(folder: Path) -> Surroundings:
    for name in ("home", "project"):
        (folder / name).mkdir()
    return Surroundings(folder / "home", folder / "project", {"PATH": os.environ["PATH"]}, "linux")


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    return surroundings(tmp_path)


def asked(host: str = "claude-code", **more: object) -> Request:
    return Request(**{"host": host, "scope": "user", "command": PROGRAM, **more})  # type: ignore[arg-type]


def everything(around: Surroundings) -> set[str]:
    """Return every file and folder there is, backups too."""
    return {str(path.relative_to(root)) for root in (around.home, around.project) for path in root.rglob("*")}


@pytest.mark.parametrize(("host", "scope", "hooked"), PLACES)
def test_what_is_installed_again_and_again_into_nothing_leaves_no_file_backup_or_folder(
    host: str, scope: str, hooked: bool, around: Surroundings
) -> None:
    first, second = (
        asked(host, scope=scope, hooks=hooked, skill=True, command=command, arguments=("serve", *more))
        for command, more in ((PROGRAM, ()), ("/moved/bin/skillopt-mcp", ("--target", "host")))
    )
    for _ in range(2):
        install(around, first)
        install(around, second)
        uninstall(around, first)
        assert everything(around) == set()


@pytest.mark.parametrize(("host", "folder"), [("claude-code", ".claude"), ("codex", ".codex")])
def test_a_folder_goes_with_the_last_thing_that_install_put_into_it_unless_it_was_there(
    host: str, folder: str, around: Surroundings
) -> None:
    whole = asked(host, scope="project", hooks=True)
    install(around, whole)
    uninstall(around, asked(host, scope="project"))
    assert (around.project / folder).is_dir()
    uninstall(around, whole)
    assert everything(around) == set()
    (around.project / folder).mkdir()
    install(around, whole)
    uninstall(around, whole)
    assert everything(around) == {folder}


def test_a_server_installed_twice_beside_what_is_a_persons_goes_whole(around: Surroundings) -> None:
    config = around.home / ".claude.json"
    config.write_text('{"a": 1}\n')
    install(around, asked())
    install(around, asked(command="/moved/bin/skillopt-mcp", arguments=("serve", "--target", "host")))
    uninstall(around, asked())
    assert config.read_text() == '{"a": 1}\n'
    assert plan_uninstall(asked(), around).changes == []


def test_what_a_person_added_to_our_entry_is_backed_up_when_it_goes(around: Surroundings) -> None:
    config = around.home / ".claude.json"
    install(around, asked())
    value = json.loads(config.read_text())
    value["mcpServers"]["skillopt"]["env"] = {"OPENAI_API_KEY": "sk-1"}
    config.write_text(json.dumps(value, indent=2) + "\n")
    uninstall(around, asked())
    assert not config.exists()
    [backup] = left_behind(asked(), around)
    assert json.loads(Path(backup).read_text()) == value


def test_what_cannot_be_taken_out_is_refused_and_not_called_done(around: Surroundings) -> None:
    config = around.home / ".codex/config.toml"
    config.parent.mkdir()
    config.write_text('mcp_servers = { skillopt = { command = "skillopt-mcp", args = [] } }\n')
    with pytest.raises(BadInput, match="by hand"):
        plan_uninstall(asked("codex"), around)


def test_all_that_stays_is_named_with_the_option_that_takes_it_out(around: Surroundings) -> None:
    install(around, asked(scope="project", hooks=True, skill=True))
    folder = around.project / ".claude"
    assert uninstall(around, asked(scope="project")) == [
        f"The hooks in '{folder / 'settings.local.json'}' stay: take them out with --hooks.",
        f"What --skill put there stays ('{folder / 'settings.local.json'}' and "
        f"'{folder / 'skills' / SKILL / 'SKILL.md'}' and '{folder / 'agents' / AGENT}'): take it out with --skill.",
    ]


def test_an_installation_for_the_other_scope_is_named_with_the_command_that_takes_it_out(around: Surroundings) -> None:
    install(around, asked(scope="project", hooks=True))
    config, hooks = around.project / ".mcp.json", around.project / ".claude/settings.local.json"
    plan = plan_uninstall(asked(), around)
    assert (plan.changes, plan.notes) == (
        [],
        [
            f"What is installed in this project stays ('{config}', '{hooks}'): take it out with: "
            "skillopt-mcp uninstall claude-code --project --hooks"
        ],
    )
    install(around, asked())
    told = uninstall(around, asked(scope="project", hooks=True))
    assert told[0].endswith("take it out with: skillopt-mcp uninstall claude-code")
    assert uninstall(around, asked()) == []


def test_a_file_that_holds_two_things_of_ours_is_named_once(around: Surroundings) -> None:
    install(around, asked(scope="project", hooks=True, skill=True))
    [note, *_] = plan_uninstall(asked(), around).notes
    assert note.count(f"'{around.project / '.claude/settings.local.json'}'") == 1
    assert note.endswith("skillopt-mcp uninstall claude-code --project --hooks --skill")


@pytest.mark.parametrize("order", [("vscode", "claude-desktop"), ("claude-desktop", "vscode")])
def test_a_folder_made_for_one_host_goes_with_the_last_host_that_has_a_folder_in_it(
    order: tuple[str, str], around: Surroundings
) -> None:
    install(around, asked("vscode"))
    install(around, asked("claude-desktop"))
    first, second = order
    uninstall(around, asked(first))
    assert any(path.startswith(".config/") for path in everything(around))
    uninstall(around, asked(second))
    assert everything(around) == set()


def test_what_a_person_put_into_a_folder_that_was_made_stays_without_a_mark(around: Surroundings) -> None:
    install(around, asked("vscode"))
    install(around, asked("claude-desktop"))
    own = around.home / ".config/Claude/own.json"
    own.write_text("{}")
    uninstall(around, asked("vscode"))
    uninstall(around, asked("claude-desktop"))
    assert everything(around) == {".config", ".config/Claude", ".config/Claude/own.json"}


def test_where_both_scopes_are_the_same_file_it_is_named_once(tmp_path: Path) -> None:
    around = Surroundings(tmp_path, tmp_path, {}, "linux")
    install(around, asked("cursor"))
    assert uninstall(around, asked("cursor")) == []


# One step of a life: (what is done, a number that says how).
KINDS = ["install", "install", "install", "edit", "edit", "uninstall", "reformat", "mix"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 15)), min_size=4, max_size=12)


class Life:
    """A host's files while install, uninstall and a person take turns, and what the person wants in them."""

    def __init__(self, around: Surroundings, host: str, scope: str) -> None:
        self.around, self.host, self.scope = around, host, scope
        self.where = places(host, "project" if scope == "project" else "user", around)
        self.wanted: dict[Path, dict[str, Any]] = {self.where.config: {}}
        if self.where.hooks:
            self.wanted[self.where.hooks] = {}

    def request(self, n: int) -> Request:
        return asked(
            self.host,
            scope=self.scope,
            command=("/a/skillopt-mcp", "/b/skillopt-mcp")[n & 1],
            arguments=("serve", *(("--target", "host") if n & 2 else ())),
            hooks=bool(n & 4) and self.where.hooks is not None,
            skill=bool(n & 8),
        )

    def read(self, path: Path) -> dict[str, Any]:
        text = path.read_text() if path.exists() else ""
        value: dict[str, Any] = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text or "{}")
        return value

    def edit(self, n: int) -> None:
        """Add a key of the person's, or a server or hook of theirs, or take it away again."""
        path = list(self.wanted)[n % len(self.wanted)]
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".toml":
            name = f"mine{len(self.wanted[path])}"
            self.wanted[path][name] = {"n": n}
            path.write_text(f"{path.read_text() if path.exists() else ''}\n[{name}]\nn = {n}\n")
            return
        value, keys = self.read(path), ("plain", *self.where.servers_path[:1], "Stop")
        key = keys[n // 2 % 3]
        for each in (value, self.wanted[path]):
            if key == "plain":
                each["plain"] = n
            elif key == "Stop":
                groups = each.setdefault("hooks", {}).setdefault("Stop", [])
                groups.append({"hooks": [{"type": "command", "command": f"mine {n}"}]})
            elif n & 8:
                each.get(key, {}).pop("mine", None)
            else:
                each.setdefault(key, {})["mine"] = {"command": f"mine {n}"}
        path.write_text(json.dumps(value, indent=2) + "\n")

    def reformat(self, n: int) -> None:
        """Write what is there in another form, as a host does."""
        for path in self.wanted:
            if path.suffix == ".json" and path.exists():
                path.write_text(json.dumps(self.read(path), indent=(None, 2, 4, "\t")[n % 4]))

    def mix(self, n: int) -> None:
        """Put a hook of the person's into the first group, which may be ours."""
        path = self.where.hooks
        groups = self.read(path).get("hooks", {}).get("Stop", []) if path and path.exists() else []
        if path is None or not groups:
            return
        value, mine = self.read(path), {"type": "command", "command": f"mixed {n}"}
        is_ours = any("skillopt-mcp" in hook["command"] for hook in groups[0]["hooks"])
        value["hooks"]["Stop"][0]["hooks"].append(mine)
        wanted = self.wanted[path].setdefault("hooks", {}).setdefault("Stop", [])
        if is_ours:
            theirs = [hook for hook in groups[0]["hooks"] if "skillopt-mcp" not in hook["command"]]
            if not theirs:
                wanted.insert(0, {"hooks": []})
        wanted[0]["hooks"].append(mine)
        path.write_text(json.dumps(value, indent=2))


def filled(value: object) -> object:
    """Return a value without the objects and arrays in it that hold nothing."""
    if isinstance(value, dict):
        return {key: kept for key, each in value.items() if (kept := filled(each)) not in ({}, [])}
    return [filled(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("host", "scope"), [(host, scope) for host, scope, _ in PLACES])
@settings(max_examples=12)
@given(steps=STEPS)
def test_whatever_happens_between_nothing_of_ours_is_left_and_everything_of_the_persons_is(
    host: str, scope: str, steps: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(surroundings(Path(folder)), host, scope)
        for step, n in steps:
            if step == "install":
                install(life.around, life.request(n))
            elif step == "uninstall":
                uninstall(life.around, life.request(n))
            else:
                getattr(life, step)(n)
        whole = asked(host, scope=scope, hooks=life.where.hooks is not None, skill=True)
        uninstall(life.around, whole)
        for path, wanted in life.wanted.items():
            assert "skillopt" not in (path.read_text() if path.exists() else "")
            assert filled(life.read(path)) == filled(wanted)
        assert plan_uninstall(whole, life.around).changes == []
        assert not any(SKILL in path or AGENT in path for path in everything(life.around))


def test_the_skill_that_comes_with_us_is_listed_as_a_persons_only_once_it_is_edited(
    around: Surroundings, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(around.project)
    for host in ("claude-code", "codex"):
        install(around, asked(host, scope="project", skill=True))
    with Workspace(home / "store.db", project=around.project) as workspace:
        assert list_skills(workspace).skills == []
        found = diagnose(workspace)
        assert {root.n_skills for root in found.roots} == {0}
        assert any("no skill lies in any" in each for each in found.lacking)
        edited = around.project / ".agents/skills" / SKILL / "SKILL.md"
        edited.write_text(edited.read_text() + "\nMine.\n")
        assert [row.path for row in list_skills(workspace).skills] == [str(edited.parent)]
        assert sum(root.n_skills for root in diagnose(workspace).roots) == 1
