from __future__ import annotations

import json
import os
import shlex
import stat
import sys
import tempfile
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt_mcp.admin.install.hosts import HOSTS, Scope, Surroundings, places
from skillopt_mcp.admin.install.installing import (
    AGENT,
    PLUGIN,
    SHIPPED,
    SKILL,
    InstallPlan,
    Request,
    apply_plan,
    check_server,
    plan_install,
    plan_uninstall,
)
from skillopt_mcp.backends.work_folders import WorkFolders
from skillopt_mcp.core.errors import Refused, Stale
from skillopt_mcp.core.limits import MIB
from tests.fake_claude import put_claude

PROGRAM = str(Path(sys.executable).with_name("skillopt-mcp"))
PLACES = [
    (host, scope) for host in HOSTS for scope in ("user", "project") if (host, scope) != ("claude-desktop", "project")
]


def surroundings(folder: Path) -> Surroundings:
    for name in ("home", "project"):
        (folder / name).mkdir()
    return Surroundings(folder / "home", folder / "project", {"PATH": os.environ["PATH"]}, "linux")


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    return surroundings(tmp_path)


def asked(host: str = "cursor", **more: object) -> Request:
    return Request(**{"host": host, "scope": "user", "command": PROGRAM, **more})  # type: ignore[arg-type]


def whole(host: str, scope: str = "user", **more: object) -> Request:
    files = HOSTS[host].user
    return asked(host, scope=scope, hooks=bool(files.hooks), skill=bool(files.skills), **more)


def install(around: Surroundings, request: Request) -> InstallPlan:
    plan = plan_install(request, around)
    apply_plan(plan)
    return plan


def uninstall(around: Surroundings, request: Request) -> InstallPlan:
    plan = plan_uninstall(request, around)
    apply_plan(plan)
    return plan


def everything(around: Surroundings) -> set[str]:
    """Return every file and folder there is, backups too."""
    return {str(path.relative_to(root)) for root in (around.home, around.project) for path in root.rglob("*")}


