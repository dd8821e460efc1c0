from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from skillopt_mcp.errors import BackendError, BadInput, Refused, Stale
from skillopt_mcp.installing.hosts import HOSTS, Surroundings
from skillopt_mcp.limits import MIB
from skillopt_mcp.operations.hosts.installing import (
    Request,
    apply_plan,
    check_backends,
    check_server,
    plan_install,
)
from skillopt_mcp.operations.hosts.shipping import AGENT, MADE, SHIPPED, SKILL
from skillopt_mcp.operations.hosts.uninstalling import left_behind, plan_uninstall

PROGRAM = str(Path(sys.executable).with_name("skillopt-mcp"))


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    return Surroundings(tmp_path / "home", tmp_path / "project", environ, "linux")


def asked(host: str = "claude-code", **more: object) -> Request:
    return Request(**{"host": host, "scope": "user", "command": PROGRAM, **more})  # type: ignore[arg-type]


def install(around: Surroundings, request: Request) -> list[str]:
    return [change.path for change in apply_plan(plan_install(request, around))]


def uninstall(around: Surroundings, request: Request) -> list[str]:
    return [change.path for change in apply_plan(plan_uninstall(request, around))]


def files(around: Surroundings) -> dict[str, bytes]:
    """Return all files but backups."""
    paths = [path for root in (around.home, around.project) for path in root.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in paths if not path.name.endswith("skillopt-backup")}


@pytest.mark.parametrize("host", HOSTS)
def test_what_is_installed_into_nothing_leaves_nothing_when_it_goes(host: str, around: Surroundings) -> None:
    request = asked(host, hooks=host in ("claude-code", "codex"), skill=host != "claude-desktop")
    assert len(install(around, request)) == len(files(around)) > 0
    assert install(around, request) == []
    assert uninstall(around, request)
    assert files(around) == {}


def test_a_file_is_restored_byte_for_byte_however_it_was_written(around: Surroundings) -> None:
    config = around.home / ".claude.json"
    config.write_bytes(b'\xef\xbb\xbf{\r\n   "mcpServers" : {} ,\r\n "numStartups":7\r\n}')
    before = config.read_bytes()
    install(around, asked())
    value = json.loads(config.read_text("utf-8-sig"))
    assert value["mcpServers"]["skillopt"]["command"] == PROGRAM
    assert value["numStartups"] == 7
    uninstall(around, asked())
    assert config.read_bytes() == before


def test_what_changed_since_stays_when_the_server_goes(around: Surroundings) -> None:
    config = around.home / ".claude.json"
    config.write_text('{\n  "numStartups": 7\n}\n')
    install(around, asked())
    config.write_text(config.read_text().replace("7", "8"))
    uninstall(around, asked())
    assert config.read_text() == '{\n  "numStartups": 8\n}\n'


def test_the_backup_holds_what_was_there_for_nobody_else_to_read(around: Surroundings) -> None:
    config = around.home / ".claude.json"
    config.write_text('{"token": "t"}')
    config.chmod(0o640)
    [written] = apply_plan(plan_install(asked(), around))
    assert written.backup is not None
    backup = Path(written.backup)
    assert (backup.parent, backup.read_text()) == (config.parent, '{"token": "t"}')
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(config.stat().st_mode) == 0o640


def test_a_file_larger_than_any_skill_is_changed_too(around: Surroundings) -> None:
    config = around.home / ".claude.json"
    config.write_text(json.dumps({"history": "x" * (2 * MIB)}))
    before = config.read_bytes()
    install(around, asked())
    assert len(config.read_bytes()) > len(before)
    uninstall(around, asked())
    assert config.read_bytes() == before


def test_a_link_to_a_file_kept_elsewhere_is_followed_and_stays(around: Surroundings) -> None:
    real = around.home / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text("{}")
    (around.home / ".claude.json").symlink_to(real)
    install(around, asked())
    assert (around.home / ".claude.json").is_symlink()
    assert "skillopt" in real.read_text()


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
    assert install(around, asked(host, arguments=("serve", "--target", "simulated:honest"))) == [str(path)]
    text = path.read_text()
    assert "OPENAI_API_KEY" in text
    assert "sk-1" in text
    assert "simulated:honest" in text


