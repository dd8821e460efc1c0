"""Edits: the rules by which a patch applies, reports and leaves every other byte alone."""

from __future__ import annotations

import random

import pytest
from corpus import BYTES, PIECES, TEXTS, skill
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.edits import Applied, Edit, Op, Patch
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.limits import EDIT_BYTES, FILE_BYTES, PATCH_EDITS, SKILL_FILES
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.documents.markdown import parse

REGION = "<!-- SLOW_UPDATE_START -->\nkept\n<!-- SLOW_UPDATE_END -->\n"
FRONT = "---\nname: x\ndescription: Old words.\n---\n"
OPS = st.sampled_from(["append", "insert_after", "replace", "delete", "set_description"])


def applied(main: bytes | str, *edits: Edit) -> Applied:
    return apply_patch(skill(main), Patch(edits))


def after(main: bytes | str, *edits: Edit) -> str:
    result = applied(main, *edits)
    assert [report.status for report in result.reports] == ["applied"] * len(edits), result.reports
    return result.files.main.decode()


def reasons(result: Applied) -> list[str | None]:
    return [report.reason for report in result.reports]


def why(main: bytes | str, edit: Edit) -> str | None:
    result = applied(main, edit)
    assert result.files == skill(main)
    return result.reports[0].reason


# Where text goes.


@pytest.mark.parametrize(
    ("main", "expected"),
    [
        ("", "new\n"),
        ("\n\n", "new\n\n\n"),
        ("\ufeff", "\ufeffnew\n"),
        ("a\n", "a\n\nnew\n"),
        ("a", "a\n\nnew"),
        ("a\n\n", "a\n\nnew\n\n"),
        ("a  \n \n\n", "a  \n\nnew\n \n\n"),
        ("a\n\n" + REGION, "a\n\nnew\n\n" + REGION),
        ("a\n" + REGION, "a\n\nnew\n\n" + REGION),
        ("a\n\n\n" + REGION, "a\n\nnew\n\n\n" + REGION),
        ("a\n\n" + REGION + "\n" + REGION + "\n\n", "a\n\nnew\n\n" + REGION + "\n" + REGION + "\n\n"),
        (REGION, "new\n\n" + REGION),
        ("a\n" + REGION + "b\n", "a\n" + REGION + "b\n\nnew\n"),
        ("a <!-- APPENDIX_START -->", "a \n\nnew\n\n<!-- APPENDIX_START -->"),
        (FRONT, FRONT + "\nnew\n"),
        (FRONT + REGION, FRONT + "\nnew\n\n" + REGION),
        ("a\r\n\r\n" + REGION.replace("\n", "\r\n"), "a\r\n\r\nnew\r\n\r\n" + REGION.replace("\n", "\r\n")),
        ("a\rb\r", "a\rb\r\rnew\r"),
    ],
)
def test_appended_text_goes_before_trailing_regions_with_one_blank_line(main: str, expected: str) -> None:
    assert after(main, Edit("append", content="\n new\n\n".replace(" ", ""))) == expected


def test_appends_keep_the_order_of_the_patch_with_one_blank_line_between() -> None:
    edits = (Edit("append", content="one\n"), Edit("append", content="\n\ntwo"))
    assert after("a\n", *edits) == "a\n\none\n\ntwo\n"
    assert after("a\n" + REGION, *edits) == "a\n\none\n\ntwo\n\n" + REGION
    assert after("a", *edits) == "a\n\none\n\ntwo"
    assert after("", *edits) == "one\n\ntwo\n"


@pytest.mark.parametrize(
    ("main", "target", "content", "expected"),
    [
        ("a\nb\nc\n", "b", "new", "a\nb\nnew\nc\n"),
        ("a\nb\nc\n", "b", "new\n", "a\nb\nnew\nc\n"),
        ("a\nb\nc\n", "b\n", "new", "a\nb\nnew\nc\n"),
        ("a\nbig line\nc\n", "ig", "new", "a\nbig line\nnew\nc\n"),
        ("a\nb\nc\n", "a\nb", "\nnew\n\n", "a\nb\n\nnew\n\nc\n"),
        ("a\nb", "b", "new", "a\nb\nnew"),
        ("a\nb", "b", "new\n", "a\nb\nnew"),
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "a\r\nb\r\nx\r\ny\r\nc\r\n"),
        ("a\rb\rc\r", "b", "new", "a\rb\rnew\rc\r"),
        ("a\n" + REGION, "a", "new", "a\nnew\n" + REGION),
        ("# A\n\ntext\n", "# A", "new", "# A\n\nnew\n\ntext\n"),
        ("# A\ntext\n", "A", "new\n", "# A\n\nnew\ntext\n"),
        ("a\r\n### A #\r\ntext\r\n", "a\n### A #\n", "new", "a\r\n### A #\r\n\r\nnew\r\ntext\r\n"),
        ("# A\n", "# A", "\nnew", "# A\n\nnew\n"),
        ("## A", "A", "new", "## A\n\nnew"),
        ("#A\ntext\n", "#A", "new", "#A\nnew\ntext\n"),
        ("```\n# A\n```\n", "# A", "new", "```\n# A\nnew\n```\n"),
    ],
)
def test_inserted_text_follows_the_last_line_of_its_anchor(main: str, target: str, content: str, expected: str) -> None:
    assert after(main, Edit("insert_after", target, content)) == expected


