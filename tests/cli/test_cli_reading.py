from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from console import parsed

from skillopt_mcp.actions.demo import prepare_demo, run_demo
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.cli.main import main
from skillopt_mcp.store.pool import connect
from skillopt_mcp.workspace.workspace import Workspace
from tests.away import promote_alone

RUNNING_AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name no store: that of the user's own data folder is meant, which is not there yet."""
    monkeypatch.delenv("SKILLOPT_STORE")


@pytest.fixture
def demo(tmp_path) -> dict[str, Any]:
    return run_demo(prepare_demo(tmp_path / "demo", "honest", 0)).model_dump(mode="json")


def test_json_is_one_object_and_nothing_else(demo, cli) -> None:
    store, candidate, run = demo["store_path"], demo["candidate_id"], demo["run_id"]
    keys = {
        ("skills",): {"skills"},
        ("skills", "permit", "ledger-clerk", "--simulated", "--yes"): {"skill", "permitted", "simulated"},
        ("skills", "revoke", "ledger-clerk"): {"skill", "permitted"},
        ("show", candidate): {"id", "kind", "text", "next_step", "candidate"},
        ("show", run): {"id", "kind", "text", "next_step", "steps", "answering", "run"},
        ("diff", "ledger-clerk"): {"skill", "diff"},
        ("show", "ledger-clerk"): {"id", "kind", "text", "next_step", "skill", "history", "runs"},
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


def test_a_check_finds_tasks_that_mislead(cli, demo, tmp_path) -> None:
    file = tmp_path / "tasks.jsonl"
    rows = [
        {"id": "leak-1", "prompt": "P", "split": "train", "judge": {"kind": "exact", "expected": "a"}},
        {"id": "leak-2", "prompt": "P", "split": "test", "judge": {"kind": "exact", "expected": "b"}},
        {"id": "empty", "prompt": "Q", "judge": {"kind": "regex", "pattern": ".*"}},
    ]
    file.write_text(json.dumps(rows))
    cli("tasks", "add", "ledger-clerk", file, store=demo["store_path"])
    done = cli("tasks", "check", "ledger-clerk", store=demo["store_path"])
    assert done.returncode == 1
    [empty] = done.stderr.splitlines()
    assert empty.startswith("error: task empty: an empty answer passes")
    assert done.stdout == "122 tasks, 1 problem.\n"


def test_stored_text_cannot_steer_the_terminal(cli, demo) -> None:
    with Workspace(Path(demo["store_path"])) as workspace:
        recording = Recording(task="do \x1b]0;owned\x07 it", hard=False, answer="\x1b[2J\u202egone")
        made = record_trajectory(workspace, demo["skill_path"], recording)
    shown = cli("show", made.trajectory_id, store=demo["store_path"]).stdout
    assert r"do \u{001B}]0;owned\u{0007} it" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_a_skill_root_must_be_narrow(home, tmp_path, demo, capsys) -> None:
    for path in ("/", home, tmp_path / "nowhere", tmp_path / "demo" / "skills" / "ledger-clerk"):
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


def test_a_renamed_skill_is_moved_and_read_meanwhile(cli, make_place) -> None:
    place = make_place()
    new = place.skill_path.rename(place.skill_path.with_name("bookkeeper"))
    listed = cli("skills", store=place.store_path)
    assert "    tasks: 20 train, 0 val, 40 test; attempts: 0 " in listed.stdout
    assert len(cli("tasks", "export", "ledger-clerk", store=place.store_path).stdout.splitlines()) == 60
    assert len(cli("tasks", "list", place.skill_path, store=place.store_path).stdout.splitlines()) == 61
    assert cli("show", "ledger-clerk", store=place.store_path).returncode == 0
    moved = parsed(cli("skills", "move", "ledger-clerk", new, "--json", store=place.store_path))
    assert (moved["skill"], moved["path"]) == ("bookkeeper", str(new))
    assert cli("skills", store=place.store_path).stdout.startswith("bookkeeper  live ")
    assert "error: '" in cli("skills", "forget", "bookkeeper", store=place.store_path).stderr


def test_where_skills_are_is_for_a_person_to_say(make_place, monkeypatch, capsys) -> None:
    place = make_place()
    monkeypatch.setenv("CLAUDECODE", "1")
    for arguments in (["move", "ledger-clerk", "elsewhere"], ["forget", "ledger-clerk"]):
        assert main(["--store", str(place.store_path), "skills", *arguments]) == 1
        assert "is for a person" in capsys.readouterr().err


def test_a_version_is_written_as_files(cli, make_place, tmp_path) -> None:
    place = make_place()
    version = parsed(cli("skills", "--json", store=place.store_path))["skills"][0]["live_version"]
    done = cli("show", f"ledger-clerk@{version}", "--out", tmp_path / "out", store=place.store_path)
    assert (done.returncode, (tmp_path / "out" / "SKILL.md").read_bytes()) == (0, place.main.read_bytes())
    again = cli("show", f"ledger-clerk@{version}", "--out", tmp_path / "out", store=place.store_path)
    assert (again.returncode, "is in use" in again.stderr) == (1, True)


def _bad_skill(kind: str, folder) -> str:
    folder.mkdir()
    main = folder / "SKILL.md"
    if kind == "binary":
        main.write_bytes(b"\x7fELF\0\0")
    elif kind == "latin-1":
        main.write_bytes("# Größe\n".encode("latin-1"))
    elif kind == "unreadable":
        main.write_text("# Closed\n")
        main.chmod(0)
    return str(folder)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("missing", "has no SKILL.md"),
        ("binary", "has a NUL byte"),
        ("latin-1", "is not UTF-8 at byte 4"),
        pytest.param(
            "unreadable", "cannot be read", marks=pytest.mark.skipif(RUNNING_AS_ROOT, reason="root reads everything")
        ),
    ],
)
@pytest.mark.usefixtures("first_run")
def test_a_folder_that_is_no_skill_is_an_error(cli, tmp_path, kind: str, says: str) -> None:
    skill = _bad_skill(kind, tmp_path / "bad")
    done = cli("show", skill)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("error: ")
    assert skill in done.stderr
    assert says in done.stderr


