"""Lint: what the Agent Skills specification asks of a skill."""

from __future__ import annotations

import time

import pytest
from corpus import skill

from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.documents.lint import Problem, lint, list_introduced

SOUND = "---\nname: book-keeping\ndescription: Book receipts.\n---\n\nSee [notes](references/notes.md#top).\n"


REFUSED_BY = {"colon": "Copilot does not list the skill", "twice": "Codex, opencode and Copilot do not load the skill",
              "closed": "Codex, opencode and Copilot do not load the skill", "&": "Codex does not load the skill",
              "tab": "Codex and Copilot do not load the skill"}  # fmt: skip


def problems(main: str, folder: str = "book-keeping") -> tuple[str, ...]:
    files = skill(main, notes=b"Back to [it](../SKILL.md), [web](https://a.example) and [here](#x).\n")
    return tuple(problem.text for problem in lint(files, folder))


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
        ("[notes](references/notes.md#top)", "`scripts/gone.py`", '"SKILL.md" names "scripts/gone.py", which is not'),
        ("notes.md#top", "../../o.md#a", '"SKILL.md" links to "references/../../o.md", which leads out of the skill'),
        ("references/notes.md#top", "..", '"SKILL.md" links to "..", which leads out of the skill'),
        ("notes.md#top", "a%20b.md", '"SKILL.md" links to "references/a%20b.md", which is not there'),
        (".\n---\n", ".\n", "the front matter is never closed: put a line of ---"),
        ("---\nname: book-keeping\ndescription: Book receipts.\n---", "---", "the front matter is never closed"),
        ("See", "See\n" * 500, "SKILL.md has 506 lines; above 500"),
        ("See", "See " * 6_000, "SKILL.md has 24,0"),
    ],
)
def test_each_problem_is_reported_alone(old: str, new: str, problem: str) -> None:
    found = [each for each in problems(SOUND.replace(old, new)) if problem in each]
    assert len(found) == 1, problems(SOUND.replace(old, new))


@pytest.mark.parametrize(
    "text", ["```\n[x](gone.md)\n```", "[x](mailto:a@b.example)", r"\[x](gone.md)", "[dir](references/)", "`gone.md`",
     "`[x](gone.md)`", "``a ` [x](gone.md)``", "`[x](gone.md)\nmore`", "<!-- [x](gone.md) -->", "<!--\n\n[x](gone.md)",
     "<!--\n```\n[x](gone.md)\n```\n`scripts/gone.py`\n-->", "- a\n\n  ~~~\n  [x](gone.md)\n  ~~~",
     "``scripts/`gone.py``",
     "<!-- SLOW_UPDATE_START -->\n```\n[x](gone.md)\n```\n<!-- SLOW_UPDATE_END -->"],
)  # fmt: skip
def test_what_is_no_link_into_the_skill_is_let_be(text: str) -> None:
    assert problems(f"{SOUND}\n{text}\n") == ()


@pytest.mark.parametrize(
    ("front", "shown"),
    [
        ("name: a\ndescription: Use it: always", 'Line 3: a colon and a space stand within a value; write the value in '
         'quotes, description: "..."'),
        ('name: a\ndescription: Say "it: this"', "Line 3: a colon and a space stand within a value; write the value in "
         "quotes, description: '...'"),
        ("name: a\ndescription: b\nname: c", 'Line 4: "name" is given twice: keep one'),
        ("name: a\ntags: [x, y", "Line 3: what begins here is never closed"),
        ('name: "a\ndescription: b', "Line 2: what begins here is never closed"),
        ("name: a\ndescription: &x y", "Line 3: a value begins with &, * or !, which are no text in YAML: write it in "
         "quotes"),
        ("name: a\n\tdescription: b", "Line 3: a tab stands where a value or an indent begins: use spaces"),
        ("- name", "Line 2: there are no fields: write name: and description:"),
        ('name: "\\Uffffffff"', "Line 1: a character or an escape in it is none that YAML allows"),
        ("a: 1\n" * 65, "Line 2: it has more than 64 lines or 8,192 bytes"),
        (f"name: {'x' * 9_000}", "Line 2: it has more than 64 lines or 8,192 bytes"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_front_matter_that_is_no_yaml_is_shown_by_its_line_cause_and_cure(front: str, shown: str, ending: str) -> None:
    (problem,) = problems(f"---\n{front}\n---\n\nBody.\n".replace("\n", ending))
    if "more than" in shown:  # a limit of ours, and of no host
        assert problem == f"the front matter was not checked, though hosts may read it: {shown[0].lower()}{shown[1:]}"
        return
    hosts = next((hosts for word, hosts in REFUSED_BY.items() if word in shown), "hosts may not find the skill")
    assert problem == f"the front matter cannot be read as plain YAML: {hosts}. {shown}"


@pytest.mark.parametrize(
    "text",
    ["[r][ref]\n\n[ref]: gone.md", "[ref][]\n\n[REF]: <gone.md> 'A title'", "[ref]\n# T\n[ref]: gone.md#part",
     "[a]: SKILL.md\n[ref]: gone.md\n\nSee ![r][ref].", "[r][my  ref]\n\n[My ref]: gone.md"],
)  # fmt: skip
def test_a_reference_link_counts(text: str) -> None:
    assert problems(f"{SOUND}\n{text}\n") == ('"SKILL.md" links to "gone.md", which is not there',)


@pytest.mark.parametrize("unit", ["[", "[](x", "[](x '", "\\\\[", "[a]: b\n", "[](<"])
def test_brackets_are_looked_through_in_a_moment(unit: str) -> None:
    started = time.process_time()
    problems(f"{SOUND}{unit * 40_000}")
    assert time.process_time() - started < 3


def test_what_the_specification_forbids_is_an_error_and_all_else_advice() -> None:
    long = skill("See\n" * 600 + "x" * 20_000 + " `scripts/gone.py` [x](gone.md)")
    assert [problem.severity for problem in lint(long, "s")] == ["error", *["advice"] * 4]


def test_links_of_references_start_from_their_folder() -> None:
    files = skill(SOUND, notes=b"[a](other.md) [b](references/notes.md)\n")
    shown = '"references/notes.md" links to'
    assert [problem.text for problem in lint(files, "book-keeping")] == [
        f'{shown} "other.md", which is not there (no "references/other.md")',
        f'{shown} "references/notes.md", which is not there (no "references/references/notes.md")',
    ]
    up = skill(SOUND, notes=b"[a](../none.md) [b](../SKILL.md) [c](../../none.md)\n")
    assert [problem.text for problem in lint(up, "book-keeping")] == [
        f'{shown} "../none.md", which is not there (no "none.md")',
        f'{shown} "../../none.md", which leads out of the skill: who copies its folder alone lacks it',
    ]


def test_a_memory_file_has_links_and_no_front_matter() -> None:
    memory = SkillFiles((SkillFile("CLAUDE.md", b"# Mine\n[x](gone.md)\n"),))
    (problem,) = lint(memory, "CLAUDE.md")
    assert problem == Problem("advice", '"CLAUDE.md" links to "gone.md", which is not there')


def test_what_was_wrong_before_is_not_reported_of_the_edit() -> None:
    before, after = skill("[x](gone.md)\n"), skill("[x](gone.md) [y](lost.md)\n")
    assert list_introduced(before, after, "s") == ('"SKILL.md" links to "lost.md", which is not there',)
    assert list_introduced(after, before, "s") == ()
