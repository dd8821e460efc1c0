import pytest

from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.documents.code_lines import MAX_LINE_BYTES, MAX_LINES, explain_large_edit

FRONT = b"---\nname: x\ndescription: y\n---\n"
BODY = b"one\ntwo\n"


def skill(*files: SkillFile, front: bytes = FRONT, body: bytes = BODY, executable: bool = False) -> SkillFiles:
    return SkillFiles((SkillFile("SKILL.md", front + body, executable), *files))


@pytest.mark.parametrize(
    "new",
    [
        skill(body=b"one\nthree\n"),
        skill(body=BODY + b"line\n" * MAX_LINES),
        skill(body=BODY + b"x" * (MAX_LINE_BYTES - 1) + b"\n"),
        skill(body=b""),
        skill(),
    ],
)
def test_a_small_edit_of_the_body_is_covered(new: SkillFiles) -> None:
    assert explain_large_edit(skill(), new) == ""


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (skill(SkillFile("references/a.md", b"x")), "it changes other files than SKILL.md"),
        (skill(SkillFile("scripts/a.py", b"x"), body=b"one\n"), "it changes other files than SKILL.md"),
        (skill(front=FRONT.replace(b"y", b"z")), "it changes the front matter"),
        (skill(front=b""), "it changes the front matter"),
        (skill(executable=True), "it changes more of SKILL.md than its text"),
        (skill(body=b"\xff\0"), "it changes more of SKILL.md than its text"),
        (skill(body=BODY + b"line\n" * (MAX_LINES + 1)), f"it changes {MAX_LINES + 1} lines"),
        (skill(body=BODY + b"x" * (MAX_LINE_BYTES + 1)), "it changes 1 lines"),
    ],
)
def test_anything_else_needs_a_person(new: SkillFiles, why: str) -> None:
    assert explain_large_edit(skill(), new).startswith(why)


def test_all_of_a_memory_file_is_body() -> None:
    old, new = (SkillFiles((SkillFile("CLAUDE.md", text),)) for text in (b"one\n", b"two\n"))
    assert explain_large_edit(old, new) == ""
