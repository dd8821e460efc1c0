import json
import re
import tomllib

from skillopt_mcp import __version__
from skillopt_mcp.cli.main import commands
from skillopt_mcp.server.app import LISTED_PATH
from tests.readme import README, ROOT, generated


def test_the_generated_parts_are_what_the_code_says() -> None:
    text = README.read_text("utf-8")
    assert generated(text) == text, "run: python -m tests.readme"


def test_every_command_and_tool_is_named() -> None:
    text = README.read_text("utf-8")
    tools = [tool["name"] for tool in json.loads(LISTED_PATH.read_text("utf-8"))["tools"]]
    assert [name for name in [*tools, *commands()] if f"`{name}" not in text] == []


def test_every_snippet_of_configuration_parses() -> None:
    blocks = re.findall(r"^```(json|toml)\n(.*?)^```", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert {kind for kind, _ in blocks} == {"json", "toml"}
    for kind, text in blocks:
        (json.loads if kind == "json" else tomllib.loads)(text)


def test_ci_finds_the_test_command_that_a_newcomer_reads() -> None:
    marked = [line for line in README.read_text("utf-8").splitlines() if line.endswith("# test it")]
    assert [line.split("#")[0].strip() for line in marked] == ["pip install -e '.[dev]' && pytest"]


def test_the_version_is_the_packages() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"] == __version__