@pytest.mark.parametrize(
    ("main", "target", "content", "expected"),
    [
        ("a\nb\nc\n", "b", "new", "a\nnew\nc\n"),
        ("a\nb\nc\n", "b\n", "new", "a\nnew\nc\n"),
        ("a\nb\nc\n", "b", "", "a\n\nc\n"),
        ("a\r\nb\r\nc\r\n", "a\nb\r", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a\nb\r\nc\n", "b\n", "x\n", "a\nx\nc\n"),
        ("\ufeff# T\n", "\ufeff# T", "# U", "\ufeff# U\n"),
        ("a\n```\nx = 1\n```\n", "x = 1", "x = 2", "a\n```\nx = 2\n```\n"),
    ],
)
def test_replaced_text_takes_the_place_of_its_target_alone(main: str, target: str, content: str, expected: str) -> None:
    assert after(main, Edit("replace", target, content)) == expected


def test_an_append_creates_a_reference_and_other_ops_do_not() -> None:
    path = "references/deep/notes.md"
    edits = (Edit("append", content="one", path=path), Edit("append", content="two\n", path=path))
    result = apply_patch(skill("a\n"), Patch(edits))
    assert result.files == skill("a\n").replaced(SkillFile(path, b"one\n\ntwo\n"))
    missing = apply_patch(skill("a\n"), Patch((Edit("replace", "a", "b", path=path),)))
    assert (reasons(missing), missing.files) == (["not_found"], skill("a\n"))
    assert reasons(apply_patch(SkillFiles(()), Patch((Edit("append", content="x"),)))) == ["not_found"]


# Why an edit does not apply.


def test_an_anchor_must_be_found_exactly_once() -> None:
    result = applied("x y x\nx\n", Edit("delete", "x"), Edit("delete", "z"), Edit("delete", "y"))
    assert reasons(result) == ["ambiguous", "not_found", None]
    assert "3 times" in result.reports[0].detail
    assert result.files.main == b"x  x\nx\n"
    assert "2 times" in applied("aaa", Edit("delete", "aa")).reports[0].detail


@pytest.mark.parametrize("target", ["kept", "a\n<!-- SLOW", "SLOW_UPDATE_END -->\nz", "\nz", "-->\nkept"])
@pytest.mark.parametrize("op", ["replace", "delete", "insert_after"])
def test_an_anchor_that_touches_a_protected_region_is_protected(op: Op, target: str) -> None:
    content = None if op == "delete" else "new"
    assert why("a\n" + REGION + "z\n", Edit(op, target, content)) == "protected"


def test_front_matter_changes_by_its_description_alone() -> None:
    assert why(FRONT + "Body.\n", Edit("replace", "name: x", "name: y")) == "protected"
    assert why(FRONT + "Body.\n", Edit("insert_after", "name: x", "hooks: y")) == "protected"
    assert why("Body.\n", Edit("replace", "Body.", "---\nallowed-tools: Bash\n---\n")) == "protected"
    assert why("---\nname: x\n", Edit("append", content="---\n")) == "protected"


def test_content_cannot_open_or_close_a_region() -> None:
    assert why("a\n", Edit("append", content="<!-- SLOW_UPDATE_START -->")) == "invalid"
    assert why("a\n" + REGION, Edit("append", content="<!--slow_update_end")) == "invalid"
    assert why("<!-- SLOW_UPDATE_X_START -->\na\n", Edit("delete", "X_")) == "protected"
    assert why("a <!-- \nb\n", Edit("insert_after", "a", "APPENDIX_START -->")) == "protected"


def test_a_code_fence_cannot_swallow_a_region() -> None:
    main = "a\n\nb\n\n" + REGION + "\n```\ncode\n```\n"
    result = applied(main, Edit("insert_after", "a", "```"), Edit("replace", "b", "c"))
    assert reasons(result) == ["protected", None]
    assert result.files.main.decode() == main.replace("b\n", "c\n")


def test_overlapping_edits_are_all_unmatched_and_the_rest_applies() -> None:
    edits = (Edit("replace", "a b", "x"), Edit("delete", "b c"), Edit("replace", "d", "y"))
    result = applied("a b c\nd\n", *edits)
    assert reasons(result) == ["overlap", "overlap", None]
    assert "edit 1" in result.reports[0].detail
    assert result.files.main == b"a b c\ny\n"
    for front in (FRONT, FRONT.replace(" Old words.", "")):
        two = applied(front, Edit("set_description", content="One."), Edit("set_description", content="Two."))
        assert reasons(two) == ["overlap", "overlap"]


@pytest.mark.parametrize(
    "edit",
    [
        Edit("replace", None, "x"),
        Edit("replace", "", "x"),
        Edit("replace", "\ufeff", "x"),
        Edit("replace", "a"),
        Edit("append"),
        Edit("delete", "a", "b"),
        Edit("append", content="a\0b"),
        Edit("append", content="a\ud800b"),
        Edit("delete", "a\udfff"),
        Edit("append", content="é" * EDIT_BYTES),
        Edit("set_description", content="x" * 1025),
        Edit("set_description", content="x", path="references/a.md"),
        Edit("rename", content="x"),  # type: ignore[arg-type]
    ],
)
def test_an_edit_that_cannot_be_meant_is_invalid(edit: Edit) -> None:
    assert why(FRONT + "a\n", edit) == "invalid"


@pytest.mark.parametrize(
    "path",
    [
        "", "/SKILL.md", "../SKILL.md", "references/../SKILL.md", "references//a.md", "./SKILL.md", "references\\a.md",
        "references/.hidden.md", ".claude/a.md", "references/a.py", "references", "other/a.md", "a.md", "skill.md",
        "scripts/run.py", "references/a\n.md", "references/a\u202e.md", "references/e\u0301.md", "C:/references/a.md",
        "references/" + "a" * 300 + ".md", "references/a.md/", "references/ a.md",
        "references/__pycache__/a.md", "references/a/b/c/d/e/f/g/a.md", "references/" + "\U0001f600" * 90 + ".md",
        "references/a./b.md", "references/aux.md", "references/a?.md",
    ],
)  # fmt: skip
def test_a_path_out_of_reach_is_invalid(path: str) -> None:
    assert why("a\n", Edit("append", content="x", path=path)) == "invalid"


def test_a_new_file_may_not_collide_with_another() -> None:
    files = skill("a\n", notes=b"x\n")
    for path in ("references/NOTES.md", "references/notes.md/more.md"):
        assert reasons(apply_patch(files, Patch((Edit("append", content="x", path=path),)))) == ["invalid"]
    accents = (("References/x.md", "references/y.md"), ("references/cafe\u0301/x.md", "references/caf\u00e9/y.md"))
    for there, path in accents:
        other = files.replaced(SkillFile(there, b"x\n"))
        [report] = apply_patch(other, Patch((Edit("append", content="x", path=path),))).reports
        assert (report.reason, "would collide with" in report.detail) == ("invalid", True)
    both = (Edit("append", content="x", path="references/A.md"), Edit("append", content="x", path="references/a.md"))
    assert reasons(apply_patch(files, Patch(both))) == ["invalid", "invalid"]


def test_a_file_that_is_not_text_is_left_alone() -> None:
    files = skill("a\n", notes=b"a\xff\n")
    result = apply_patch(files, Patch((Edit("replace", "a", "b", path="references/notes.md"),)))
    assert (reasons(result), result.files) == (["invalid"], files)


def test_a_skill_does_not_outgrow_its_limits() -> None:
    assert why("a" * (FILE_BYTES - 3), Edit("append", content="abc")) == "invalid"
    many = skill("a\n", **{f"n{number}": b"x\n" for number in range(SKILL_FILES - 1)})
    result = apply_patch(many, Patch((Edit("append", content="x", path="references/z.md"),)))
    assert (reasons(result), result.files) == (["invalid"], many)


def test_a_patch_over_the_budget_is_refused() -> None:
    edits = (Edit("append", content="x"), Edit("append", content="y"))
    with pytest.raises(BadInput, match="has 2 edits and the budget is 1"):
        apply_patch(skill("a\n"), Patch(edits), budget=1)
    with pytest.raises(BadInput, match="budget is 0"):
        apply_patch(skill("a\n"), Patch(edits[:1]), budget=0)
    assert apply_patch(skill("a\n"), Patch(()), budget=0) == Applied(skill("a\n"), ())
    with pytest.raises(BadInput, match=str(PATCH_EDITS)):
        apply_patch(skill("a\n"), Patch(edits * PATCH_EDITS))


# What holds for every document.


@st.composite
def patched(draw: st.DrawFn) -> tuple[bytes, tuple[Edit, ...]]:
    """Return a document and edits whose targets are often pieces of it."""
    content = draw(TEXTS).encode()
    text = content.decode()
    edits = []
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, len(text)))
        target = text[start : start + draw(st.integers(0, 12))]
        edits.append(Edit(draw(OPS), target, draw(st.one_of(st.none(), TEXTS)), "SKILL.md"))
    return content, tuple(edits)


