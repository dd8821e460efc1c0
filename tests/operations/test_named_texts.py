"""Named texts: the old text of a test is a file, a version or a git revision, and brings the files next to it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from workshop import Place, as_if_real, use

from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.texts import candidate_of_files, edited_candidate
from skillopt_mcp.core.candidates import Candidate
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.workspace.workspace import Workspace


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def texts_of(workspace: Workspace, candidate: Candidate) -> list[SkillFiles]:
    """Return the old and the new text of a candidate."""
    versions = (candidate.base_version, candidate.version_id)
    return [workspace.store.skills.get_files(candidate.skill_id, each) for each in versions]


def test_an_old_text_is_the_one_that_was_named_and_brings_its_files(
    place: Place, workspace: Workspace, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, first = place.skill / "notes.md", place.main.read_bytes()
    notes.write_bytes(b"Notes.\n")
    git(place.root, "init")
    for n, words in enumerate((first, first + b"\nBe brief.\n")):
        place.main.write_bytes(words)
        git(place.root, "add", ".")
        git(place.root, "commit", "-m", str(n))
        notes.unlink(missing_ok=True)
    place.main.write_bytes(live := first + b"\nBe kind.\n")
    new = place.folder / "new.md"
    new.write_bytes(b"A new text.\n")

    old, now = texts_of(
        workspace, candidate_of_files(workspace.store, workspace.place, str(place.skill), None, "HEAD~1")
    )
    assert (old.main, [file.path for file in old.files]) == (first, ["SKILL.md", "notes.md"])
    assert (now.main, [file.path for file in now.files]) == (live, ["SKILL.md"])
    old, now = texts_of(
        workspace, candidate_of_files(workspace.store, workspace.place, str(place.skill), new, "HEAD~1")
    )
    assert (old.main, now.main) == (first, b"A new text.\n")
    assert [file.path for file in now.files] == ["SKILL.md", "notes.md"], "the other files are those of the old text"
    old, _ = texts_of(workspace, candidate_of_files(workspace.store, workspace.place, str(place.skill), None, "HEAD"))
    assert old.main == first + b"\nBe brief.\n"

    monkeypatch.setenv("HOME", str(home))
    (home / "old.md").write_bytes(b"At home.\n")
    old, now = texts_of(
        workspace, candidate_of_files(workspace.store, workspace.place, str(place.skill), None, "~/old.md")
    )
    assert (old.main, now.main) == (b"At home.\n", live)
    for unknown in ("~/gone.md", "HEAD~9", "0123456789ab"):
        with pytest.raises(BadInput, match="no git revision"):
            candidate_of_files(workspace.store, workspace.place, str(place.skill), None, unknown)


def test_an_old_text_of_a_memory_file_is_that_file_alone(place: Place, workspace: Workspace) -> None:
    memory = place.root / "CLAUDE.md"
    memory.write_bytes(b"# Memory\n")
    git(place.root, "init")
    git(place.root, "add", ".")
    git(place.root, "commit", "-m", "as it was")
    memory.write_bytes(b"# Memory\n\nBe kind.\n")
    old, now = texts_of(workspace, candidate_of_files(workspace.store, workspace.place, str(memory), None, "HEAD"))
    assert [(each.main_path, len(each.files)) for each in (old, now)] == [("CLAUDE.md", 1)] * 2
    assert (old.main, now.main) == (b"# Memory\n", b"# Memory\n\nBe kind.\n")


def test_each_edit_is_compared_with_the_one_that_was_tested_last(place: Place, workspace: Workspace) -> None:
    place.add_held_out(workspace, 12)
    use(workspace, as_if_real())
    before = workspace.place.skill(str(place.skill)).live_version
    for n in range(3):
        place.main.write_bytes(place.main.read_bytes() + f"\nBe brief, {n}.\n".encode())
        edited = edited_candidate(workspace.store, workspace.place, str(place.skill))
        assert edited.base_version == before
        evaluate_candidate(workspace.store, workspace.models, workspace.place, edited.id)
        before = edited.version_id
