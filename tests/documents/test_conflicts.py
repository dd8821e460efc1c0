"""Conflicts: what git leaves of an unfinished merge, and what only looks like it."""

from __future__ import annotations

import pytest
from corpus import skill

from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.documents.lint import SETTLE, find_conflicts, lint

HEAD = "---\nname: book-keeping\ndescription: Book receipts.\n---\n\n"
CONFLICT = "Always:\n<<<<<<< HEAD\n- One.\n=======\n- Other.\n>>>>>>> feat\n"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_the_marks_of_an_unfinished_merge_are_shown_with_their_lines(ending: str) -> None:
    files = skill((HEAD + CONFLICT).replace("\n", ending))
    found = '"SKILL.md" has the marks of an unfinished merge (line 7, 11)'
    assert list(find_conflicts(files)) == [found]
    (problem,) = lint(files, "book-keeping")
    assert (problem.severity, problem.text) == ("advice", f"{found}: {SETTLE}")


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_program_that_holds_a_mark_is_none_and_one_that_holds_a_whole_conflict_is(ending: str) -> None:
    held = "cat <<EOF\n>>>>>>> feat\n<<<<<<< HEAD\n=======\nEOF\n"
    of_one, of_all = (SkillFile("a.sh", text.replace("\n", ending).encode()) for text in (held, CONFLICT))
    assert list(find_conflicts(SkillFiles((of_one,)))) == []
    assert list(find_conflicts(SkillFiles((of_all,))))


@pytest.mark.parametrize(
    "body", ["```\n" + CONFLICT + "```\n", "Title\n=======\n", " <<<<<<< HEAD\n", "<<<<<<<< 8\n", ">>>>>>>quoted\n"]
)
def test_what_only_shows_a_conflict_is_none(body: str) -> None:
    assert list(find_conflicts(skill(HEAD + body))) == []


def test_marks_are_distinguished_from_those_in_the_fences_around_them_and_the_first_lines_are_shown() -> None:
    fenced = "~~~\n<<<<<<< a\n~~~\n"
    (found,) = find_conflicts(skill(HEAD + (fenced + ">>>>>>> b\n") * 6 + fenced))
    assert found.endswith("(line 9, 13, 17, 21, ...)")
