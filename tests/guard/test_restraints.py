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

## Care

Small steps.

- Only when all is green:
  - Merge, but not without a note.

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
        ("## Care", "## No longer in force"),
        ("Small steps.", "Small steps.\n\n### No longer in force"),
        ("Small steps.", "Small steps.\n\nNo longer in force\n---"),
        ("Small steps.", "Small steps.\n\n**No longer in force**"),
        ("- Only when", "These are withdrawn:\n\n- Only when"),
        ("- Only when", "- Withdrawn are:\n- Only when"),
        ("- Only when all is green:", "- Old rules:"),
        ("Merge, but", "This is void: merge, but"),
        ("  - Merge, but not without a note.\n", "  ```\n  Merge, but not without a note.\n  ```\n"),
        ("  - Merge, but not without a note.\n", "  > Merge, but not without a note.\n"),
        ("  - Merge, but not without a note.\n", ""),
    ],
)
def test_a_restraint_below_other_parents_is_another_one(old: str, new: str) -> None:
    moved = TEXT.replace(old, new) + ("" if new else "\n## Withdrawn\n\n- Merge, but not without a note.\n")
    assert "merge, but not without a note" in taken(moved)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Small steps.", "Small steps.\n\nThey are easy to read."),
        ("## Care", "## *Care*"),
        ("- Only when", "- Read it twice.\n- Only when"),
        ("- Only when", "- For totals:\n  - Round at the end.\n- Only when"),
        ("It goes on.", "It goes on.\n\n## Checks\n\n- Re-read it."),
        ("It goes on.", "It ends."),
        ("must not\ndelete", "must\nnot delete"),
        ("- Never create", "* **Never** create"),
        ("push anything.", "push anything. Really."),
    ],
)
def test_other_changes_are_not(old: str, new: str) -> None:
    assert taken(TEXT.replace(old, new)) == []