@pytest.mark.parametrize("host", ["claude-code", "codex"])
@pytest.mark.parametrize("written", [b"", b"\n"])
def test_what_was_installed_twice_is_gone_when_it_is_taken_out(host: str, written: bytes, around: Surroundings) -> None:
    config = around.home / (".claude.json" if host == "claude-code" else ".codex/config.toml")
    config.parent.mkdir(exist_ok=True)
    config.write_bytes(written)
    install(around, asked(host, hooks=True))
    install(around, asked(host, hooks=True, arguments=("serve", "--store", "/s.db"), store="/s.db"))
    uninstall(around, asked(host, hooks=True))
    assert files(around) == {str(config): written}


@pytest.mark.parametrize(
    ("host", "name", "content"),
    [
        ("claude-code", ".claude.json", b'{"a": 1,}'),
        ("claude-code", ".claude.json", b"\xff"),
        ("codex", ".codex/config.toml", b"a = = 1\n"),
        ("cursor", ".cursor/mcp.json", b"// only a comment\n"),
    ],
)
def test_a_file_that_does_not_parse_is_named_and_left_alone(
    host: str, name: str, content: bytes, around: Surroundings
) -> None:
    path = around.home / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(BadInput, match=name.rpartition("/")[2]):
        plan_install(asked(host), around)
    assert files(around) == {str(path): content}


def test_a_file_that_somebody_changes_meanwhile_is_left_alone(around: Surroundings) -> None:
    config = around.home / ".claude.json"
    config.write_text("{}")
    plan = plan_install(asked(), around)
    config.write_text('{"theirs": 1}')
    with pytest.raises(Stale):
        apply_plan(plan)
    assert config.read_text() == '{"theirs": 1}'


def test_a_trained_skill_is_not_replaced_by_the_shipped_one(around: Surroundings) -> None:
    request = asked(skill=True)
    install(around, request)
    skill = around.home / ".claude/skills" / SKILL / "SKILL.md"
    skill.write_text("trained\n")
    plan = plan_install(request, around)
    assert (plan.changes, len(plan.notes)) == ([], 1)
    plan = plan_uninstall(request, around)
    assert [change.path.name for change in plan.changes] == [".claude.json", "settings.json", AGENT]
    assert skill.read_text() == "trained\n"


def test_hooks_that_are_not_asked_to_go_are_mentioned(around: Surroundings) -> None:
    install(around, asked(hooks=True))
    plan = plan_uninstall(asked(), around)
    assert [change.path.name for change in plan.changes] == [".claude.json"]
    assert "--hooks" in plan.notes[0]


def test_a_program_in_a_cache_of_a_package_runner_is_warned_about(around: Surroundings) -> None:
    assert plan_install(asked(), around).notes == []
    [note] = plan_install(asked(command="/home/me/.cache/uv/archive-v0/x/bin/skillopt-mcp"), around).notes
    assert "may be cleared" in note


@pytest.mark.parametrize(("host", "what"), [("cursor", "hooks"), ("claude-desktop", "skill"), ("vscode", "hooks")])
def test_what_a_host_does_not_have_is_refused(host: str, what: str, around: Surroundings) -> None:
    with pytest.raises(BadInput, match=f"leave out --{what}"):
        plan_install(asked(host, **{what: True}), around)


def test_the_server_is_started_as_a_desktop_program_would_start_it(around: Surroundings) -> None:
    assert "record_trajectory" in check_server(asked("cursor"), around)


def test_a_server_that_does_not_work_is_refused_with_what_it_said(around: Surroundings) -> None:
    with pytest.raises(Refused, match="unrecognized arguments: --nonsense"):
        check_server(asked(arguments=("serve", "--nonsense")), around)
    with pytest.raises(Refused, match="cannot be started"):
        check_server(asked(command="/nowhere/skillopt-mcp"), around)


@pytest.mark.parametrize("spec", ["NONSENSE", "simulated:nonsense", "openai:gpt-5,nonsense=1", "claude-code"])
def test_a_backend_that_could_never_be_used_is_refused(spec: str) -> None:
    with pytest.raises(BackendError, match=spec.partition(":")[0]):
        check_backends({"--target": spec})


def test_a_backend_that_lacks_its_key_here_is_noted_for_its_host_may_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert check_backends({"--target": "simulated:honest", "--judge": "openai:gpt-5"}) == [
        "--judge: 'openai:gpt-5' needs a key: set OPENAI_API_KEY in the environment, where this host sets it for the "
        "server."
    ]


def named(around: Surroundings) -> set[str]:
    """Return all files and folders; of backups, only of what they are."""
    return {str(path.relative_to(around.home)).split(".2")[0] for path in around.home.rglob("*")}