@pytest.mark.parametrize(
    "text",
    [
        b'\xef\xbb\xbf{\r\n   "mcpServers" : {} ,\r\n "numStartups":7\r\n}',
        b'{"a": [1,2], "b":"\\u00e9\\ud800",\n\t"c" : 1.10}\n\n',
        b'{"a":1}',
        b"",
        b"\n",
        b'{"history": "%s"}' % (b"x" * (MIB // 4)),
    ],
)
def test_a_file_is_restored_byte_for_byte_however_it_was_written(around: Surroundings, text: bytes) -> None:
    config = around.home / ".cursor/mcp.json"
    config.parent.mkdir()
    config.write_bytes(text)
    install(around, asked())
    assert json.loads(config.read_text("utf-8-sig"))["mcpServers"]["skillopt"]["command"] == PROGRAM
    install(around, asked(arguments=("serve", "--target", "host")))
    uninstall(around, asked())
    assert config.read_bytes() == text


def test_the_backup_holds_what_was_there_for_no_one_else_to_read(around: Surroundings) -> None:
    config = around.home / ".cursor/mcp.json"
    config.parent.mkdir()
    config.write_text('{"token": "t"}')
    config.chmod(0o640)
    [written] = apply_plan(plan_install(asked(), around))
    assert written.backup is not None
    backup = Path(written.backup)
    assert (backup.parent, backup.read_text()) == (config.parent, '{"token": "t"}')
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(config.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("host", "name"),
    [("claude-desktop", ".config/Claude/claude_desktop_config.json"), ("codex", ".codex/config.toml")],
)
def test_installing_again_keeps_the_environment_that_a_person_gave_the_server(
    host: str, name: str, around: Surroundings
) -> None:
    path = around.home / name
    install(around, asked(host))
    if host == "codex":
        path.write_text(f'{path.read_text()}\n[mcp_servers.skillopt.env]\nOPENAI_API_KEY = "sk-1"\n')
    else:
        config = json.loads(path.read_text())
        config["mcpServers"]["skillopt"]["env"] = {"OPENAI_API_KEY": "sk-1"}
        path.write_text(json.dumps(config))
    install(around, asked(host, arguments=("serve", "--target", "simulated:honest")))
    text = path.read_text()
    assert "OPENAI_API_KEY" in text
    assert "sk-1" in text
    assert "simulated:honest" in text


def test_a_file_that_somebody_changes_meanwhile_is_left_alone(around: Surroundings) -> None:
    config = around.home / ".cursor/mcp.json"
    config.parent.mkdir()
    config.write_text("{}")
    plan = plan_install(asked(), around)
    config.write_text('{"theirs": 1}')
    with pytest.raises(Stale):
        apply_plan(plan)
    assert config.read_text() == '{"theirs": 1}'


def test_a_trained_skill_is_not_replaced_by_the_shipped_one(around: Surroundings) -> None:
    request = asked("claude-code", skill=True)
    install(around, request)
    skill = around.home / ".claude/skills" / SKILL / "SKILL.md"
    skill.write_text("trained\n")
    plan = plan_install(request, around)
    assert (plan.changes, len(plan.notes)) == ([], 1)
    plan = plan_uninstall(request, around)
    assert [change.path.name for change in plan.changes] == ["settings.json", AGENT]
    assert skill.read_text() == "trained\n"


def test_a_server_that_does_not_work_is_refused_with_what_it_said(around: Surroundings) -> None:
    with pytest.raises(Refused, match="--nonsense"):
        check_server(asked(arguments=("serve", "--nonsense")), around)
    with pytest.raises(Refused, match="cannot be started"):
        check_server(asked(command="/nowhere/skillopt-mcp"), around)


@pytest.mark.parametrize("link", ["skills", f"skills/{SKILL}", f"skills/{SKILL}/SKILL.md", "agents", f"agents/{AGENT}"])
def test_what_lies_behind_a_link_is_neither_written_nor_removed(link: str, around: Surroundings) -> None:
    folder = around.home / ".claude"
    install(around, asked("claude-code", skill=True))
    (folder / link).rename(around.home / "elsewhere")
    (folder / link).symlink_to(around.home / "elsewhere")
    for plan in (make(asked("claude-code", skill=True), around) for make in (plan_install, plan_uninstall)):
        assert len([note for note in plan.notes if f"'{folder / link}' is a link" in note]) >= 1
    uninstall(around, asked("claude-code", skill=True))
    assert (around.home / "elsewhere").exists()
    assert (folder / link).is_symlink()


@pytest.mark.parametrize("link", [".claude", ".claude/skills", f".claude/skills/{SKILL}"])
def test_a_link_to_the_program_itself_leads_to_nothing_that_is_removed(link: str, around: Surroundings) -> None:
    sources = [PLUGIN / "skills" / SKILL / "SKILL.md", PLUGIN / "agents" / AGENT]
    (around.home / link).parent.mkdir(parents=True, exist_ok=True)
    (around.home / link).symlink_to(PLUGIN / Path(link).relative_to(".claude"))
    for make in (plan_install, plan_uninstall):
        plan = make(asked("claude-code", skill=True), around)
        assert not [change for change in plan.changes if change.path.is_relative_to(SHIPPED)]
        assert plan.notes
    assert all(source.exists() for source in sources)


@pytest.mark.parametrize(
    ("request_", "command"),
    [
        (asked("claude-code", scope="project"), "skillopt-mcp uninstall claude-code --project --hooks --skill"),
        (asked("claude-code"), "skillopt-mcp uninstall claude-code --project --hooks --skill"),
    ],
)
def test_what_stays_is_named_with_the_command_that_takes_it_out(
    around: Surroundings, request_: Request, command: str
) -> None:
    install(around, whole("claude-code", "project"))
    [note] = uninstall(around, request_).notes
    assert str(around.project / ".claude/settings.local.json") in note
    assert note.endswith(command)
    assert uninstall(around, whole("claude-code", "project")).notes == []
    assert everything(around) == set()


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_a_shared_file_names_the_program_as_everybody_finds_it(host: str, around: Surroundings, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/skillopt-mcp").symlink_to(PROGRAM)
    here = replace(around, environ={**around.environ, "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"})
    for place, name in ((here, "skillopt-mcp"), (replace(around, environ={"PATH": "/usr/bin"}), PROGRAM)):
        plan = plan_install(asked(host, scope="project", hooks=True), place)
        texts = {change.path.name: (change.after or b"").decode() for change in plan.changes}
        assert f'"{name}"' in texts.get("config.toml", "".join(plan.by_hand))
        # What is a person's own in a project names what surely is on their machine.
        assert PROGRAM in texts.get("settings.local.json", PROGRAM)
        assert f"'{name}'" in plan.notes[0]


# What the host's own command does, and what is left to a person


def with_claude(around: Surroundings) -> Surroundings:
    put_claude(around.home / "bin", around.home)
    return replace(around, environ={"PATH": f"{around.home / 'bin'}:/usr/bin:/bin"})


@pytest.mark.parametrize(("scope", "name"), [("user", "home/.claude.json"), ("project", "project/.mcp.json")])
def test_claude_code_s_own_command_adds_changes_and_removes_the_server(
    around: Surroundings, scope: Scope, name: str
) -> None:
    around, config = with_claude(around), around.home.parent / name
    config.write_text('{"mcpServers": {"mine": {"command": "x"}}}')
    assert [len(install(around, asked("claude-code", scope=scope)).commands) for _ in range(2)] == [1, 0]
    value = json.loads(config.read_text())
    value["mcpServers"]["skillopt"]["env"] = {"OPENAI_API_KEY": "sk-1"}
    config.write_text(json.dumps(value))
    request = asked("claude-code", scope=scope, arguments=("serve", "--target", "host"))
    plan = plan_install(request, around)
    assert "sk-1" not in "".join(map(str, plan.commands))
    [removed, _] = apply_plan(plan)
    assert json.loads(config.read_text())["mcpServers"]["skillopt"] == {
        "type": "stdio", "command": PROGRAM, "args": ["serve", "--target", "host"], "env": {"OPENAI_API_KEY": "sk-1"},
    }  # fmt: skip
    assert "sk-1" in Path(removed.backup or "").read_text(), "killed between the two commands, nothing is lost"
    uninstall(around, request)
    assert json.loads(config.read_text())["mcpServers"] == {"mine": {"command": "x"}}
    assert uninstall(around, request).commands == []


def test_a_command_of_the_host_that_fails_leaves_all_files_as_they_were(around: Surroundings) -> None:
    around = with_claude(around)
    (around.home / "bin/claude").write_text("#!/bin/sh\necho no >&2; exit 1\n")
    before = everything(around)
    with pytest.raises(Refused, match=r"'claude mcp add-json .*' failed: no"):
        install(around, asked("claude-code", hooks=True))
    assert everything(around) == before


def test_without_the_host_s_command_a_person_gets_it_to_run(around: Surroundings) -> None:
    around = replace(around, environ={"PATH": "/nowhere"})
    [todo] = install(around, asked("claude-code")).by_hand
    words = shlex.split(todo.splitlines()[-1])
    assert words[:6] == ["claude", "mcp", "add-json", "--scope", "user", "skillopt"]
    (around.home / ".claude.json").write_text(json.dumps({"mcpServers": {"skillopt": json.loads(words[6])}}))
    assert install(around, asked("claude-code")).by_hand == []
    [todo] = uninstall(around, asked("claude-code")).by_hand
    assert todo.endswith("claude mcp remove --scope user skillopt")


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("cursor", '{\n  // mine\n  "mcpServers": {},\n}\n'),
        ("cursor", '{"a": 1, "a": 2}'),
        ("cursor", '{"a": 0.1000000000000000055511151231257827}'),
        ("cursor", '{"a": 1e999}'),
        ("cursor", '{"a": NaN}'),
        ("vscode", "{}"),
        ("vscode", ""),
    ],
)
def test_a_file_that_cannot_be_rewritten_is_not_touched_and_the_person_gets_what_belongs_there(
    around: Surroundings, host: str, text: str
) -> None:
    config = places(host, "user", around).config
    config.parent.mkdir(parents=True)
    config.write_text(text)
    plan = install(around, asked(host))
    assert config.read_text() == text
    servers = HOSTS[host].servers
    snippet = json.loads(plan.by_hand[0].partition(":\n")[2])
    assert snippet[servers]["skillopt"]["command"] == PROGRAM
    config.write_text("// mine\n" + json.dumps(snippet))
    assert install(around, asked(host)).by_hand == []
    assert "take out" in uninstall(around, asked(host)).by_hand[0]
    assert config.read_text().startswith("// mine")


def test_what_surrounds_our_entries_keeps_its_order_and_indent_and_uninstall_takes_our_entries_alone(
    around: Surroundings,
) -> None:
    config = around.home / ".cursor/mcp.json"
    config.parent.mkdir()
    mine = {"z": 1, "mcpServers": {"b": {"command": "x"}, "a": {}}, "é": [1, {"k": None}]}
    config.write_text(json.dumps(mine, indent="\t", ensure_ascii=False))
    install(around, asked())
    value = json.loads(config.read_text())
    assert (list(value), list(value["mcpServers"])) == (list(mine), ["b", "a", "skillopt"])
    value["mcpServers"]["later"] = {}
    config.write_text(json.dumps(value, indent="\t", ensure_ascii=False))
    uninstall(around, asked())
    mine["mcpServers"]["later"] = {}  # type: ignore[index]
    assert config.read_text() == json.dumps(mine, indent="\t", ensure_ascii=False)


# The rules for the work of a skill


def allowed(path: Path) -> list[str]:
    found: list[str] = json.loads(path.read_text())["permissions"]["allow"]
    return found


@pytest.mark.parametrize(
    ("scope", "file"), [("user", "home/.claude/settings.json"), ("project", "project/.claude/settings.local.json")]
)
def test_the_skill_brings_the_rules_for_the_work_of_its_store_and_of_no_other(
    around: Surroundings, scope: Scope, file: str
) -> None:
    path = around.home.parent / file
    for store in ("/b/store.db", "/a/store.db"):
        install(
            around, asked("claude-code", scope=scope, arguments=("serve", "--store", store), store=store, skill=True)
        )
    folder = WorkFolders(Path("/a/store.db"), around.environ).root
    rules = allowed(path)
    assert [rule for rule in rules if "(" in rule] == [f"Read(/{folder}/**)", f"Edit(/{folder}/**)"]
    assert not {"mcp__skillopt", "mcp__skillopt__promote_skill", "mcp__skillopt__rollback_skill"}.intersection(rules)


# Whatever happens in between


# One step of a life: (what is done, a number that says how).
KINDS = ["install", "install", "install", "edit", "edit", "uninstall", "reformat", "mix"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 15)), min_size=4, max_size=12)


