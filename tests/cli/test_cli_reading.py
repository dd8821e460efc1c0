from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from console import SCRIPT, parsed

from skillopt_mcp.cli.main import main
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.runs.demo import prepare_demo, run_demo
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.store import driver

RUNNING_AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name no store: that of the user's own data folder is meant, which is not there yet."""
    monkeypatch.delenv("SKILLOPT_STORE")


@pytest.fixture
def demo(tmp_path) -> dict[str, object]:
    return run_demo(prepare_demo(tmp_path / "demo", "honest", 0)).model_dump(mode="json")


def test_json_is_one_object_and_nothing_else(demo, capfd) -> None:
    store, candidate, run = demo["store_path"], demo["candidate_id"], demo["run_id"]
    keys = {
        ("skills",): {"skills"},
        ("skills", "permit", "ledger-clerk", "--simulated", "--yes"): {"skill", "permitted", "simulated", "host_run"},
        ("skills", "revoke", "ledger-clerk"): {"skill", "permitted"},
        ("show", candidate): {"id", "kind", "text", "next_step", "candidate"},
        ("show", run): {"id", "kind", "text", "next_step", "steps", "answering", "conclude", "run"},
        ("diff", "ledger-clerk"): {"skill", "diff"},
        ("history", "ledger-clerk"): {"skill", "rows", "imported", "retired", "declined", "next_step"},
        ("tasks", "list", "ledger-clerk"): {"skill", "splits", "tasks"},
        ("tasks", "export", "ledger-clerk"): {"skill", "tasks"},
        ("tasks", "check", "ledger-clerk"): {"n_tasks", "problems", "remarks"},
    }
    for arguments, expected in keys.items():
        assert main(["--store", store, *arguments, "--json"]) == 0
        printed = capfd.readouterr()
        assert set(json.loads(printed.out)) == expected
        assert (printed.out.count("\n"), printed.err) == (1, "")


def test_the_same_commands_speak_to_people(cli, demo) -> None:
    store = demo["store_path"]
    assert cli("skills", store=store).stdout.startswith("ledger-clerk  live ")
    assert demo["candidate_id"] in cli("history", "ledger-clerk", store=store).stdout
    assert cli("show", demo["run_id"], store=store).stdout.startswith(f"run {demo['run_id']}: finished")
    listed = cli("tasks", "list", "ledger-clerk", store=store)
    assert len(listed.stdout.splitlines()) == 1 + 120
    assert listed.stderr.startswith("120 tasks of ledger-clerk: 40 train, 40 val, 40 test; judges: ")
    assert listed.stderr.endswith(f"; it is at {Path(demo['skill_path']).parent}.\n")