def test_folders_that_install_made_go_when_nothing_else_is_in_them(around: Surroundings) -> None:
    (around.home / ".claude.json").write_text("{}")
    request = asked(skill=True)
    install(around, request)
    uninstall(around, request)
    assert named(around) == {".claude.json"}


def test_folders_in_which_something_lies_stay_and_so_do_links(around: Surroundings) -> None:
    (around.home / ".claude/skills/mine").mkdir(parents=True)
    (around.home / "dotfiles").mkdir()
    (around.home / ".claude/agents").symlink_to(around.home / "dotfiles")
    request = asked(skill=True)
    install(around, request)
    uninstall(around, request)
    assert named(around) == {".claude", ".claude/skills", ".claude/skills/mine", ".claude/agents", "dotfiles"}


def test_folders_that_were_there_before_stay_however_empty(around: Surroundings) -> None:
    for folder in (".claude/skills", ".agents/skills"):
        (around.home / folder).mkdir(parents=True)
    for request in (asked(skill=True), asked("codex", skill=True)):
        install(around, request)
        uninstall(around, request)
    assert named(around) == {".claude", ".claude/skills", ".agents", ".agents/skills"}


def test_a_folder_that_install_made_says_so_and_one_that_it_found_does_not(around: Surroundings) -> None:
    (around.home / ".claude").mkdir()
    install(around, asked(skill=True))
    assert {path.parent.name for path in around.home.rglob(MADE)} == {"skills", "agents"}


def test_a_folder_that_install_made_and_somebody_uses_stays_without_the_mark(around: Surroundings) -> None:
    request = asked(skill=True)
    install(around, request)
    (around.home / ".claude/skills/mine").mkdir()
    uninstall(around, request)
    assert {path for path in named(around) if path.startswith(".claude/")} == {".claude/skills", ".claude/skills/mine"}


@pytest.mark.parametrize("link", ["skills", f"skills/{SKILL}", f"skills/{SKILL}/SKILL.md", "agents", f"agents/{AGENT}"])
def test_what_lies_behind_a_link_is_neither_written_nor_removed(link: str, around: Surroundings) -> None:
    folder = around.home / ".claude"
    install(around, asked(skill=True))
    (folder / link).rename(around.home / "elsewhere")
    (folder / link).symlink_to(around.home / "elsewhere")
    before = files(around)
    for plan in (plan_install(asked(skill=True), around), plan_uninstall(asked(skill=True), around)):
        assert len([note for note in plan.notes if note.startswith(f"'{folder / link}' is a link")]) == 1
    uninstall(around, asked(skill=True))
    kept = {path: content for path, content in before.items() if path.startswith(str(around.home / "elsewhere"))}
    assert kept
    assert {path: content for path, content in files(around).items() if path in kept} == kept
    assert (folder / link).is_symlink()


@pytest.mark.parametrize("link", [f"skills/{SKILL}", f"skills/{SKILL}/SKILL.md", f"agents/{AGENT}"])
def test_nothing_is_put_at_the_end_of_a_link_that_leads_nowhere(link: str, around: Surroundings) -> None:
    path = around.home / ".claude" / link
    path.parent.mkdir(parents=True)
    path.symlink_to(around.home / "nowhere")
    plan = plan_install(asked(skill=True), around)
    apply_plan(plan)
    assert [note.partition(": ")[0] for note in plan.notes] == [f"'{path}' is a link"]
    assert not (around.home / "nowhere").exists()


@pytest.mark.parametrize("link", [".claude", ".claude/skills", f".claude/skills/{SKILL}"])
def test_a_link_to_the_program_itself_leads_to_nothing_that_is_removed(link: str, around: Surroundings) -> None:
    sources = [SHIPPED / "skills" / SKILL / "SKILL.md", SHIPPED / "agents" / AGENT]
    (around.home / link).parent.mkdir(parents=True, exist_ok=True)
    (around.home / link).symlink_to(SHIPPED / Path(link).relative_to(".claude"))
    for make in (plan_install, plan_uninstall):
        plan = make(asked(skill=True), around)
        assert not [change for change in plan.changes if change.path.is_relative_to(SHIPPED)]
        assert plan.notes
    assert all(source.exists() for source in sources)


