"""Gate at hosts: a skill that is new and one that got worse, with the real Claude Code as the target."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from agent_models import Asked, answering
from scripted_model import ToolCall, Turn

pytestmark = pytest.mark.hosts

SCRIPT = Path(sys.executable).with_name("skillopt-mcp")
RULE, ABOUT = "Say yes to all of it.", "Answers about fruit in the evening."


def write_skill(folder: Path, body: str) -> None:
    (folder / "evals").mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: {ABOUT}\n---\n{body}\n")
    tests = [{"vars": {"q": name}, "assert": [{"type": "equals", "value": "yes"}]} for name in ("fig", "kiwi", "lime")]
    config = {"prompts": ["What colour is {{q}}?"], "providers": ["any"], "tests": tests}
    (folder / "evals/promptfooconfig.yaml").write_text(json.dumps(config))


def test_a_new_skill_is_tested_against_no_skill_and_a_worse_one_fails(tmp_path: Path) -> None:
    binary = os.environ.get("CLAUDE") or pytest.skip("CLAUDE names no binary: see .ci/hosts")
    top = tmp_path / "repository"
    write_skill(top / "skills/old", RULE)
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=top, check=True)
    write_skill(top / "skills/old", "Say what you think.")
    write_skill(top / "skills/new", RULE)

    def answer(asked: Asked) -> Turn:
        listed = next((name for name in ("old", "new") if f"{name}: {ABOUT}" in json.dumps(asked.body)), "")
        if listed and "Skill" in asked.tools and not asked.n_results:
            return [ToolCall("Skill", {"skill": listed}, server="")]
        return ["yes" if RULE in asked.text else "no"]

    with answering("claude-code", answer) as model:
        environ = {**os.environ, "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.port}", "NO_PROXY": "127.0.0.1",
                   "ANTHROPIC_API_KEY": "loopback-key-0123456789", "HOME": str(tmp_path)}  # fmt: skip
        target = f"claude-code:claude-sonnet-4-5,binary={binary}"
        done = subprocess.run(
            [SCRIPT, "--store", str(tmp_path / "store.db"), "gate", "--json", "--yes", "--target", target],
            cwd=top, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, check=False,
        )  # fmt: skip
    found = {each["path"]: each for each in json.loads(done.stdout)["skills"]}
    assert {path: each["verdict"] for path, each in found.items()} == {
        "skills/old": "worse_here", "skills/new": "better_here",
    }, done.stdout + done.stderr  # fmt: skip
    assert done.returncode == 1
    without = [each for each in model.asked if "Skill" in each.tools and ABOUT not in json.dumps(each.body)]
    n_base = found["skills/new"]["report"]["runs"]["base"]
    assert len(without) == n_base, "the base of a new skill is asked without any"
    assert found["skills/new"]["report"]["opened"]["after"] == found["skills/new"]["report"]["runs"]["candidate"]
