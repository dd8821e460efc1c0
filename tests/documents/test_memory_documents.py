"""A memory file is a document like SKILL.md, but for its name, and stands alone."""

from __future__ import annotations

import pytest

from skillopt_mcp.core.edits import Edit, Patch
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.documents.edits import apply_patch, region_text, rewritten, with_region

TEXT = b"# Project\n\n- Run the tests.\n"


def memory(content: bytes = TEXT, name: str = "CLAUDE.md") -> SkillFiles:
    return SkillFiles((SkillFile(name, content),))


@pytest.mark.parametrize("path", [MAIN_FILE, "CLAUDE.md"])
def test_an_edit_of_the_main_document_is_one_of_the_memory_file(path: str) -> None:
    applied = apply_patch(memory(), Patch((Edit("append", content="- Lint.", path=path),)))
    assert applied.files == memory(TEXT + b"\n- Lint.\n")
    assert [(report.path, report.status) for report in applied.reports] == [("CLAUDE.md", "applied")]


@pytest.mark.parametrize("path", ["references/more.md", "AGENTS.md", "scripts/run.sh"])
def test_no_edit_reaches_another_file_from_a_memory_file(path: str) -> None:
    applied = apply_patch(memory(), Patch((Edit("append", content="- Lint.", path=path),)))
    assert applied.files == memory()
    assert [report.reason for report in applied.reports] == ["invalid"]
    assert "stands alone" in applied.reports[0].detail


def test_regions_and_rewrites_keep_the_name_of_the_memory_file() -> None:
    guided = with_region(memory(), "SLOW_UPDATE", "- Mind the date.")
    assert [file.path for file in guided.files] == ["CLAUDE.md"]
    assert region_text(guided, "SLOW_UPDATE") == "- Mind the date."
    assert rewritten(memory(), "# New\n\n- All of it.\n") == memory(b"# New\n\n- All of it.\n")