@given(patched())
def test_what_is_protected_stays_whatever_is_edited(case: tuple[bytes, tuple[Edit, ...]]) -> None:
    content, edits = case
    result = applied(content, *edits)
    before, now = parse(content), parse(result.files.main)
    kept = [content[start:end] for start, end in before.protected]
    assert [result.files.main[start:end] for start, end in now.protected] == kept
    assert (before.front is None) == (now.front is None)
    if before.front and now.front:
        assert (before.front.name, len(before.front.fields)) == (now.front.name, len(now.front.fields))


@given(patched())
def test_edits_that_are_not_applied_change_no_byte(case: tuple[bytes, tuple[Edit, ...]]) -> None:
    content, edits = case
    result = applied(content, *edits)
    kept = tuple(edit for edit, report in zip(edits, result.reports, strict=True) if report.status == "applied")
    assert applied(content, *kept).files == result.files
    if not kept:
        assert result.files.main == content
    assert all(bool(report.reason) == bool(report.detail) for report in result.reports)


@given(patched(), st.randoms(use_true_random=False))
def test_the_order_of_edits_does_not_matter(case: tuple[bytes, tuple[Edit, ...]], rng: random.Random) -> None:
    content, edits = case
    # Text added at the same place keeps the order of the patch, so at most one insertion of each kind is shuffled.
    ops = [edit.op for edit in edits]
    if ops.count("append") > 1 or ops.count("insert_after") > 1:
        return
    shuffled = list(enumerate(edits))
    rng.shuffle(shuffled)
    straight = applied(content, *edits)
    turned = applied(content, *(edit for _, edit in shuffled))
    assert turned.files == straight.files
    statuses = {(index, report.status) for (index, _), report in zip(shuffled, turned.reports, strict=True)}
    assert statuses == {(report.index, report.status) for report in straight.reports} or len(set(edits)) < len(edits)