class Life:
    """A host's files while install, uninstall and a person take turns, and what the person wants in them."""

    def __init__(self, around: Surroundings, host: str, scope: str) -> None:
        self.around, self.host, self.scope = around, host, scope
        self.where = places(host, "project" if scope == "project" else "user", around)
        self.wanted: dict[Path, dict[str, Any]] = {} if host == "claude-code" else {self.where.config: {}}
        if self.where.hooks:
            self.wanted[self.where.hooks] = {}

    def request(self, n: int) -> Request:
        return asked(
            self.host,
            scope=self.scope,
            command=("/a/skillopt-mcp", "/b/skillopt-mcp")[n & 1],
            arguments=("serve", *(("--target", "host") if n & 2 else ())),
            hooks=bool(n & 4) and self.where.hooks is not None,
            skill=bool(n & 8) and self.where.skills is not None,
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
        value, keys = self.read(path), ("plain", self.where.host.servers, "Stop")
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


@pytest.mark.parametrize(("host", "scope"), PLACES[:4])
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
        last = whole(host, scope)
        uninstall(life.around, last)
        for path, wanted in life.wanted.items():
            assert "skillopt" not in (path.read_text() if path.exists() else "")
            assert filled(life.read(path)) == filled(wanted)
        assert plan_uninstall(last, life.around).changes == []
        assert not any(SKILL in path or AGENT in path for path in everything(life.around))
