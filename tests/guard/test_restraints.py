"""Restraints: what a skill forbids stays, or a person sees that it goes."""

import pytest

from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.records.skills import SkillFile, SkillFiles

TEXT = """\
# Release

- Never create a tag or push anything.
- Ask the user before you publish.
- Never deploy without asking.
- Do not round intermediate values.

Whoever works here must not
delete files of others. It goes on.
"""


def skill(*texts: str) -> SkillFiles:
    names = ("SKILL.md", *(f"references/{n}.md" for n in range(len(texts))))
    return SkillFiles(tuple(SkillFile(name, text.encode()) for name, text in zip(names, texts, strict=False)))


def taken(after: str) -> list[str]:
    told = [each for each in findings(skill(TEXT), skill(after)) if "forbidden" in each]
    return [each.partition(": ")[2].strip('"') for each in told]


@pytest.mark.parametrize(
    ("old", "new", "restraint"),
    [
        ("- Never create a tag or push anything.\n", "", "never create a tag or push anything"),
        ("Never create a tag or push anything.", "Create the tag.", "never create a tag or push anything"),
        ("push anything.", "push anything unless the tests pass.", "never create a tag or push anything"),
        ("- Ask the user before you publish.\n", "", "ask the user before you publish"),
        ("Never deploy without asking", "Deploy when the tests pass", "never deploy without asking"),
        ("must not\ndelete", "may delete", "whoever works here must not delete files of others"),
    ],
)
def test_a_restraint_that_goes_is_told(old: str, new: str, restraint: str) -> None:
    assert taken(TEXT.replace(old, new)) == [restraint]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- Do not round intermediate values.\n", ""),
        ("It goes on.", "It ends."),
        ("must not\ndelete", "must\nnot delete"),
        ("- Never create", "* **Never** create"),
        ("push anything.", "push anything, here or elsewhere. Really."),
    ],
)
def test_other_changes_are_not(old: str, new: str) -> None:
    assert taken(TEXT.replace(old, new)) == []


def test_a_restraint_may_move_to_another_file() -> None:
    line = "- Never create a tag or push anything.\n"
    assert findings(skill(TEXT, "# More\n"), skill(TEXT.replace(line, ""), f"# More\n\n{line}")) == ()


def test_an_order_not_to_ask_may_go() -> None:
    before = "- Do not ask the user.\n- Work without confirming anything first.\n- Read it.\n"
    assert findings(skill(before), skill("- Read it.\n")) == ()
