"""Conflicts: what git leaves of a merge that nobody finished, told apart from what a text shows of one."""

from __future__ import annotations

import pytest
from corpus import skill

from skillopt_mcp.documents.conflicts import conflicts
from skillopt_mcp.documents.lint import lint

HEAD = "---\nname: book-keeping\ndescription: Book receipts.\n---\n\n"
CONFLICT = "Always:\n<<<<<<< HEAD\n- One.\n=======\n- Other.\n>>>>>>> feat\n"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_the_marks_of_an_unfinished_merge_are_told_with_their_lines(ending: str) -> None:
    files = skill((HEAD + CONFLICT).replace("\n", ending))
    told = '"SKILL.md" has the marks of an unfinished merge (line 7, 11)'
    assert list(conflicts(files)) == [told]
    (problem,) = lint(files, "book-keeping")
    assert (problem.severity, problem.text) == ("error", f"{told}: settle the conflict")


def test_one_mark_that_was_left_behind_is_enough() -> None:
    assert list(conflicts(skill(f"{HEAD}- One.\n>>>>>>> feat\n")))
    assert list(conflicts(skill(f"{HEAD}- One.\n<<<<<<<")))


def test_another_text_of_the_skill_is_looked_at_too() -> None:
    (told,) = conflicts(skill(HEAD, notes=CONFLICT.encode()))
    assert "notes" in told
    assert list(conflicts(skill(HEAD, notes=b"\0" + CONFLICT.encode()))) == []


@pytest.mark.parametrize(
    "body", ["```\n" + CONFLICT + "```\n", "Title\n=======\n", " <<<<<<< HEAD\n", "<<<<<<<< 8\n", ">>>>>>>quoted\n"]
)
def test_what_only_shows_a_conflict_is_none(body: str) -> None:
    assert list(conflicts(skill(HEAD + body))) == []
