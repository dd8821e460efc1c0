"""Hunks: the edits between two versions lead from the one to the other, and fit a third."""

from __future__ import annotations

from corpus import skill
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.edits import Patch
from skillopt_mcp.documents.diffs import derive_edits
from skillopt_mcp.documents.edits import apply_patch

FRONT = "---\nname: x\ndescription: d\n---\n"
LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "d d\n", "- e\n"]), min_size=1, max_size=12).map("".join)


@given(LINES, LINES)
def test_they_lead_from_one_version_to_the_other(before: str, after: str) -> None:
    old, new = skill(FRONT + before), skill(FRONT + after)
    edits = derive_edits(old, new)
    assert apply_patch(old, Patch(edits)).files == new


def test_a_new_reference_and_a_description_are_edits_too() -> None:
    old, new = skill(f"{FRONT}a\n"), skill('---\nname: x\ndescription: "new"\n---\na\n', notes=b"n\n")
    edits = derive_edits(old, new)
    assert [(edit.op, edit.content, edit.path) for edit in edits] == [
        ("set_description", "new", "SKILL.md"), ("append", "n\n", "references/notes.md"),
    ]  # fmt: skip
    assert apply_patch(old, Patch(edits)).files == new


def test_what_did_not_change_fits_around_somebody_elses_edit() -> None:
    base = skill("one\ntwo\nthree\nfour\nfive\n")
    ours, theirs = skill("one\n2\nthree\nfour\n5\n"), skill("zero\none\ntwo\nthree\nfour\nlast\n")
    result = apply_patch(theirs, Patch(derive_edits(base, ours)))
    assert result.files.main == b"zero\none\n2\nthree\nfour\nlast\n"
    assert [report.status for report in result.reports] == ["applied", "unmatched"]
