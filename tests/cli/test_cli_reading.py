from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from console import parsed

from skillopt_mcp.actions.demo import prepare_demo, run_demo
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.cli.main import main
from skillopt_mcp.workspace.workspace import Workspace

RUNNING_AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name no store: that of the user's own data folder is meant, which is not there yet."""
    monkeypatch.delenv("SKILLOPT_STORE")


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> dict[str, Any]:
    return run_demo(prepare_demo(tmp_path_factory.mktemp("reading") / "demo", "honest", 0)).model_dump(mode="json")


def test_json_is_one_object_and_nothing_else(demo, cli) -> None:
    store, candidate, run = demo["store_path"], demo["candidate_id"], demo["run_id"]
    keys = {
        ("skills",): {"skills"},
        ("skills", "permit", "ledger-clerk", "--simulated", "--yes"): {"skill", "permitted", "simulated"},
        ("skills", "revoke", "ledger-clerk"): {"skill", "permitted"},
        ("show", candidate): {"id", "kind", "text", "next_step", "candidate"},
        ("show", run): {"id", "kind", "text", "next_step", "steps", "answering", "run"},
        ("diff", "ledger-clerk"): {"skill", "diff"},
        ("show", "ledger-clerk"): {"id", "kind", "text", "next_step", "skill", "history", "runs", "series", "notes"},
        ("show",): {"runs", "tests", "next_step"},
        ("tasks", "list", "ledger-clerk"): {"skill", "splits", "tasks"},
        ("tasks", "export", "ledger-clerk"): {"skill", "tasks"},
        ("tasks", "check", "ledger-clerk"): {"n_tasks", "problems", "notes"},
    }
    for arguments, expected in keys.items():
        assert set(parsed(cli("--store", store, *arguments, "--json"))) == expected


def test_a_promotion_test_is_shown_by_the_id_that_its_candidate_shows(cli, demo, capfd) -> None:
    store, candidate = demo["store_path"], demo["candidate_id"]
    reported = cli("show", candidate, store=store)
    [line] = [line for line in reported.stdout.splitlines() if line.startswith("promotion test t-")]
    id = line.split()[2].rstrip(":")
    shown = cli("show", id, store=store)
    assert (shown.returncode, shown.stderr) == (0, reported.stderr)
    assert shown.stdout.startswith(f"promotion test {id} of skill 'ledger-clerk', candidate {candidate}\nbase ")
    assert shown.stderr == ""
    found = parsed(cli("--store", store, "show", id, "--json"))
    test = found["test"]
    assert (found["kind"], shown.stdout.startswith(found["text"])) == ("test", True)
    assert all(unit["task"] in shown.stdout for unit in test["units"])
    report = test["report"]
    assert (test["candidate_id"], report["test_in_release"], report["verdict"]) == (candidate, 1, "better")
    assert report["solved"]["after"] > report["solved"]["before"]
    assert main(["--store", store, "show", "t-000000000000"]) == 1
    assert capfd.readouterr().err.startswith('error: no promotion test "t-000000000000"')


def test_stored_text_cannot_steer_the_terminal(cli, demo) -> None:
    with Workspace(Path(demo["store_path"])) as workspace:
        recording = Recording(task="do \x1b]0;owned\x07 it", hard=False, answer="\x1b[2J\u202egone")
        made = record_trajectory(workspace.store, workspace.place, demo["skill_path"], recording)
    shown = cli("show", made.trajectory_id, store=demo["store_path"]).stdout
    assert r"do \u{001B}]0;owned\u{0007} it" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_a_skill_root_must_be_narrow(home, tmp_path, demo, capsys) -> None:
    for path in ("/", home, tmp_path / "nowhere", Path(demo["skill_path"])):
        assert main(["skills", "add-root", str(path)]) == 1
        assert capsys.readouterr().err.startswith(f"error: '{path}'")


