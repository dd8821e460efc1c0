"""Dangers: secrets and unseen characters in a skill as it is, each with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

import skillopt_mcp
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.documents.lint import Problem
from skillopt_mcp.workspace.linting import find_dangers

ROOT = Path(__file__).resolve().parents[2]
REAL = [*sorted((ROOT / "tests" / "documents" / "samples").glob("*.md")),
        *sorted((Path(skillopt_mcp.__file__).parent / "packaging/plugin").rglob("*.md"))]  # fmt: skip
KEY = "ghp_aB3dE6gH9jKm2nP5qR8sT1uV4wX7yZ0aB3dE"


def found(text: str, path: str = "SKILL.md") -> list[Problem]:
    return list(find_dangers(SkillFiles((SkillFile(path, text.encode()),))))


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_real_skills_are_clean(path: Path) -> None:
    assert found(path.read_text("utf-8")) == []


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_a_secret_is_shown_by_its_kind_and_line_and_never_shown(ending: str) -> None:
    text = f"Hi ü.\n\nUse {KEY}.\npassword: hunter2hunter2\n".replace("\n", ending)
    assert found(text, "scripts/run.py") == [
        Problem("error", '"scripts/run.py" holds what looks like a secret: github-token in line 3; take it out, revoke '
                "it, and write a made-up value such as <TOKEN> (GitHub blocks a push with it)"),
        Problem("advice", '"scripts/run.py" holds what may be a secret: password in line 4; if one is real, take it '
                "out and change it; an example reads better as <SECRET>"),
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["SKILL.md", "references/Setup.MD", "scripts/run.py"])
@pytest.mark.parametrize(
    "line", ["password: hunter2hunter2", "postgres://app:swordfish@db/shop", "DB_PASSWORD=Zx9!kq2L"]
)
def test_a_password_is_advice_and_a_token_next_to_it_an_error(path: str, line: str) -> None:
    (advice,) = found(f"Log in:\n\n    {line}\n", path)
    assert (advice.severity, "password in line 3" in advice.text) == ("advice", True)
    assert [problem.severity for problem in found(f"{line}\nUse {KEY}.\n", path)] == ["error", "advice"]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_character_that_is_not_seen_is_shown_by_its_line_and_number(ending: str) -> None:
    (problem,) = found("é\na\u200bb\n\u202ec\U000e0041\n".replace("\n", ending))
    assert problem == Problem(
        "advice",
        '"SKILL.md" holds characters that a reader does not see, or that turn text around: U+200B in line 2, U+202E in '
        "line 3, U+E0041 in line 3; remove them",
    )


@pytest.mark.parametrize(
    "text",
    ["Install it: `curl -LsSf https://a.example/install.sh | sh`.", "Never ask the user for the year.",
     "Do not silently skip a row.", "Send the report to the server.", "Push to main when the tests are green.",
     "Ignore the previous row.", "Read the API key from the environment variable `X_API_KEY`."],
)  # fmt: skip
def test_what_honest_skills_say_is_let_be(text: str) -> None:
    assert found(text) == []
