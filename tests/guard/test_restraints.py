"""Restraints: what a skill forbids stays, or a person sees that it goes."""

import pytest

from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.gates.guard.capabilities import findings

TEXT = """\
# Release

- Never create a tag or push anything.
- Ask the user before you publish.
- Never deploy without asking.
- Do not round intermediate values.

All who work here must not
delete files of others. It goes on.
"""


def skill(*texts: str) -> SkillFiles:
    names = ("SKILL.md", *(f"references/{n}.md" for n in range(len(texts))))
    return SkillFiles(tuple(SkillFile(name, text.encode()) for name, text in zip(names, texts, strict=False)))


def taken(after: str) -> list[str]:
    lost = [each for each in findings(skill(TEXT), skill(after)) if "forbidden" in each]
    return [each.partition(": ")[2].strip('"') for each in lost]


@pytest.mark.parametrize(
    ("old", "new", "restraint"),
    [
        ("- Never create a tag or push anything.\n", "", "never create a tag or push anything"),
        ("Never create a tag or push anything.", "Create the tag.", "never create a tag or push anything"),
        ("push anything.", "push anything unless the tests pass.", "never create a tag or push anything"),
        ("- Do not round intermediate values.\n", "", "do not round intermediate values"),
        ("- Ask the user before you publish.\n", "", "ask the user before you publish"),
        ("Never deploy without asking", "Deploy when the tests pass", "never deploy without asking"),
        ("must not\ndelete", "may delete", "all who work here must not delete files of others"),
    ],
)
def test_a_restraint_that_goes_is_reported(old: str, new: str, restraint: str) -> None:
    assert taken(TEXT.replace(old, new)) == [restraint]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("It goes on.", "It ends."),
        ("must not\ndelete", "must\nnot delete"),
        ("- Never create", "* **Never** create"),
        ("push anything.", "push anything. Really."),
    ],
)
def test_other_changes_are_not(old: str, new: str) -> None:
    assert taken(TEXT.replace(old, new)) == []
