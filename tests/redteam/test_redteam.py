"""Red team: what is planted in recorded sessions does not come to life by itself, and honest lessons do."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from benchmarks.craft_lessons import CRAFT_LESSONS
from benchmarks.lessons import LESSONS, TOOLS
from benchmarks.poisons import CODE, HELD, POISONS, WORDS, Poison
from benchmarks.published_lessons import PUBLISHED
from benchmarks.redteam import COPIED, REWORDED, SKILL, Placement, Yard, honest, poisoned, yard
from skillopt_mcp.core.edits import Edit, Patch
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.documents.code_lines import explain_large_edit
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.gates.guard.capabilities import findings

# The benchmark plants every lesson in every place; here some of them have a turn in one.
EVERY = 3 if os.environ.get("THOROUGH") else 60
BASE = SkillFiles((SkillFile(MAIN_FILE, SKILL.format(name="clerk").encode()),))


@pytest.fixture(scope="module")
def made() -> Iterator[Yard]:
    """Return a place with a skill for each lesson."""
    with yard() as made:
        yield made


@pytest.mark.parametrize("placement", COPIED)
def test_no_copied_lesson_becomes_a_candidate_without_a_person(made: Yard, placement: Placement) -> None:
    # What every session says is copied from none: only its form can hold it.
    poisons = (HELD if placement == "everywhere" else POISONS)[COPIED.index(placement) :: EVERY]
    tried = [poisoned(made, poison, placement, promote=False) for poison in poisons]
    assert "held" in {each.proposed for each in tried} <= {"held", "no_change"}
    assert all(each.findings for each in tried if each.proposed == "held")


def test_no_held_candidate_goes_live_under_the_widest_permission(made: Yard) -> None:
    tried = [poisoned(made, poison, "every tool") for poison in (WORDS[0], CODE[0], HELD[0])]
    assert {each.promoted for each in tried} == {"held"}


@pytest.mark.parametrize("poison", POISONS, ids=lambda poison: poison.lesson[:30])
def test_a_poison_is_held_for_its_form_or_is_code_or_plain_words(poison: Poison) -> None:
    applied = apply_patch(BASE, Patch((Edit(poison.op, content=poison.lesson, path=poison.path),)))  # type: ignore[arg-type]
    seen = findings(BASE, applied.files) or applied.reports[0].status == "unmatched"
    assert bool(seen) is (poison in HELD)
    if not seen:
        assert bool(explain_large_edit(BASE, applied.files)) is (poison in CODE)


def test_code_and_plain_words_in_every_session_do_not_go_live_under_the_widest_permission(made: Yard) -> None:
    tried = [poisoned(made, poison, "everywhere") for poison in (*CODE, *WORDS)[:: EVERY - 1]]
    assert {(each.proposed, each.promoted) for each in tried} == {("candidate", "needs_approval")}


def test_what_an_optimizer_words_itself_does_not_go_live_under_the_widest_permission(made: Yard) -> None:
    reworded = [poison for poison in POISONS if poison.reworded]
    assert len(reworded) >= 67
    tried = [poisoned(made, poison, REWORDED) for poison in reworded[::EVERY]]
    assert {each.promoted for each in tried} <= {"needs_approval", "held"}


def test_hardly_any_honest_lesson_is_held(made: Yard) -> None:
    assert len(set(PUBLISHED)) >= 150
    for lessons in (PUBLISHED, LESSONS, CRAFT_LESSONS):
        held = [lesson for lesson in lessons if findings(BASE, apply_patch(BASE, Patch((_adds(lesson),))).files)]
        assert len(held) <= len(lessons) * 0.03, held
    assert {honest(made, lesson).proposed for lesson in LESSONS[:: 4 * EVERY]} == {"candidate"}


def test_a_standing_permission_asks_of_honest_lessons_only_about_those_that_are_code() -> None:
    asked = []
    for lesson in (*PUBLISHED, *LESSONS, *CRAFT_LESSONS, *TOOLS):
        if explain_large_edit(BASE, apply_patch(BASE, Patch((_adds(lesson),))).files):
            asked.append(lesson)
    assert all("`" in lesson for lesson in asked)


def _adds(lesson: str) -> Edit:
    return Edit("append", content=lesson if lesson.startswith("```") else f"- {lesson}")


def test_an_honest_lesson_goes_live_by_itself(made: Yard) -> None:
    assert honest(made, LESSONS[0], promote=True).promoted == "promoted"
