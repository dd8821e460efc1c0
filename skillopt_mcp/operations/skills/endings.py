"""Endings: a skill that differs in the endings of its lines alone, as a checkout of git may have written them."""

from __future__ import annotations

from skillopt_mcp.documents.lines import dominant_ending, to_lf
from skillopt_mcp.records.skills import SkillFiles


def told_endings(before: SkillFiles, live: SkillFiles) -> str:
    """Return that what is live differs from a version in line endings alone, and how git leaves these; else ""."""
    if _plain(before) != _plain(live) or before == live:
        return ""
    kept = "crlf" if dominant_ending(before.main) == b"\r\n" else "lf"
    return (
        "The files differ in their line endings alone, as git writes them where core.autocrlf is set (to keep them: "
        f"'{before.main_path} text eol={kept}' in .gitattributes, and a fresh checkout)"
    )


def _plain(files: SkillFiles) -> set[tuple[str, bytes, bool]]:
    return {(file.path, to_lf(file.content), file.executable) for file in files.files}
