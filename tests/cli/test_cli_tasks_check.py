"""Tasks check at the terminal: a file of tasks in a team's CI, where there is no store."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from skillopt_mcp.backends.programs import register_command
from skillopt_mcp.cli.main import main
from skillopt_mcp.tasks.judges import judging
from skillopt_mcp.workspace.workspace import Workspace
from tests.fake_host import make_host

GOOD = {"prompt": "What is 2 + 5?", "judge": {"kind": "exact", "expected": "7"}}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, which holds a skill; the user's store would be next to it."""
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
    assert capsys.readouterr().out == "1 task, 0 problems.\n"
    (here / "tasks.jsonl").write_text(f"{json.dumps(GOOD)}\n{json.dumps(GOOD)}\n")
    assert main(["tasks", "check", skill, "tasks.jsonl"]) == 0
    assert capsys.readouterr().err.startswith("note: ")
    (here / "tasks.jsonl").write_text(json.dumps(GOOD | {"judge": {"kind": "nope"}}))
    assert main(["tasks", "check", skill, "tasks.jsonl"]) == 1
    assert os.listdir(here.parent) == ["here"]


def test_without_a_store_a_name_and_the_stored_tasks_cannot_be_checked(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "tasks.jsonl").write_text(json.dumps(GOOD))
    for arguments in (["other", "tasks.jsonl"], ["./mine"], ["mine"]):
        assert main(["tasks", "check", *arguments]) == 1
        assert "there is no store at" in capsys.readouterr().err
    assert os.listdir(here.parent) == ["here"]


def test_a_folder_of_splits_is_checked_as_it_would_be_added(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "parts").mkdir()
    for name, prompt in (("train", "How many days?"), ("val", "Which dwarf is last?"), ("test", "Name a prime.")):
        (here / "parts" / f"{name}.json").write_text(json.dumps([GOOD | {"prompt": prompt}, GOOD]))
    assert main(["tasks", "check", "./mine", "parts", "--split-mode", "split_dir"]) == 1
    said = capsys.readouterr()
    assert said.out == "6 tasks, 2 problems.\n"
    where = "split must be train, where the same prompt is, got"
    assert said.err.splitlines()[:2] == [f"error: task 4: {where} val", f"error: task 6: {where} test"]
    assert os.listdir(here.parent) == ["here"]


def test_a_data_set_is_drawn_in_a_check_as_it_would_be_added(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "tasks.json").write_text(json.dumps([GOOD | {"prompt": f"What is {n} + 5?"} for n in range(20)]))
    drawn = ["--split-mode", "ratio", "--ratio", "10:1:9"]
    assert main(["tasks", "check", "./mine", "tasks.json", *drawn]) == 0
    reported = capsys.readouterr().err
    assert "note: 9 of the tasks are held out" in reported
    assert main(["tasks", "add", "./mine", "tasks.json", *drawn]) == 0
    assert "mine has 10 train, 1 val and 9 test tasks" in capsys.readouterr().out


def test_the_help_of_adding_shows_a_row_that_can_be_added_and_all_judges(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["tasks", "add", "--help"])
    shown = capsys.readouterr().out
    (row,) = [line for line in shown.splitlines() if line.strip().startswith("{")]
    (here / "rows.jsonl").write_text(row)
    assert main(["tasks", "check", "./mine", "rows.jsonl"]) == 0
    kinds = shown.partition("judge kinds")[2].partition(":")[2].partition("\n\n")[0]
    assert [kind.strip() for kind in kinds.split(",")] == list(judging.kinds())


def test_a_prompt_that_is_a_command_of_the_host_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host(here.parent, "claude")
    host.play({"type": "system", "subtype": "init", "slash_commands": ["mine", "usage", "context"]})
    monkeypatch.setenv("PATH", f"{host.path.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the-persons-own-key")
    prompts = ["/mine do it", "/usage", "What does /usage say?", "/context of the text", "/etc/hosts has what?"]
    rows = [GOOD | {"prompt": prompt} for prompt in prompts]
    (here / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["tasks", "check", "./mine", "tasks.jsonl"]) == 1
    said = capsys.readouterr().err
    assert "task 2: '/usage' is a command" in said
    assert "task 4: '/context' is a command" in said
    assert said.count("is a command") == 2
    assert "the-persons-own-key" not in json.dumps(host.seen)


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([GOOD], 0),
        ([GOOD, GOOD], 0),
        ([GOOD, GOOD | {"prompt": "What is 2 + 6?", "judge": {"kind": "exact", "expected": "8"}}], 0),
        ([GOOD | {"judge": {"kind": "nope"}}], 1),
        ([GOOD | {"judge": {"kind": "regex", "pattern": ".*"}}], 1),
        ([GOOD | {"judge": {"kind": "environment", "name": "nowhere:x"}}], 1),
        ([GOOD | {"judge": {"kind": "command", "name": "slack"}}], 1),
        ([GOOD | {"prompt": "/config set it"}], 1),
        ([GOOD | {"split": "train"}, GOOD | {"prompt": "what is  2 + 5?", "split": "test"}], 1),
    ],
)
def test_a_file_is_judged_alike_before_and_when_it_is_added(
    here: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rows: list[object],
    code: int,
) -> None:
    monkeypatch.setattr("skillopt_mcp.backends.claude_code.list_commands", lambda: {"config"})
    with Workspace(tmp_path / "store.db") as workspace:
        made = register_command("slack", [shutil.which("true") or ""], unconfined=True)
        workspace.store.commands.register(made)
    (here / "tasks.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for verb in ("check", "add", "check"):
        assert main(["tasks", verb, "./mine", "tasks.jsonl"]) == code, capsys.readouterr().err
        assert ("error: " in capsys.readouterr().err) == bool(code)


def test_a_file_without_a_header_is_refused_with_the_header_that_it_lacks(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "tasks.csv").write_text("Say hi,hi\nSay ho,ho\n")
    for verb in ("check", "add"):
        assert main(["tasks", verb, "./mine", "tasks.csv"]) == 1
        assert "has to name the columns, as in: prompt,expected" in capsys.readouterr().err


def test_one_good_row_is_worth_one_note(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for split in ("train", "test"):
        (here / "tasks.jsonl").write_text(json.dumps({**GOOD, "split": split}))
        assert main(["tasks", "check", "./mine", "tasks.jsonl"]) == 0
        assert capsys.readouterr().err.count("\n") == 1


def test_what_is_not_there_is_named_in_one_short_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skills", "track", "./mine"]) == 0
    for arguments, said in (
        (["evaluate", "mine", "--target", "simulated:honest"], '"mine" has no tasks: skillopt-mcp tasks add mine FILE'),
        (["show", "c-123"], 'there is no candidate "c-123", and no skill of that name: skillopt-mcp skills lists'),
        (["replay", "mine", "--target", "haiku", "--optimizer", "haiku"], "did you mean claude-code:haiku?"),
        (["replay", "mine", "--target", "claude:haiku", "--optimizer", "x"], "did you mean claude-code:haiku?"),
    ):
        capsys.readouterr()
        assert main(arguments) in (1, 2)
        error = capsys.readouterr().err.splitlines()[0]
        assert said in error, arguments
        assert len(error.split()) < 25
