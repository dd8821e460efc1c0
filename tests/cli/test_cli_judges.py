"""Judges at the terminal: a person registers a program, tasks name it, and its verdicts decide a promotion test."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from console import Cli, Place, parsed

from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.backends.programs import bwrap_fault, register_command
from skillopt_mcp.cli.main import main
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.workspace.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are those of Unix")
GREP = shutil.which("grep") or "grep"
RULE = "Say the right word."
N_TASKS = 6


@pytest.fixture
def place(make_place) -> Place:
    return make_place("place", 0)


def tasks_with(place: Place, judge: object) -> Path:
    """Return a file of test tasks that have this judge."""
    path = place.store_path.with_name("tasks.jsonl")
    rows = [{"prompt": f"What is the word of day {n}?", "judge": judge, "split": "test"} for n in range(N_TASKS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def script(place: Place, name: str, replies: dict[str, list[object]]) -> str:
    """Return the spec of a scripted backend."""
    path = place.store_path.with_name(f"{name}.json")
    path.write_text(json.dumps(replies))
    return f"scripted:{path}"


def target(place: Place) -> str:
    """Return a target that answers right, by way of a tool, when the skill asks for it."""
    called = {"role": "tool_call", "name": "look_up", "content": '{"what": "word"}'}
    taught = {"match": RULE, "reply": "the right word", "messages": [called, {"role": "tool", "content": "right"}]}
    untaught = {"reply": "look_up: some word", "messages": [{"role": "assistant", "content": "look_up: some word"}]}
    return script(place, "target", {"rollout": [taught, untaught]})


def register(place: Place, name: str, *line: str | None) -> None:
    with Workspace(place.store_path) as workspace:
        made = register_command(name, [part or "" for part in line], unconfined=bool(bwrap_fault()))
        workspace.store.commands.register(made)


def candidate_of(place: Place, tasks: Path | None = None) -> str:
    """Return the id of a candidate that holds the rule; the tasks of the file are added first."""
    with Workspace(place.store_path) as workspace:
        if tasks:
            assert add_tasks(workspace.store, workspace.place, str(place.skill_path), file=str(tasks)).added == N_TASKS
        proposed = propose_edits(
            workspace.store, workspace.place, str(place.skill_path), [{"op": "append", "content": RULE}]
        )
    assert proposed.candidate_id
    return proposed.candidate_id


def stored(place: Place, sql: str) -> list[tuple[object, ...]]:
    pool = Pool(place.store_path)
    try:
        return list(pool.rows(sql))
    finally:
        pool.close()


def test_tasks_check_runs_the_commands_and_names_those_that_pass_whatever_is_said(cli: Cli, place: Place) -> None:
    names = ("anything", "parrot", "strict")
    register(place, "anything", shutil.which("true"))
    register(place, "parrot", GREP, "-q", "word", "answer.txt")
    register(place, "strict", GREP, "-q", "right", "answer.txt")
    rows = [
        {"prompt": f"The word of {name}?", "judge": {"kind": "command", "name": name}, "id": name} for name in names
    ]
    with Workspace(place.store_path) as workspace:
        assert add_tasks(workspace.store, workspace.place, str(place.skill_path), rows).added == len(names)
    found = json.loads(cli("tasks", "check", place.skill_path, "--json", store=place.store_path).stdout)
    assert found["problems"] == [
        {"task": "anything", "id": "anything", "reason": "an empty answer passes: the program expects too little"},
        {"task": "parrot", "id": "parrot", "reason": "the prompt itself passes as an answer"},
    ]


_GRADES = [{"match": "the right word", "reply": '{"reasoning": "so", "grade": "all"}'}, '{"grade": "none"}']
_HOLDS = '{"points": [{"point": 1, "quote": "the right word", "holds": true}]}'
_POINTS = [{"match": "the right word", "reply": _HOLDS}, '{"points": [{"point": 1, "holds": false}]}']


@pytest.mark.parametrize(
    ("fields", "replies", "n_calls"),
    [({"rubric": "The answer is right."}, _GRADES, 1), ({"points": ["The answer is right."]}, _POINTS, 2)],
    ids=["text", "points"],
)
def test_a_rubric_is_judged_by_the_named_judge_and_asks_for_one_before_anything_is_spent(
    cli: Cli, place: Place, fields: dict[str, object], replies: list[object], n_calls: int
) -> None:
    tasks = tasks_with(place, {"kind": "rubric", **fields})
    candidate = candidate_of(place, tasks)
    without = cli("evaluate", candidate, "--target", target(place), store=place.store_path)
    assert without.returncode == 1
    assert "no backend for the role 'judge': pass --judge claude-code (uses your Claude login" in without.stderr
    simulated = cli(
        "evaluate", candidate, "--target", target(place), "--judge", "simulated:honest", store=place.store_path
    )
    assert (simulated.returncode, simulated.stderr) == (
        1,
        "error: 'simulated:honest' is a simulation, which judges by no rubric: name a model with --judge "
        "BACKEND:MODEL\n",
    )
    assert stored(place, "select count(*) from call") == [(0,)]
    assert stored(place, "select count(*) from promotion_test") == [(0,)]
    judge = script(place, "judge", {"judge": replies})
    result = parsed(
        cli("evaluate", candidate, "--target", target(place), "--judge", judge, "--json", store=place.store_path)
    )
    assert result["test"]["verdict"] == "better_here"
    assert " judged by scripted:" in str(result["test"]["backend"])
    assert stored(place, "select distinct role, stage from call order by role") == [
        ("judge", "judge"), ("target", "rollout"),
    ]  # fmt: skip
    [(n_judged,)], [(n_rollouts,)] = (
        stored(place, f"select count(*) from call where role = '{role}'") for role in ("judge", "target")
    )
    assert n_judged == n_calls * n_rollouts  # type: ignore[operator]


@pytest.mark.parametrize(
    ("program", "what"),
    [
        ("kill -9 $$", "died"),
        ("sleep 60", "ran out of time"),
        ("echo MemoryError; exit 1", "ran out of memory"),
    ],
)
def test_a_program_that_can_pass_nothing_is_registered_with_a_warning(
    place: Place, program: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    unconfined = ["--unconfined"] if bwrap_fault() else []
    line = ["tasks", "judges", "add", "x", "--time", "0.3", *unconfined, "--yes", "--", "/bin/sh", "-c", program]
    assert main(["--store", str(place.store_path), *line]) == 0
    reported = " ".join(capsys.readouterr().err.split())
    assert f"warning: on an empty answer it {what}" in reported
    assert "passes none of them" in reported


def test_without_bubblewrap_a_program_is_registered_by_an_explicit_unconfined_alone(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def add(*flags: str) -> tuple[int, str]:
        line = ["--store", str(place.store_path), "tasks", "judges", "add", "x", *flags, "--yes", "--", "/bin/true"]
        code, printed = main(line), capsys.readouterr()
        return code, " ".join((printed.out + printed.err).split())

    monkeypatch.setenv("PATH", str(tmp_path))
    for flags in ((), ("--require-sandbox",)):
        code, printed = add(*flags)
        assert code == 1
        assert "needs bubblewrap, which is not installed: install it" in printed
        assert "or register the program with --unconfined" in printed
    assert add("--unconfined", "--require-sandbox")[0] == 1
    assert stored(place, "select count(*) from command") == [(0,)]
    code, printed = add("--unconfined")
    assert (code, "NOTHING: it can do whatever you can" in printed) == (0, True)
    assert stored(place, "select unconfined from command") == [(1,)]
    assert main(["--store", str(place.store_path), "tasks", "judges"]) == 0
    assert "x (unconfined)" in " ".join(capsys.readouterr().out.split())