def test_a_folder_of_a_host_that_is_a_link_itself_is_used_as_its_owner_means(around: Surroundings) -> None:
    (around.home / "dotfiles").mkdir()
    (around.home / ".claude").symlink_to(around.home / "dotfiles")
    request = asked(skill=True)
    install(around, request)
    assert (around.home / "dotfiles/skills" / SKILL / "SKILL.md").is_file()
    uninstall(around, request)
    assert named(around) == {".claude", "dotfiles"}


def test_a_shipped_file_in_whose_place_a_folder_lies_is_left_alone(around: Surroundings) -> None:
    (around.home / ".claude/skills" / SKILL / "SKILL.md").mkdir(parents=True)
    for make in (plan_install, plan_uninstall):
        assert "was trained or edited" in make(asked(skill=True), around).notes[0]


def test_the_backup_of_what_is_restored_goes_and_every_other_one_is_told(around: Surroundings) -> None:
    config = around.home / ".claude.json"
    config.write_text('{"numStartups": 7}')
    before = config.with_name(".claude.json.20010101-000000-000000.skillopt-backup")
    theirs = config.with_name(".claude.json.mine.skillopt-backup")
    for path, content in ((before, "{}"), (theirs, '{"numStartups": 7}')):
        path.write_text(content)
    [installed] = apply_plan(plan_install(asked(), around))
    [removed] = apply_plan(plan_uninstall(asked(), around))
    assert installed.backup
    assert removed.backup
    assert not Path(installed.backup).exists()
    assert left_behind(asked(), around) == [removed.backup, str(before)]
    assert theirs.exists()


def on_path(around: Surroundings, folder: Path) -> Surroundings:
    """Return surroundings in which the program is on the PATH, as those who put it there for good have it."""
    folder.mkdir()
    (folder / "skillopt-mcp").symlink_to(PROGRAM)
    return replace(around, environ={**around.environ, "PATH": f"{folder}:/usr/bin:/bin"})


def test_a_program_that_is_not_there_yet_goes_by_its_path_though_another_of_its_name_is_found(
    around: Surroundings, tmp_path: Path
) -> None:
    request = asked("claude-code", scope="project", command="/moved/bin/skillopt-mcp")
    plan = plan_install(request, on_path(around, tmp_path / "bin"))
    assert '"/moved/bin/skillopt-mcp"' in "".join((change.after or b"").decode() for change in plan.changes)


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_what_goes_with_a_project_names_the_program_as_everybody_finds_it(
    host: str, around: Surroundings, tmp_path: Path
) -> None:
    here = on_path(around, tmp_path / "bin")
    request = asked(host, scope="project", hooks=True)
    plan = plan_install(request, here)
    texts = {change.path.name: (change.after or b"").decode() for change in plan.changes}
    [config] = [text for name, text in texts.items() if name in (".mcp.json", "config.toml")]
    assert '"skillopt-mcp"' in config
    assert PROGRAM not in config
    # What is a person's own in a project names what surely is on their machine.
    assert (PROGRAM in texts.get("settings.local.json", PROGRAM)) == (PROGRAM not in texts.get("hooks.json", ""))
    note, *own = plan.notes
    assert note.endswith("each of them needs 'skillopt-mcp' on the PATH.")
    assert [each.partition(" is yours alone: ")[2] for each in own] == (
        ["keep it out of the repository (a line 'settings.local.json' in .gitignore)."] if host == "claude-code" else []
    )
    assert check_server(request, here)
    install(here, request)
    assert install(here, request) == []
    assert uninstall(here, request)
    assert files(here) == {}


def test_what_goes_with_a_project_says_so_where_it_names_what_is_only_here(
    around: Surroundings, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "skillopt-mcp").write_text("#!/bin/sh\n")
    (other / "skillopt-mcp").chmod(0o755)
    for path in ("/usr/bin:/bin", f"{other}:/usr/bin:/bin"):
        here = replace(around, environ={**around.environ, "PATH": path})
        plan = plan_install(asked(scope="project", store="/mine/s.db"), here)
        [note] = plan.notes
        assert json.loads(plan.changes[0].after or b"")["mcpServers"]["skillopt"]["command"] == PROGRAM
        assert f"lies on this machine ('{PROGRAM}')" in note
        assert "It names your store as well ('/mine/s.db')" in note
    # What a desktop program searches is not what this shell does.
    plan = plan_install(asked("cursor", scope="project"), on_path(around, tmp_path / "bin"))
    assert PROGRAM in plan.changes[0].diff
    assert plan_install(asked(), around).notes == []
