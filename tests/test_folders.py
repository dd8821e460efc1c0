"""Folders: what is read from a skill folder, and what is refused with a word on what to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_mcp.core.errors import BadSkill
from skillopt_mcp.core.limits import FILE_BYTES, SKILL_DEPTH, SKILL_FILES
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.workspace.skill_folders import (
    default_roots,
    find_skill_folders,
    project_folders,
    read_skill,
    skill_name,
    stamp,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a skill folder with a reference and a script."""
    path = tmp_path / "demo"
    (path / "references").mkdir(parents=True)
    (path / "scripts").mkdir()
    (path / "SKILL.md").write_bytes(b"\xef\xbb\xbf# Demo\r\n")
    (path / "references" / "notes.md").write_bytes(b"x")
    (path / "scripts" / "run.sh").write_bytes(b"#!/bin/sh\n")
    (path / "scripts" / "run.sh").chmod(0o755)
    return path


FILES = SkillFiles(
    (
        SkillFile("SKILL.md", b"\xef\xbb\xbf# Demo\r\n"),
        SkillFile("references/notes.md", b"x"),
        SkillFile("scripts/run.sh", b"#!/bin/sh\n", executable=True),
    )
)


def test_a_folder_and_its_skill_file_are_the_same_skill(folder: Path) -> None:
    assert read_skill(folder) == FILES
    assert read_skill(folder / "SKILL.md") == FILES
    assert skill_name(folder) == skill_name(folder / "SKILL.md") == "demo"


def test_dot_files_and_caches_are_left_out(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("x")
    (folder / ".DS_Store").write_bytes(b"\0")
    (folder / "scripts" / "__pycache__").mkdir()
    (folder / "scripts" / "__pycache__" / "x.pyc").write_bytes(b"\0")
    assert read_skill(folder) == FILES


def _remove_main(folder: Path) -> None:
    (folder / "SKILL.md").unlink()


def _main_in_latin_1(folder: Path) -> None:
    (folder / "SKILL.md").write_bytes(b"caf\xe9")


def _main_with_nul(folder: Path) -> None:
    (folder / "SKILL.md").write_bytes(b"a\0b")


def _link_to_a_hidden_file(folder: Path) -> None:
    (folder.parent / ".ssh").mkdir()
    (folder.parent / ".ssh" / "id").write_text("secret")
    (folder / "id.md").symlink_to("../.ssh/id")


def _link_to_a_hosts_settings(folder: Path) -> None:
    (folder.parent / ".claude").mkdir()
    (folder.parent / ".claude" / "settings.json").write_text("{}")
    (folder / "references" / "s.json").symlink_to(folder.parent / ".claude" / "settings.json")


def _link_to_the_environment(folder: Path) -> None:
    (folder / "env.txt").symlink_to("/proc/self/environ")


def _link_to_a_folder_around(folder: Path) -> None:
    (folder / "all").symlink_to("..")


def _broken_link(folder: Path) -> None:
    (folder / "references" / "gone.md").symlink_to("nowhere")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def _large_file(folder: Path) -> None:
    (folder / "big.txt").write_bytes(b"x" * (FILE_BYTES + 1))


def _large_skill(folder: Path) -> None:
    for number in range(6):
        (folder / f"{number}.txt").write_bytes(b"x" * FILE_BYTES)


def _many_files(folder: Path) -> None:
    for number in range(SKILL_FILES):
        (folder / f"{number}.txt").touch()


def _deep(folder: Path) -> None:
    folder.joinpath(*"abcdefghij"[: SKILL_DEPTH + 1]).mkdir(parents=True)


def _bad_name(folder: Path) -> None:
    (folder / "a\nb.md").touch()


def _undecodable_name(folder: Path) -> None:
    with open(os.fsencode(folder) + b"/\xff.md", "w"):
        pass


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_remove_main, 'demo" has no SKILL.md; write one'),
        (_main_in_latin_1, 'demo/SKILL.md" is not UTF-8 at byte 3; save it as UTF-8 text'),
        (_main_with_nul, 'demo/SKILL.md" has a NUL byte'),
        (_link_to_a_hidden_file, '.ssh/id", which no skill brings along'),
        (_link_to_a_hosts_settings, '.claude/settings.json", which no skill brings along'),
        (_link_to_the_environment, 'demo/env.txt" is a link to "/proc/'),
        (_link_to_a_folder_around, 'demo/all" is a link to "'),
        (_broken_link, 'demo/references/gone.md" is a link that leads to no file or folder'),
        (_pipe, 'demo/pipe" is not a regular file'),
        (_large_file, 'demo/big.txt" is larger than 1 MiB'),
        (_large_skill, '" is larger than 5 MiB'),
        (_many_files, f'" has more than {SKILL_FILES} files'),
        (_deep, "is nested too deep"),
        (_bad_name, r'demo/a\nb.md" has control characters'),
        (_undecodable_name, r'demo/\u{DCFF}.md" has control characters, a backslash or no text as its name'),
    ],
)
def test_a_folder_that_is_no_readable_skill_is_refused(
    folder: Path, spoil: Callable[[Path], None], message: str
) -> None:
    spoil(folder)
    with pytest.raises(BadSkill) as caught:
        read_skill(folder)
    assert message in str(caught.value)
    assert str(caught.value).startswith('"')