def test_a_promotion_test_is_shown_by_the_id_that_its_candidate_tells(cli, demo, capfd) -> None:
    store, candidate = demo["store_path"], demo["candidate_id"]
    told = cli("show", candidate, store=store)
    [line] = [line for line in told.stdout.splitlines() if line.startswith("promotion test t-")]
    id = line.split()[2].rstrip(":")
    shown = cli("show", id, store=store)
    assert (shown.returncode, shown.stderr) == (0, told.stderr)
    assert shown.stdout.startswith(f"promotion test {id} of skill 'ledger-clerk', candidate {candidate}\nbase ")
    again = f"skillopt-mcp --store {store} rollback ledger-clerk"
    assert shown.stderr == f"Next: Nothing: it is what is live. To undo it: {again}\n"
    assert main(["--store", store, "show", id, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["kind"], found["text"]) == ("test", shown.stdout.removesuffix("\n"))
    test = found["test"]
    assert (test["candidate_id"], test["j"], test["verdict"], test["simulated"]) == (candidate, 1, "accept", True)
    assert test["candidate"]["mean"] > test["base"]["mean"]
    assert main(["--store", store, "show", "t-000000000000"]) == 1
    assert capfd.readouterr().err.startswith('error: there is no promotion test "t-000000000000"')


def test_exported_tasks_can_be_added_elsewhere(cli, demo, tmp_path) -> None:
    file, store = tmp_path / "tasks.jsonl", tmp_path / "other.db"
    assert cli("tasks", "export", "ledger-clerk", file, store=demo["store_path"]).returncode == 0
    again = cli("tasks", "export", "ledger-clerk", file, store=demo["store_path"])
    assert again.stderr == f"error: '{file}' exists: name a file that does not, or say --force to write over it\n"
    before = file.read_text("utf-8")
    file.write_text("what was there")
    assert cli("tasks", "export", "ledger-clerk", file, "--force", store=demo["store_path"]).returncode == 0
    assert (file.read_text("utf-8"), list(tmp_path.glob(".*"))) == (before, [])
    skill = demo["skill_path"]
    assert parsed(cli("tasks", "import", skill, file, "--json", store=store))["added"] == 120
    assert cli("tasks", "export", skill, store=store).stdout == file.read_text("utf-8")


def test_a_bad_task_is_rejected_and_the_rest_is_added(cli, demo, tmp_path) -> None:
    file = tmp_path / "tasks.jsonl"
    good = {"prompt": "What is 2 + 2?", "judge": {"kind": "numeric", "expected": 4}}
    rows = [good, good | {"prompt": ""}, good | {"judge": {"kind": "telepathy"}}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    checked = cli("tasks", "check", "ledger-clerk", file, "--json", store=demo["store_path"])
    assert (checked.returncode, len(json.loads(checked.stdout)["problems"])) == (1, 2)
    done = cli("tasks", "add", "ledger-clerk", file, store=demo["store_path"])
    assert done.returncode == 1
    assert done.stdout.startswith("1 added, 0 there already; ")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert [line[:27] for line in errors] == ["error: task 2 was rejected:", "error: task 3 was rejected:"]
    assert "telepathy" in errors[1]


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
    empty, leak = done.stderr.splitlines()
    assert empty.startswith("error: task 'empty': an empty answer passes")
    assert leak.startswith("error: task 'leak-2': the same prompt as 'leak-1', which is in train")
    assert done.stdout == "123 tasks, 2 problems.\n"


def test_stored_text_cannot_steer_the_terminal(cli, demo) -> None:
    with Workspace(Path(demo["store_path"])) as workspace:
        recording = Recording(task="do \x1b]0;owned\x07 it", hard=False, answer="\x1b[2J\u202egone")
        made = record_trajectory(workspace, demo["skill_path"], recording)
    shown = cli("show", made.trajectory_id, store=demo["store_path"]).stdout
    assert r"do \u{001B}]0;owned\u{0007} it" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_a_reader_that_goes_away_is_no_error(demo) -> None:
    command = [SCRIPT, "--store", str(demo["store_path"]), "tasks", "export", "ledger-clerk"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_a_skill_root_must_be_narrow(home, tmp_path, demo, capsys) -> None:
    for path in ("/", home, tmp_path / "nowhere", tmp_path / "demo" / "skills" / "ledger-clerk"):
        assert main(["skills", "add-root", str(path)]) == 1
        assert capsys.readouterr().err.startswith(f"error: '{path}'")


def test_the_doctor_makes_no_store_and_finds_what_is_there(cli, home) -> None:
    (home / ".claude" / "skills" / "one").mkdir(parents=True)
    (home / ".claude" / "skills" / "one" / "SKILL.md").write_text("# One\n")
    found = parsed(cli("doctor", "--json"))
    assert found["problems"] == []
    assert found["store"]["exists"] is False
    assert not (home / "store").exists()
    assert {"path": str(home / ".claude" / "skills"), "n_skills": 1} in found["roots"]
    assert "not made yet" in cli("doctor").stdout


def test_the_doctor_does_not_say_that_all_is_well_where_nothing_can_be_used(cli, home, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    done = cli("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert "All is well" not in done.stdout
    [skill, nobody] = done.stdout.partition("What may be needed before a skill can be trained:\n")[2].splitlines()
    assert skill.startswith("  - no skill lies in any skill root: ")
    assert nobody.startswith("  - nobody was found who could do the work: ")
    (home / ".claude" / "skills" / "one").mkdir(parents=True)
    (home / ".claude" / "skills" / "one" / "SKILL.md").write_text("# One\n")
    found = parsed(cli("doctor", "--backend", "simulated:honest", "--json"))
    assert (found["lacking"], found["problems"]) == ([], [])
    assert cli("doctor", "--backend", "simulated:honest").stdout.endswith("All is well.\n")


def test_the_doctor_says_what_is_wrong_with_a_store(cli, demo) -> None:
    connection = driver.connect(demo["store_path"])
    connection.execute("pragma user_version = 999")
    connection.close()
    done = cli("doctor", store=demo["store_path"])
    assert done.returncode == 1
    assert f"error: the store '{demo['store_path']}' has schema 999" in done.stderr
    assert "All is well" not in done.stdout


def test_the_doctor_reads_the_roots_of_a_store_that_others_may_read(cli, make_place) -> None:
    place = make_place()
    place.store_path.chmod(0o644)
    done = cli("doctor", store=place.store_path)
    assert (done.returncode, "(mode 0644): chmod 600 it" in done.stderr) == (1, True)
    assert f"Skill root {place.skill_path.parent}, skills in it: 1." in done.stdout
    assert "none found" not in done.stdout


def test_the_doctor_says_that_roots_were_not_read_and_why(cli, tmp_path) -> None:
    (tmp_path / "store.db").write_bytes(b"no store " * 100)
    done = cli("doctor", store=tmp_path / "store.db")
    assert "Skill roots that you registered: not read, for the store was not (" in done.stdout
    assert "none found" not in done.stdout
    assert json.loads(cli("doctor", "--json", store=tmp_path / "store.db").stdout)["roots_unread"]


def test_a_renamed_skill_is_moved_and_read_meanwhile(cli, make_place) -> None:
    place = make_place()
    new = place.skill_path.rename(place.skill_path.with_name("bookkeeper"))
    listed = cli("skills", store=place.store_path)
    assert "    tasks: 20 train, 20 val, 20 test; attempts: 0 " in listed.stdout
    assert "next: its folder is gone: " in listed.stdout
    way = f"{place.program} skills move {place.skill_path} {new}, and tasks, attempts and history go on here"
    untracked = listed.stdout.partition("bookkeeper  (not tracked yet)")[2]
    assert untracked.startswith(f"\n    {new}\n    next: it looks like ")
    assert way in untracked
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


def test_a_skill_without_tasks_names_the_whole_command_that_adds_some(cli, make_place) -> None:
    place = make_place(n_tasks=0)
    listed = cli("skills", store=place.store_path)
    assert f"next: {place.program} tasks add ledger-clerk FILE\n" in listed.stdout


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
def test_a_folder_that_is_no_skill_is_told_so(cli, tmp_path, kind: str, says: str) -> None:
    skill = _bad_skill(kind, tmp_path / "bad")
    done = cli("history", skill)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("error: ")
    assert skill in done.stderr
    assert says in done.stderr


@pytest.mark.usefixtures("first_run")
def test_an_unknown_skill_is_named_in_both_forms_of_the_answer(cli) -> None:
    done = cli("history", "nobody", "--json")
    assert done.returncode == 1
    assert done.stderr.startswith('error: no skill "nobody" is known')
    assert json.loads(done.stdout) == {"error": done.stderr.removeprefix("error: ").rstrip("\n")}


def _newer(path) -> None:
    connection = driver.connect(path)
    connection.execute("pragma application_id = 1397444432")
    connection.execute("pragma user_version = 999")
    connection.close()


def _foreign(path) -> None:
    connection = driver.connect(path)
    connection.execute("create table somebody(x)")
    connection.close()


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (_newer, "has schema 999"),
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
    ["skills"], ["show", "S"], ["runs"], ["history", "S"], ["diff", "S"], ["verify"],
    ["backup", "F"], ["export", "S", "F"], ["tasks", "list", "S"], ["tasks", "export", "S"], ["tasks", "check", "S"],
    ["skills", "move", "S", "T"], ["skills", "forget", "S"],
    ["judges"], ["judges", "list"], ["promote", "c-1"], ["approve", "c-1"], ["rollback", "S"], ["rebase", "c-1"],
    ["evaluate", "c-1"], ["race", "c-1"], ["credit", "c-1"], ["calibrate", "S"],
]  # fmt: skip


@pytest.mark.parametrize("arguments", READERS, ids=" ".join)
def test_a_store_that_is_mistyped_is_not_made(tmp_path, capsys, arguments: list[str]) -> None:
    for missing in (tmp_path / "mistyped.db", tmp_path / "no" / "folder" / "store.db"):
        assert main(["--store", str(missing), *arguments]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(f"error: there is no store at '{missing}', and this command makes none: check the")
        assert "(it comes from --store)" in said.err
    assert os.listdir(tmp_path) == []


def test_a_store_that_the_environment_mistypes_is_not_made(tmp_path, monkeypatch, cli) -> None:
    monkeypatch.setenv("SKILLOPT_STORE", str(tmp_path / "mistyped.db"))
    done = cli("skills", "--json")
    assert done.returncode == 1
    assert "(it comes from $SKILLOPT_STORE)" in json.loads(done.stdout)["error"]
    assert not (tmp_path / "mistyped.db").exists()


def test_a_command_that_writes_makes_the_store_that_is_named(tmp_path, make_place, cli) -> None:
    skill, store = make_place().skill_path, tmp_path / "new.db"
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(json.dumps({"prompt": "What is 2 + 2?", "judge": {"kind": "numeric", "expected": 4}}))
    assert parsed(cli("tasks", "import", skill, tasks, "--json", store=store))["added"] == 1
    assert cli("skills", store=store).stdout.startswith("ledger-clerk  live ")


@pytest.mark.usefixtures("first_run")
def test_the_users_own_store_comes_into_being_by_a_first_look(cli) -> None:
    done = cli("skills")
    assert (done.returncode, done.stdout.splitlines()[0][:23]) == (0, "No skill was found. Give"[:23])


def test_a_store_that_cannot_be_made_is_told_so(cli, tmp_path) -> None:
    (tmp_path / "file").write_text("mine")
    done = cli("skills", "permit", "s", store=tmp_path / "file" / "store.db")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: the store '{tmp_path / 'file' / 'store.db'}' cannot be ")


@pytest.mark.skipif(RUNNING_AS_ROOT, reason="root writes everywhere")
def test_a_store_that_is_read_only_is_told_so(cli, tmp_path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    done = cli("skills", "permit", "s", store=folder / "store.db")
    assert done.returncode == 1
    assert f"error: the store '{folder / 'store.db'}' cannot be made" in done.stderr


def test_the_next_step_of_a_skill_with_tasks_is_a_command_of_a_terminal(cli, make_place) -> None:
    place = make_place()
    listed = cli("skills", store=place.store_path)
    assert (
        f"next: propose_edits with rollouts 8 by your agent (no key needed), or {place.program} replay ledger-clerk "
        "--target BACKEND:MODEL --optimizer BACKEND:MODEL\n"
    ) in listed.stdout