@pytest.mark.usefixtures("first_run")
def test_an_unknown_skill_is_named_in_both_forms_of_the_answer(cli) -> None:
    done = cli("show", "nosuch", "--json")
    assert done.returncode == 1
    assert done.stderr.startswith('error: no skill "nosuch" is known')
    assert json.loads(done.stdout) == {"error": done.stderr.removeprefix("error: ").rstrip("\n")}


def _newer(path) -> None:
    connection = connect(path)
    connection.execute("pragma application_id = 1397444432")
    connection.execute("pragma user_version = 999")
    connection.close()


def _foreign(path) -> None:
    connection = connect(path)
    connection.execute("create table somebody(x)")
    connection.close()


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (_newer, "made by another version"),
        (_foreign, "is a database of another program"),
        (lambda path: path.write_bytes(b"not a database " * 100), "is damaged or no store"),
        (lambda path: path.mkdir(), "is a folder"),
    ],
)
def test_a_store_that_cannot_be_used_is_left_as_it_is(cli, tmp_path, prepare, says: str) -> None:
    store = tmp_path / "store.db"
    prepare(store)
    before = None if store.is_dir() else store.read_bytes()
    done = cli("skills", store=store)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("error: ")
    assert f"'{store}'" in done.stderr
    assert says in done.stderr
    assert before is None or store.read_bytes() == before


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


def test_an_agent_is_shown_that_a_promotion_was_accepted_and_not_its_verdict(cli, make_place, monkeypatch) -> None:
    place = make_place()
    name, _ = promote_alone(place.store_path, place.skill_path)
    assert "verdict better" in cli("show", name, store=place.store_path).stdout
    monkeypatch.setenv("CLAUDECODE", "1")
    assert "verdict accepted" in cli("show", name, store=place.store_path).stdout
