"""Readable: what may stand in a folder is what is read from it, whatever an edit, a version or a disk names it."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt_mcp.core.edits import Edit, Patch
from skillopt_mcp.core.errors import BadInput, BadSkill
from skillopt_mcp.core.limits import FILE_BYTES, SKILL_BYTES, SKILL_DEPTH, SKILL_FILES
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.core.text import path_fault, unreadable
from skillopt_mcp.documents.edits import apply_patch, rewritten, with_region
from skillopt_mcp.documents.live_files import replace_files
from skillopt_mcp.workspace.skill_folders import read_skill
from tests.disk import MEMORY

MAIN = SkillFile("SKILL.md", b"# Skill\n")
DEEPEST = "/".join("abcdefghijk"[: SKILL_DEPTH - 1]) + "/x.md"
PARTS = (
    "references", "References", "__pycache__", ".git", "a", "A", "b", "caf\u00e9", "cafe\u0301", "a.md", "A.md", "x.md",
    "con.md", "a ", " a", "a.", "..", ".", "", "a\\b", "a:b", "a\nb", "\u202e", "\ud800", "n" * 252 + ".md",
    "\U0001f600" * 62, "\U0001f600" * 90, "SKILL.md", "notes.txt",
)  # fmt: skip
paths = st.lists(st.sampled_from(PARTS), min_size=1, max_size=SKILL_DEPTH + 2).map("/".join)
folders = st.lists(st.sampled_from(["a", "b", "A", "x.md", "__pycache__", "caf\u00e9"]), max_size=SKILL_DEPTH).map(
    "/".join
)
edit_paths = st.builds(
    "references/{}{}".format,
    folders.map(lambda path: path and f"{path}/"),
    st.sampled_from(["x.md", "a", "y.md", "n" * 253 + ".md"]),
)
edit_paths |= st.builds("references/{}{}".format, paths, st.sampled_from(["", ".md"]))


def skill(*others: SkillFile) -> SkillFiles:
    return SkillFiles((MAIN, *others))


def put(folder: Path, files: SkillFiles) -> None:
    for file in files.files:
        place = folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.content)


@given(st.lists(paths, max_size=3), st.lists(edit_paths, min_size=1, max_size=3))
@settings(max_examples=150)
def test_what_an_edit_makes_is_written_and_read_back_as_it_is(there: list[str], new: list[str]) -> None:
    before = skill(*(SkillFile(path, b"x\n") for path in sorted(set(there) - {MAIN.path})))
    if unreadable(before):
        before = skill()
    applied = apply_patch(before, Patch(tuple(Edit("append", content="y", path=path) for path in new)))
    with tempfile.TemporaryDirectory(dir=MEMORY) as place, pytest.MonkeyPatch.context() as quick:
        quick.setattr(os, "fsync", lambda _: None)
        folder = Path(os.path.realpath(place), "skill")
        put(folder, before)
        replace_files(folder, before, applied.files)
        assert read_skill(folder).digest == applied.files.digest
        replace_files(folder, applied.files, before)
        assert read_skill(folder).digest == before.digest


@given(paths)
@settings(max_examples=150)
def test_a_path_has_no_fault_where_a_file_at_it_is_read(path: str) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        folder = Path(place, "skill")
        put(folder, skill())
        files, found = skill(SkillFile(path, b"x")), skill()
        # What leads out of the folder is written nowhere.
        leads_out = os.path.isabs(path) or os.path.normpath(path).startswith("..")
        with suppress(OSError, UnicodeEncodeError, BadSkill):
            if not leads_out:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(b"x")
                found = read_skill(folder)
        assert (unreadable(files) == "") is (found == files)


@pytest.mark.parametrize("path", [DEEPEST, "n" * 255, "a b/c.md", "References/x", "__pycache__.md", "a.git/b"])
def test_a_plain_path_has_no_fault(path: str) -> None:
    assert path_fault(path) == ""


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        (SkillFiles(()), "the skill has no SKILL.md"),
        (SkillFiles((SkillFile("a/CLAUDE.md", b"x"),)), "the skill has no SKILL.md"),
        (SkillFiles((SkillFile("SKILL.md", b"\xff"),)), '"SKILL.md" is not UTF-8 text'),
        (skill(SkillFile("a", b"x"), SkillFile("a/b", b"x")), "two of its files would have the same place"),
        (skill(SkillFile("a", b"x"), SkillFile("a", b"y")), "two of its files would have the same place"),
        (skill(SkillFile("a", b"x" * (FILE_BYTES + 1))), '"a" would be larger than 1 MiB'),
        (skill(*(SkillFile(str(n), b"") for n in range(SKILL_FILES))), "the skill would have more than 200 files"),
        (
            skill(*(SkillFile(str(n), b"x" * FILE_BYTES) for n in range(SKILL_BYTES // FILE_BYTES))),
            "the skill would be larger than 5 MiB",
        ),
        (SkillFiles((SkillFile("AGENTS.md", b"x"),)), ""),
        (skill(SkillFile("a", b"\xff"), SkillFile("b/c", b"")), ""),
    ],
)
def test_a_version_that_no_folder_holds_says_why(files: SkillFiles, fault: str) -> None:
    assert unreadable(files) == fault


def test_neither_a_rewrite_nor_a_region_outgrows_the_skill() -> None:
    full = skill(*(SkillFile(str(n), b"x" * FILE_BYTES) for n in range(4)), SkillFile("5", b"x" * (FILE_BYTES - 20)))
    assert unreadable(full) == ""
    assert rewritten(full, "# Skill\n\nMuch more than before.\n") == "the skill would be larger than 5 MiB"
    with pytest.raises(BadInput, match="would be larger than 5 MiB"):
        with_region(full, "APPENDIX", "a note")