def test_what_links_lead_to_is_read_as_the_skills_own(folder: Path, tmp_path: Path) -> None:
    shared = tmp_path / ".agents" / "skills" / "shared"
    shared.mkdir(parents=True)
    (folder / "SKILL.md").rename(shared / "SKILL.md")
    (folder / "SKILL.md").symlink_to("../.agents/skills/shared/SKILL.md")
    (folder / "scripts").rename(tmp_path / "aside")
    (folder / "scripts").symlink_to(tmp_path / "aside")
    (folder / "references" / "notes.md").rename(tmp_path / "notes")
    (folder / "references" / "notes.md").symlink_to(tmp_path / "notes")
    assert read_skill(folder) == read_skill(folder / "SKILL.md") == FILES
    for each in (shared / "SKILL.md", tmp_path / "aside" / "run.sh", tmp_path / "notes"):
        seen = stamp(folder)
        each.write_bytes(b"# other\n")
        assert stamp(folder) != seen
        assert b"# other\n" in [file.content for file in read_skill(folder).files]


def test_a_path_that_is_no_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    cases = {
        tmp_path / "absent": "does not exist; check the path",
        folder / "references" / "notes.md": "is not a folder; give the skill's folder or its SKILL.md",
        tmp_path / "loop": "is not a folder",
        tmp_path / ("n" * 300): "cannot be read (File name too long)",
        Path("a\0b"): "has control characters",
        Path("a\ud800"): "has control characters",
    }
    for path, message in cases.items():
        for ask in (read_skill, stamp):
            with pytest.raises(BadSkill) as caught:
                ask(path)
            assert message in str(caught.value)


def test_a_stamp_changes_with_any_file(folder: Path) -> None:
    seen = [stamp(folder)]
    assert stamp(folder / "SKILL.md") == seen[0]

    def changed() -> bool:
        seen.append(stamp(folder))
        return seen[-1] not in seen[:-1]

    (folder / "SKILL.md").write_bytes(b"# Other\n")
    os.utime(folder / "SKILL.md", ns=(1, 1))
    assert changed()
    (folder / "references" / "more.md").write_bytes(b"y")
    assert changed()
    (folder / "scripts" / "run.sh").chmod(0o644)
    assert changed()
    (folder / "references" / "more.md").rename(folder / "references" / "renamed.md")
    assert changed()
    (folder / "references" / "renamed.md").unlink()
    assert changed()
    (folder / ".hidden").write_bytes(b"z")
    assert not changed()


def test_hosts_folders_are_named_and_their_settings_respected(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "work"
    assert default_roots(home, project, {}) == [
        project / ".claude" / "skills",
        project / ".agents" / "skills",
        project / ".codex" / "skills",
        home / ".claude" / "skills",
        home / ".codex" / "skills",
        home / ".agents" / "skills",
    ]
    moved = default_roots(home, project, {"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x"})
    assert moved[3:5] == [Path("/c/skills"), Path("/x/skills")]
    assert default_roots(home, project, {"CODEX_HOME": ""}) == default_roots(home, project, {})
    assert len(default_roots(home, home, {})) == 3


def test_skills_of_the_folders_around_are_found_up_to_the_checkout_of_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, checkout = tmp_path / "home", tmp_path / "outer" / "work"
    project = checkout / "apps" / "web"
    project.mkdir(parents=True)
    assert project_folders(project) == [project]
    (tmp_path / ".git").touch()
    (checkout / ".git").touch()
    assert project_folders(project) == [project, checkout / "apps", checkout]
    assert project_folders(checkout) == [checkout]
    assert [root.parent.parent for root in default_roots(home, project, {})[:9:3]] == project_folders(project)
    monkeypatch.setattr("os.geteuid", lambda: (checkout / ".git").stat().st_uid + 1)
    assert project_folders(project) == [project]


def test_skills_are_found_right_inside_the_roots_and_once(folder: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one / "b", one / "a", one / ".system", one / "empty", one / "c" / "inner", two):
        path.mkdir(parents=True)
    for path in (one / "b", one / "a", one / ".system", one / "c" / "inner"):
        (path / "SKILL.md").touch()
    (one / "file").touch()
    (two / "linked").symlink_to(one / "a")
    (two / "outside").symlink_to(folder)
    assert find_skill_folders([one, tmp_path / "absent", two]) == [one / "a", one / "b", two / "outside"]
