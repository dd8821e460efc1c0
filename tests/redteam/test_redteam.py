"""Red team: what is planted in recorded sessions does not come to life by itself, and honest lessons do."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from benchmarks.craft_lessons import CRAFT_LESSONS
from benchmarks.lessons import LESSONS, TOOLS
from benchmarks.poisons import POISONS, Poison
from benchmarks.redteam import PLACEMENTS, SKILL, Placement, Yard, honest, poisoned, yard
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.promotions.consent import beyond_small_edit
from skillopt_mcp.records.edits import Edit, Patch
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles

# The benchmark plants every lesson in every place; here some of them have a turn in one.
EVERY = 3 if os.environ.get("THOROUGH") else 30
BASE = SkillFiles((SkillFile(MAIN_FILE, SKILL.format(name="clerk").encode()),))


@pytest.fixture(scope="module")
def made() -> Iterator[Yard]:
    """Return a place with a skill for each lesson."""
    with yard() as made:
        yield made


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_no_planted_lesson_becomes_a_candidate_without_a_person(made: Yard, placement: Placement) -> None:
    guarded = [each for each in POISONS if not each.coded]
    poisons = [each for each in guarded if not each.worded or placement != "everywhere"][
        PLACEMENTS.index(placement) :: EVERY
    ]
    tried = [poisoned(made, poison, placement, promote=False) for poison in poisons]
    assert "held" in {each.proposed for each in tried} <= {"held", "no_change"}
    assert all(each.findings for each in tried if each.proposed == "held")


def test_no_held_candidate_goes_live_under_the_widest_permission(made: Yard) -> None:
    poisons = [next(each for each in POISONS if each.family == family) for family in ("override", "command")]
    tried = [poisoned(made, poison, "every tool") for poison in poisons]
    assert {each.promoted for each in tried} == {"held"}


@pytest.mark.parametrize("poison", POISONS, ids=lambda poison: poison.lesson[:30])
def test_the_guard_alone_sees_every_capability(poison: Poison) -> None:
    applied = apply_patch(BASE, Patch((Edit(poison.op, content=poison.lesson, path=poison.path),)))  # type: ignore[arg-type]
    seen = findings(BASE, applied.files) or applied.reports[0].status == "unmatched"
    assert bool(seen) is not (poison.worded or poison.coded)


def test_code_that_the_guard_knows_nothing_of_does_not_go_live_under_the_widest_permission(made: Yard) -> None:
    coded = [each for each in POISONS if each.coded]
    assert len(coded) >= 4
    tried = [poisoned(made, poison, "everywhere") for poison in coded[:: EVERY // 3]]
    assert {(each.proposed, each.promoted) for each in tried} == {("candidate", "needs_approval")}


def test_hardly_any_honest_lesson_is_held(made: Yard) -> None:
    lessons = (*LESSONS, *CRAFT_LESSONS, *TOOLS)
    held = [lesson for lesson in lessons if findings(BASE, apply_patch(BASE, Patch((_adds(lesson),))).files)]
    assert len(held) <= len(lessons) * 0.05, held
    assert {honest(made, lesson).proposed for lesson in LESSONS[:: 4 * EVERY]} == {"candidate"}


def test_no_lesson_of_the_crafts_is_held() -> None:
    assert len(set(CRAFT_LESSONS)) >= 60
    added = {lesson: findings(BASE, apply_patch(BASE, Patch((_adds(lesson),))).files) for lesson in CRAFT_LESSONS}
    assert {lesson: found for lesson, found in added.items() if found} == {}


def test_a_standing_permission_asks_of_honest_lessons_only_about_those_that_are_code() -> None:
    asked = []
    for lesson in (*LESSONS, *CRAFT_LESSONS, *TOOLS):
        if beyond_small_edit(BASE, apply_patch(BASE, Patch((_adds(lesson),))).files):
            asked.append(lesson)
    assert len(asked) <= 10, asked
    assert all("`" in lesson for lesson in asked)


def _adds(lesson: str) -> Edit:
    return Edit("append", content=lesson if lesson.startswith("```") else f"- {lesson}")


def test_an_honest_lesson_goes_live_by_itself(made: Yard) -> None:
    assert honest(made, LESSONS[0], promote=True).promoted == "promoted"
