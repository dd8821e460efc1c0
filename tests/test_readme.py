import json
import re
import tomllib
from pathlib import Path

import pytest

from skillopt_mcp import __version__
from skillopt_mcp.cli.command import describe_commands
from tests.readme import PAGES, README, ROOT, generated, listed_tools

_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
_FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """Return what the headings of a Markdown file are linked to by, as GitHub makes it."""
    found = set()
    for title in re.findall(r"^#+ (.+)$", _FENCED.sub("", path.read_text("utf-8")), re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_generated_parts_are_what_the_code_says(path: Path) -> None:
    text = path.read_text("utf-8")
    assert generated(text) == text, "run: python -m tests.readme"


def test_every_command_and_tool_is_named() -> None:
    text = README.read_text("utf-8")
    tools = [tool["name"] for tool in listed_tools()]
    assert [name for name in [*tools, *describe_commands()] if f"`{name}" not in text] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_snippet_of_configuration_parses(path: Path) -> None:
    blocks = re.findall(r"^```(json|toml)\n(.*?)^```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert path != README or {kind for kind, _ in blocks} == {"json", "toml"}
    for kind, text in blocks:
        (json.loads if kind == "json" else tomllib.loads)(text)


@pytest.mark.parametrize("path", [*PAGES, ROOT / "SECURITY.md"], ids=lambda path: path.stem)
def test_every_link_leads_somewhere(path: Path) -> None:
    for target, anchor in _LINK.findall(_FENCED.sub("", path.read_text("utf-8"))):
        there = path.parent / target if target else path
        assert there.exists(), f"{target} is not there"
        assert not anchor or anchor in anchors(there), f"{there.name} has no heading for #{anchor}"


def test_the_readme_is_short() -> None:
    assert README.read_text("utf-8").count("\n") <= 200


def test_ci_finds_the_test_command_that_a_newcomer_reads() -> None:
    marked = [line for line in README.read_text("utf-8").splitlines() if line.endswith("# test it")]
    assert [line.split("#")[0].strip() for line in marked] == ["pip install -e '.[dev]' && pytest"]


def test_the_version_is_the_packages() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"] == __version__
