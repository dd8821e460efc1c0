"""Tasks check at the terminal: a file of tasks in a team's CI, where there is no store."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from skillopt_mcp.cli.main import main

GOOD = {"prompt": "What is 2 + 5?", "judge": {"kind": "exact", "expected": "7"}}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, which holds a skill; the user's store would be beside it."""
    here = tmp_path / "here"
    (here / "mine").mkdir(parents=True)
    (here / "mine" / "SKILL.md").write_text("---\nname: mine\ndescription: Does it.\n---\n\nDo it.\n")
    monkeypatch.chdir(here)
    monkeypatch.setenv("SKILLOPT_STORE", str(tmp_path / "store.db"))
    return here


@pytest.mark.parametrize("skill", ["./mine", "mine", "mine/SKILL.md"])
def test_a_file_is_checked_where_there_is_no_store(here: Path, capsys: pytest.CaptureFixture[str], skill: str) -> None:
    (here / "tasks.jsonl").write_text(json.dumps(GOOD))
    assert main(["tasks", "check", skill, "tasks.jsonl"]) == 0
    assert capsys.readouterr().out == "1 tasks, 0 problems.\n"
    (here / "tasks.jsonl").write_text(f"{json.dumps(GOOD)}\n{json.dumps(GOOD)}\n")
    assert main(["tasks", "check", skill, "tasks.jsonl"]) == 1
    assert "error: task 2: it is the same as task 1: remove one\n" in capsys.readouterr().err
    assert os.listdir(here.parent) == ["here"]


def test_without_a_store_a_name_and_the_stored_tasks_cannot_be_checked(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "tasks.jsonl").write_text(json.dumps(GOOD))
    for arguments in (["other", "tasks.jsonl"], ["./mine"], ["mine"]):
        assert main(["tasks", "check", *arguments]) == 1
        assert "there is no store at" in capsys.readouterr().err
    assert os.listdir(here.parent) == ["here"]


def test_adding_the_same_tasks_to_every_split_is_warned_of(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "parts").mkdir()
    for name in ("train", "val", "test"):
        (here / "parts" / f"{name}.json").write_text(json.dumps([GOOD]))
    assert main(["tasks", "add", "./mine", "parts", "--split-mode", "split_dir"]) == 0
    said = capsys.readouterr()
    assert said.out == "1 added, 2 there already; mine has 1 train, 0 val and 0 test tasks.\n"
    assert said.err.startswith("warning: 1 val and 1 test tasks were left out, because train has the same ones already")
