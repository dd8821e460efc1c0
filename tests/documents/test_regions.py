"""Regions: what the engine itself writes between markers, with every other byte left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.documents.edits import HEADING, Region, compacted, notes_in, region_text, with_notes, with_region
from skillopt_mcp.documents.markdown import parse
from skillopt_mcp.gates.guard.capabilities import findings

FRONT = "---\nname: a\ndescription: B.\n---\n"
SLOW = "<!-- SLOW_UPDATE_START -->\nold\n<!-- SLOW_UPDATE_END -->\n"
NOTES = "<!-- APPENDIX_START -->\n<!-- APPENDIX_END -->\n"


def skill(text: str) -> SkillFiles:
    return SkillFiles((SkillFile(MAIN_FILE, text.encode(), executable=True), SkillFile("references/a.md", b"x")))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{FRONT}# A\n\n{SLOW}\nend\n", f"{FRONT}# A\n\n{SLOW.replace('old', 'new')}\nend\n"),
        ("# A\n", f"# A\n\n{SLOW.replace('old', 'new')}"),
        ("# A", f"# A\n\n{SLOW.replace('old', 'new')}"),
        ("# A\r\n", f"# A\n\n{SLOW.replace('old', 'new')}".replace("\n", "\r\n")),
        ("", SLOW.replace("old", "new")),
        (f"```\n{SLOW}```\n", f"```\n{SLOW}```\n\n{SLOW.replace('old', 'new')}"),
        (f"# A\n\n{NOTES}", f"# A\n\n{NOTES}\n{SLOW.replace('old', 'new')}"),
        ("<!--SLOW_UPDATE_START-->x<!--SLOW_UPDATE_END-->", "<!--SLOW_UPDATE_START-->\nnew\n<!--SLOW_UPDATE_END-->"),
    ],
)
def test_a_region_is_written_in_its_place_or_at_the_end(before: str, after: str) -> None:
    files = with_region(skill(before), "SLOW_UPDATE", "new\n")
    assert files == skill(before).replaced(SkillFile(MAIN_FILE, after.encode(), executable=True))
    assert region_text(files, "SLOW_UPDATE") == "new"


@pytest.mark.parametrize(
    ("before", "text"),
    [
        (SLOW, "<!-- APPENDIX_START -->"),
        (SLOW, "<!-- slow_update_end"),
        (SLOW, "a\0b"),
        (SLOW, "\ud800"),
        (f"{SLOW}\n```\ncode\n```\n", "```\nan open fence"),
        ("<!-- SLOW_UPDATE_START -->\nno end\n", "new"),
    ],
)
def test_a_text_that_would_move_a_border_is_refused(before: str, text: str) -> None:
    with pytest.raises(BadInput):
        with_region(skill(before), "SLOW_UPDATE", text)


PIECES = st.sampled_from(
    ["# A", "text", "```", "~~~", "", SLOW, NOTES, "---", "> x", "<!-- APPENDIX_START -->", "\t", "- a"]
)
TEXTS = st.builds("\n".join, st.lists(PIECES, max_size=6))


@given(
    TEXTS,
    st.sampled_from(["", FRONT]),
    st.sampled_from(["\n", "\r\n"]),
    TEXTS,
    st.sampled_from(["SLOW_UPDATE", "APPENDIX"]),
)
def test_whatever_is_written_everything_around_it_stays(
    body: str, front: str, ending: str, text: str, name: Region
) -> None:
    before = skill((front + body).replace("\n", ending))
    try:
        after = with_region(before, name, text)
    except BadInput:
        return
    found, own = parse(after.main).region(name), parse(before.main).region(name)
    assert found is not None
    assert region_text(after, name) == text.replace("\r\n", "\n").strip()
    if own:
        assert after.main[: found[0]] == before.main[: own[0]]
        assert after.main[found[1] :] == before.main[own[1] :]
    else:
        assert after.main.startswith(before.main)
    assert after.get("references/a.md") == before.get("references/a.md")


def test_the_markers_that_the_engine_writes_are_no_finding() -> None:
    before = skill(f"{FRONT}# A\n")
    after = with_notes(with_region(before, "SLOW_UPDATE", "- Look twice."), ["Mind the rule."], 5)
    assert findings(before, after) == ()


def test_notes_are_kept_under_a_heading_and_read_back() -> None:
    files = with_notes(skill("# A\n"), ["One.", "Two."], 5)
    assert region_text(files, "APPENDIX") == f"{HEADING}\n\n- One.\n- Two."
    assert notes_in(files) == ("One.", "Two.")
    assert notes_in(with_notes(files, ["Three."], 2)) == ("Two.", "Three.")


@given(st.lists(st.sampled_from(["a b", "A b.", "c", "d e f"]), max_size=8), st.integers(0, 4))
def test_there_are_never_more_notes_than_allowed_and_none_twice(notes: list[str], most: int) -> None:
    kept = compacted(notes[:3], notes[3:], most)
    assert len(kept) <= (most or len(notes))
    assert len({note.casefold().rstrip(".") for note in kept}) == len(kept)
    assert compacted(kept, [], most) == kept
