"""Rewriting: a new whole text, in which front matter and protected regions keep their bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.documents.edits import rewritten
from skillopt_mcp.documents.markdown import parse

FRONT = "---\nname: a\ndescription: B.\n---\n"
SLOW = "<!-- SLOW_UPDATE_START -->\nkept\n<!-- SLOW_UPDATE_END -->\n"
NOTES = "<!-- APPENDIX_START -->\n- note\n<!-- APPENDIX_END -->\n"
OLD = f"{FRONT}\n# A\n\n- one\n\n{SLOW}\n{NOTES}"
NEW = f"{FRONT}\n# A new one\n\n- one\n- two\n\n{SLOW}\nmore\n\n{NOTES}"


def skill(text: str | bytes) -> SkillFiles:
    content = text if isinstance(text, bytes) else text.encode()
    return SkillFiles((SkillFile(MAIN_FILE, content), SkillFile("references/a.md", b"x")))


@pytest.mark.parametrize(
    "text", [NEW.rstrip("\n"), "\n" + NEW, "\ufeff" + NEW, NEW.replace("\n", "\r\n"), NEW + "\n\n"]
)
def test_blank_ends_and_the_kind_of_line_ending_make_no_difference(text: str) -> None:
    assert rewritten(skill(OLD), text) == skill(NEW)


def test_the_files_own_line_endings_and_byte_order_mark_are_kept() -> None:
    old = b"\xef\xbb\xbf" + OLD.replace("\n", "\r\n").encode()
    assert rewritten(skill(old), NEW) == skill(b"\xef\xbb\xbf" + NEW.replace("\n", "\r\n").encode())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (NEW.replace("B.", "C."), "front matter"),
        (NEW.removeprefix(FRONT), "front matter"),
        (NEW.replace("---\n", "--- \n", 1), "front matter"),
        (NEW.replace("kept", "other"), "protected"),
        (NEW.replace(SLOW, ""), "protected"),
        (NEW + SLOW, "protected"),
        (NEW.replace(SLOW, "").replace(NOTES, NOTES + SLOW), "protected"),
        (NEW.replace("<!-- SLOW_UPDATE_END -->", ""), "protected"),
        (NEW.replace(SLOW, f"```\n{SLOW}```\n"), "protected"),
        (FRONT + "\n \n", "no body"),
        ("", "front matter"),
        (NEW + "\0", "NUL"),
        (NEW + "\ud800", "surrogate"),
        (NEW + "x" * (1 << 20), "larger"),
    ],
)
def test_a_text_that_loses_what_is_protected_is_refused_with_the_reason(text: str, problem: str) -> None:
    refused = rewritten(skill(OLD), text)
    assert isinstance(refused, str)
    assert problem in refused


PIECES = st.sampled_from(
    ["# A", "- one", "```", SLOW, NOTES, "", "---", "<!-- APPENDIX_START -->", "<!-- SLOW_UPDATE_END -->"]
)
BODIES = st.builds("\n".join, st.lists(PIECES, max_size=7))


@given(BODIES, BODIES, st.sampled_from(["", FRONT]), st.sampled_from(["\n", "\r\n"]))
def test_whatever_is_accepted_has_the_seals_of_the_old_text(old: str, new: str, front: str, ending: str) -> None:
    before = skill((front + old).replace("\n", ending))
    after = rewritten(before, front + new)
    if isinstance(after, str):
        return
    one, other = parse(before.main), parse(after.main)
    assert other.content[: other.body_start] == one.content[: one.body_start]
    assert [other.content[a:b] for a, b in other.protected] == [one.content[a:b] for a, b in one.protected]
