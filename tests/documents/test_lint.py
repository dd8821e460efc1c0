"""Lint: what the Agent Skills specification asks of a skill."""

from __future__ import annotations

import pytest
from corpus import skill

from skillopt_mcp.documents.lint import introduced, lint
from skillopt_mcp.records.skills import SkillFile, SkillFiles

SOUND = "---\nname: book-keeping\ndescription: Book receipts.\n---\n\nSee [notes](references/notes.md#top).\n"


def problems(main: str, folder: str = "book-keeping") -> tuple[str, ...]:
    return lint(skill(main, notes=b"Back to [it](../SKILL.md), [web](https://a.example) and [here](#x).\n"), folder)


def test_a_sound_skill_has_no_problem() -> None:
    assert problems(SOUND) == ()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("---\nname: book-keeping\ndescription: Book receipts.\n---\n", "", "there is no front matter"),
        ("name: book-keeping", "name: *x", "cannot be read as plain YAML"),
        ("name: book-keeping\n", "", "the name is missing"),
        ("book-keeping", "Book", 'the name "Book" is not 1 to 64 of'),
        ("book-keeping", "book--keeping", 'the name "book--keeping" is not 1 to 64 of'),
        ("book-keeping", "x" * 65, "is not 1 to 64 of"),
        ("book-keeping", "other", 'the name "other" is not that of the folder, "book-keeping"'),
        ("Book receipts.", '""', "the description is missing"),
        ("description: Book receipts.\n", "", "the description is missing"),
        ("Book receipts.", "x" * 1025, "the description has 1025 characters, 1024 are allowed"),
        ("---\n\n", f"compatibility: {'x' * 501}\n---\n\n", "compatibility has 501 characters, 500 are allowed"),
        ("---\n\n", "metadata: text\n---\n\n", "metadata is no mapping"),
        ("notes.md", "gone.md", '"SKILL.md" links to "references/gone.md", which is not there'),
        ("[notes](references/notes.md#top)", "`scripts/gone.py`", '"SKILL.md" links to "scripts/gone.py"'),
        ("See", "See\n" * 500, "SKILL.md has 506 lines; above 500"),
        ("See", "See " * 6_000, "SKILL.md has 24,0"),
    ],
)
def test_each_problem_is_told_alone(old: str, new: str, problem: str) -> None:
    found = [each for each in problems(SOUND.replace(old, new)) if problem in each]
    assert len(found) == 1, problems(SOUND.replace(old, new))


@pytest.mark.parametrize(
    "text", ["```\n[x](gone.md)\n```", "[x](mailto:a@b.example)", r"\[x](gone.md)", "[dir](references/)", "`gone.md`"]
)
def test_what_is_no_link_into_the_skill_is_let_be(text: str) -> None:
    assert problems(f"{SOUND}\n{text}\n") == ()


def test_links_of_references_start_from_their_folder() -> None:
    files = skill(SOUND, notes=b"[a](other.md) [b](references/notes.md)\n")
    assert lint(files, "book-keeping") == (
        '"references/notes.md" links to "references/other.md", which is not there',
        '"references/notes.md" links to "references/references/notes.md", which is not there',
    )


def test_a_memory_file_has_links_and_no_front_matter() -> None:
    memory = SkillFiles((SkillFile("CLAUDE.md", b"# Mine\n[x](gone.md)\n"),))
    assert lint(memory, "CLAUDE.md") == ('"CLAUDE.md" links to "gone.md", which is not there',)


def test_what_was_wrong_before_is_not_told_of_the_edit() -> None:
    before, after = skill("[x](gone.md)\n"), skill("[x](gone.md) [y](lost.md)\n")
    assert introduced(before, after, "s") == ('"SKILL.md" links to "lost.md", which is not there',)
    assert introduced(after, before, "s") == ()