def test_the_doctor_does_not_say_that_all_is_well_where_nothing_can_be_used(cli, home, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    done = cli("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert "All is well" not in done.stdout
    [skill, agent] = done.stdout.partition("What may be needed before a skill can be trained:\n")[2].splitlines()
    assert skill.startswith("  - no skill is in any skill root: ")
    assert agent.startswith("  - no backend was found: ")
    (home / ".claude" / "skills" / "one").mkdir(parents=True)
    (home / ".claude" / "skills" / "one" / "SKILL.md").write_text("# One\n")
    found = parsed(cli("doctor", "--backend", "simulated:honest", "--json"))
    assert (found["lacking"], found["problems"]) == ([], [])
    assert cli("doctor", "--backend", "simulated:honest").stdout.endswith("All is well.\n")


def test_where_skills_are_is_for_a_person_to_say(make_place, monkeypatch, capsys) -> None:
    place = make_place()
    monkeypatch.setenv("CLAUDECODE", "1")
    for arguments in (["move", "ledger-clerk", "elsewhere"], ["forget", "ledger-clerk"]):
        assert main(["--store", str(place.store_path), "skills", *arguments]) == 1
        assert "is for a person" in capsys.readouterr().err


@pytest.mark.usefixtures("first_run")
def test_an_unknown_skill_is_named_in_both_forms_of_the_answer(cli) -> None:
    done = cli("show", "nosuch", "--json")
    assert done.returncode == 1
    assert done.stderr.startswith('error: no skill "nosuch" is known')
    assert json.loads(done.stdout) == {"error": done.stderr.removeprefix("error: ").rstrip("\n")}


READERS = [
    ["skills"], ["show", "S"], ["show"], ["diff", "S"], ["store", "verify"],
    ["store", "backup", "F"], ["tasks", "list", "S"], ["tasks", "export", "S"],
    ["tasks", "check", "S"],
    ["skills", "move", "S", "T"], ["skills", "forget", "S"],
    ["tasks", "judges"], ["tasks", "judges", "list"], ["promote", "c-1"], ["rollback", "S"],
    ["evaluate", "c-1"],
]  # fmt: skip


@pytest.mark.parametrize("arguments", READERS, ids=" ".join)
def test_a_store_that_is_mistyped_is_not_made(tmp_path, capsys, arguments: list[str]) -> None:
    for missing in (tmp_path / "mistyped.db", tmp_path / "no" / "folder" / "store.db"):
        assert main(["--store", str(missing), *arguments]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert f"no store at '{missing}' (from --store)" in said.err
    assert os.listdir(tmp_path) == []


def test_a_store_that_the_environment_mistypes_is_not_made(tmp_path, monkeypatch, cli) -> None:
    monkeypatch.setenv("SKILLOPT_STORE", str(tmp_path / "mistyped.db"))
    done = cli("skills", "--json")
    assert done.returncode == 1
    assert "(from $SKILLOPT_STORE)" in json.loads(done.stdout)["error"]
    assert not (tmp_path / "mistyped.db").exists()


def test_a_store_that_cannot_be_made_is_an_error(cli, tmp_path) -> None:
    (tmp_path / "file").write_text("mine")
    done = cli("skills", "permit", "s", store=tmp_path / "file" / "store.db")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: the store '{tmp_path / 'file' / 'store.db'}' cannot be ")


@pytest.mark.skipif(RUNNING_AS_ROOT, reason="root writes everywhere")
def test_a_store_that_is_read_only_is_an_error(cli, tmp_path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    done = cli("skills", "permit", "s", store=folder / "store.db")
    assert done.returncode == 1
    assert f"error: the store '{folder / 'store.db'}' cannot be made" in done.stderr


# What none of them loads, and then what the first ones do not load either, in the order in which they run.
NEVER = ("openai", "anthropic", "mcp", "skillopt_mcp.backends", "skillopt_mcp.server")
OF_LISTS = ("pydantic", "pydantic_core", "yaml", *(f"skillopt_mcp.{room}" for room in (
    "prompts", "tasks", "gates", "admin", "documents.markdown", "core.results", "core.calls", "core.redacting",
    "training.stages", "training.loop",
)))  # fmt: skip
OF_READING = (
    "skillopt_mcp.training.loop",
    "skillopt_mcp.actions.runs",
    "skillopt_mcp.actions.replay",
    "skillopt_mcp.actions.promotion_tests",
)
RUN_EACH = """
import json, sys
from skillopt_mcp.cli.main import main
commands, out = json.loads(sys.argv[1]), sys.argv[2]
loaded = [(main([*command, *sys.argv[3:]]), [*sys.modules]) for command in commands]
open(out, "w").write(json.dumps(loaded))
"""


def test_a_command_that_reads_or_rolls_back_loads_no_room_that_it_does_not_use(demo, tmp_path: Path) -> None:
    skill, run, candidate = "ledger-clerk", demo["run_id"], demo["candidate_id"]
    unwanted: dict[tuple[str, ...], tuple[str, ...]] = {
        ("skills",): (*NEVER, *OF_READING, *OF_LISTS),
        ("skills", "list", "--json"): (*NEVER, *OF_READING, *OF_LISTS),
        ("check", str(Path(demo["skill_path"]).parent)): (*NEVER, *OF_READING),
        ("store", "verify"): (*NEVER, *OF_READING),
        ("diff", skill): (*NEVER, *OF_READING),
        ("show",): (*NEVER, *OF_READING),
        ("show", skill): (*NEVER, *OF_READING),
        ("show", run): (*NEVER, *OF_READING),
        ("show", candidate): (*NEVER, *OF_READING),
        ("show", run, "--out", str(tmp_path / "run")): (*NEVER, *OF_READING),
        ("report", skill): (*NEVER, *OF_READING),
        ("tasks", "list", skill): (*NEVER, *OF_READING),
        ("tasks", "export", skill, str(tmp_path / "tasks.jsonl")): (*NEVER, *OF_READING),
        ("rollback", skill, "--yes"): (*NEVER, *OF_READING),
    }
    _, terminal = os.openpty()  # only a person at a terminal rolls back
    out = tmp_path / "loaded.json"
    subprocess.run(
        [sys.executable, "-c", RUN_EACH, json.dumps([*unwanted]), str(out), "--store", demo["store_path"]],
        cwd=tmp_path, env={name: value for name, value in os.environ.items() if name != "CLAUDECODE"},
        stdin=terminal, stderr=terminal, stdout=subprocess.DEVNULL, timeout=60, check=True,
    )  # fmt: skip
    for (command, rooms), (code, modules) in zip(unwanted.items(), json.loads(out.read_text()), strict=True):
        found = [each for each in modules if any(each == room or each.startswith(f"{room}.") for room in rooms)]
        assert (code, found) == (0, []), command