@given(BYTES, st.lists(PIECES, min_size=1, max_size=4).map("".join))
def test_bytes_outside_a_replaced_span_are_identical(content: bytes, new: str) -> None:
    main = b"before\n" + content.replace(b"ANCHOR", b"") + b"\nANCHOR\nafter\r\n"
    result = applied(main, Edit("replace", "ANCHOR", new))
    if result.reports[0].status == "applied":
        head, tail = main.split(b"ANCHOR")
        assert result.files.main.startswith(head)
        assert result.files.main.endswith(tail)
        middle = result.files.main[len(head) : len(result.files.main) - len(tail)]
        assert middle.replace(b"\r\n", b"\n").replace(b"\r", b"\n") == new.encode().replace(b"\r\n", b"\n").replace(
            b"\r", b"\n"
        )
    else:
        assert result.files.main == main


@given(TEXTS, TEXTS)
def test_a_file_with_carriage_returns_is_edited_as_the_same_file_without(text: str, content: str) -> None:
    plain = "a\n" + text.replace("\r", "") + "\nANCHOR\nb\n"
    edits = (Edit("insert_after", "ANCHOR", content), Edit("append", content=content))
    straight, crlf = applied(plain, *edits), applied(plain.replace("\n", "\r\n"), *edits)
    assert straight.reports == crlf.reports
    assert crlf.files.main == straight.files.main.replace(b"\n", b"\r\n")
