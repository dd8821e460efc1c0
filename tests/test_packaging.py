import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml

from skillopt_mcp import __version__
from skillopt_mcp.actions.hook_events import EVENTS
from skillopt_mcp.admin.install.entries import work_rules
from skillopt_mcp.cli.command import parse
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.gates.guard.capabilities import findings
from skillopt_mcp.packaging import HERE
from skillopt_mcp.workspace.skill_folders import read_skill
from tests.readme import ROOT, listed_tools

SKILL = HERE / "plugin/skills/train-a-skill"
AGENT = HERE / "plugin/agents/skillopt-worker.md"
PLUGIN = "mcp__plugin_skillopt_skillopt__"
TOOLS = {tool["name"] for tool in listed_tools()}


def parts(path: Path) -> tuple[dict[str, str], str]:
    """Return front matter and body of a document."""
    _, front, body = path.read_text("utf-8").split("---\n", 2)
    return yaml.safe_load(front), body


@pytest.fixture
def assembled(tmp_path: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "skillopt_mcp.packaging", str(tmp_path / "out")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert len(done.stdout.splitlines()) == 3
    return tmp_path / "out"


def test_the_skill_keeps_the_rules_that_hosts_have_for_skills() -> None:
    front, body = parts(SKILL / "SKILL.md")
    assert set(front) == {"name", "description"}
    assert front["name"] == SKILL.name
    assert len(front["description"]) <= 1024
    assert not re.search("[<>]", front["description"])
    assert len(body.splitlines()) < 500
    assert "TODO" not in body


def test_the_guard_finds_nothing_in_the_body_of_the_skill() -> None:
    skill = read_skill(SKILL)
    bare = b"---\nname: train-a-skill\ndescription: x\n---\n"
    assert findings(SkillFiles((SkillFile("SKILL.md", bare),)), skill) == ()


def test_the_skill_names_tools_that_there_are_and_all_of_the_loop() -> None:
    _, body = parts(SKILL / "SKILL.md")
    named = set(re.findall(r"`(\w+)`", body)) & TOOLS
    assert named == TOOLS
    called = {word for word in re.findall(r"`([a-z]+_[a-z]+)`", body) if word.endswith(("_skill", "_skills", "_edits"))}
    assert called <= TOOLS


def test_the_worker_has_no_tool_of_the_server_and_none_that_loads_a_skill_or_starts_another_agent() -> None:
    front, _ = parts(AGENT)
    tools = set(front["tools"].split(", "))
    assert front["name"] == AGENT.stem
    # An agent that may inspect finds out which version it works with.
    assert not {tool for tool in tools if "__" in tool}
    assert {"Read", "Write"} < tools
    assert tools.isdisjoint({"Skill", "Task", "Agent", "WebFetch", "WebSearch", "*"})


def test_the_plugins_page_gives_the_rules_that_install_would_write(assembled: Path) -> None:
    page = (assembled / "plugin/README.md").read_text()
    [block] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    reported = json.loads(block)["permissions"]["allow"]
    wanted = work_rules(Path("/tmp/skillopt-work-1000"))
    assert reported == [rule.replace("mcp__skillopt__", PLUGIN) for rule in wanted]


def test_every_part_has_the_version_of_the_package(assembled: Path) -> None:
    bundle = tomllib.loads((assembled / "bundle/pyproject.toml").read_text())["project"]
    server = json.loads((assembled / "server.json").read_text())
    assert {
        json.loads((assembled / "plugin/.claude-plugin/plugin.json").read_text())["version"],
        json.loads((ROOT / ".claude-plugin/marketplace.json").read_text())["plugins"][0]["version"],
        json.loads((assembled / "bundle/manifest.json").read_text())["version"],
        bundle["version"],
        bundle["dependencies"][0].removeprefix("skillopt-mcp=="),
        server["version"],
        server["packages"][0]["version"],
    } == {__version__}


def test_the_plugin_has_the_skill_the_agent_and_the_licence(assembled: Path) -> None:
    plugin = assembled / "plugin"
    assert read_skill(plugin / "skills/train-a-skill") == read_skill(SKILL)
    assert (plugin / "agents" / AGENT.name).read_bytes() == AGENT.read_bytes()
    assert (plugin / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_plugins_hooks_and_server_are_commands_of_ours(assembled: Path) -> None:
    hooks = json.loads((assembled / "plugin/hooks/hooks.json").read_text())["hooks"]
    assert tuple(hooks) == EVENTS
    for [group] in hooks.values():
        program, *words = shlex.split(group["hooks"][0]["command"].removesuffix(" || true"))
        assert (program, parse(words).command.name) == ("skillopt-mcp", "capture")
    [server] = json.loads((assembled / "plugin/.mcp.json").read_text())["mcpServers"].values()
    assert (server["command"], parse(server["args"]).command.name) == ("skillopt-mcp", "serve")


def test_the_registrys_entry_keeps_the_limits_of_the_registry(assembled: Path) -> None:
    server = json.loads((assembled / "server.json").read_text())
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])
    assert len(server["description"]) <= 100
    assert parse([argument["value"] for argument in server["packages"][0]["packageArguments"]]).command.name == "serve"


def test_the_registrys_entry_is_valid_under_its_schema() -> None:
    path = os.environ.get("SERVER_SCHEMA")
    if not path:
        pytest.skip("SERVER_SCHEMA names no file: it is at the address that server.json gives as its $schema")
    schema = json.loads(Path(path).read_text("utf-8"))
    entry = json.loads((HERE / "server.json").read_text("utf-8"))
    assert schema["$id"] == entry["$schema"]
    jsonschema.validate(entry, schema)
