"""Loading: what a host would run by loading a text is shown to a person at a terminal before the host has it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from console import run_at_a_terminal, run_forked

from tests.fake_host import claude_lines, make_host

SKILL = "---\nname: desk\ndescription: Answers at the desk.\n---\n# Desk\n\nAnswer in one word.\n"


@pytest.mark.parametrize("answer", ["n", "y"])
def test_a_command_that_runs_by_loading_waits_for_a_person_at_a_terminal(tmp_path: Path, answer: str) -> None:
    host = make_host(tmp_path, "claude")
    host.play(*claude_lines("done", ("Skill", {"skill": "desk"}, "Launching skill: desk")))
    folder = tmp_path / "skills" / "desk"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (tmp_path / "new.md").write_text(f"{SKILL}Today is !`date +%F`.\n")
    rows = [
        {"prompt": f"Say {word}", "judge": {"kind": "exact", "expected": "done"}, "split": "test"}
        for word in ("a", "b", "c")
    ]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert run_forked(["skills", "track", str(folder)], tmp_path).returncode == 0
    assert run_forked(["tasks", "add", "desk", "tasks.jsonl"], tmp_path).returncode == 0
    target = f"claude-code:m,binary={host.path}"
    command = ["evaluate", "desk", "--file", "new.md", "--target", target, "--max-pairs", "6", "--yes"]
    script = run_forked(command, tmp_path)
    assert script.returncode != 0
    assert not (host.path.parent / "seen.json").exists(), "the host was started without a person"
    environ = {key: value for key, value in os.environ.items() if key != "CLAUDECODE"}
    code, screen = run_at_a_terminal(command, tmp_path, environ, answer)
    assert "RUNS WHILE IT IS LOADED: !`date +%F`" in screen
    assert (host.path.parent / "seen.json").exists() == (answer == "y")
    assert (code == 0) == (answer == "y")
