"""Judge checks at the terminal: how often the judge model is right on answers whose verdict is known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from changes import at_a_terminal
from console import Cli, Place, parsed

from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.workspace.workspace import Workspace
from tests.vendors import Vendor, vending

POINTS = ["Names the pump", "Does not mention a price"]
RUBRIC = {"kind": "rubric", "points": POINTS}


def say(*holds: bool) -> str:
    """Return what a judge model says of an answer that begins with "The pump is"."""
    rows = [{"point": n, "quote": "The pump is", "absence": n == 2, "holds": h} for n, h in enumerate(holds, 1)]
    return json.dumps({"points": rows})


@pytest.fixture
def place(make_place) -> Place:
    return make_place("place", 0)


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with vending() as lent:
        lent.answer = say(True, True)
        yield lent


def lines(place: Place, name: str, rows: Sequence[Mapping[str, object]]) -> Path:
    """Return a file with a row in each line."""
    path = place.store_path.with_name(name)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def tasks_of(place: Place) -> Path:
    """Return a file of three tasks, two of which a model judges."""
    both = {"kind": "all", "judges": [RUBRIC, {"kind": "exact", "expected": "The pump is here."}]}
    return lines(place, "tasks.jsonl", [
        {"id": "why", "prompt": "Why is it wet?", "judge": RUBRIC, "split": "train"},
        {"id": "what", "prompt": "What broke?", "judge": both, "split": "train"},
        {"id": "when", "prompt": "When?", "judge": {"kind": "exact", "expected": "Today."}, "split": "train"},
    ])  # fmt: skip


def judge(place: Place, replies: Sequence[object]) -> str:
    """Return a scripted judge."""
    path = place.store_path.with_name("judge.json")
    path.write_text(json.dumps({"judge": replies}))
    return f"scripted:{path}"


# By the words of the answer: right twice, wrong once in each direction, and one of a kind that cannot be read.
REPLIES = [
    {"match": "The pump is good", "reply": say(True, True)}, {"match": "The pump is bad", "reply": say(False, True)},
    {"match": "The pump is lucky", "reply": say(True, True)}, {"match": "The pump is poor", "reply": say(True, False)},
    {"match": "The pump is odd", "reply": "Fine!"}, say(True, True),
]  # fmt: skip
ANSWERS = [
    {"case": "why", "answer": "The pump is good.", "passes": True},
    {"task": "why", "answer": "The pump is bad.", "passes": False},
    {"case": "why", "answer": "The pump is lucky.", "passes": False},
    {"case": "why", "answer": "The pump is poor.", "passes": True},
    {"case": "why", "answer": "The pump is odd.", "passes": True},
    {"case": "when", "answer": "Today.", "passes": True},
]


def check(cli: Cli, place: Place, *options: object) -> dict[str, Any]:
    """Return what a check of the file says of the judge."""
    done = cli("tasks", "check", place.skill_path, tasks_of(place), "--json", *options, store=place.store_path)
    found: dict[str, Any] = parsed(done)
    assert (found["n_tasks"], found["problems"]) == (3, [])
    return found


def test_agreement_is_counted_on_the_answers_of_a_file_and_on_what_is_expected_next_to_a_rubric(
    cli: Cli, place: Place
) -> None:
    answers = lines(place, "answers.jsonl", ANSWERS)
    found = check(cli, place, "--judge", judge(place, REPLIES), "--answers", answers, "--yes")["judge"]
    # The sixth answer is of a task that no model judges; "The pump is here." is expected next to the rubric of another.
    counts = {name: found[name] for name in ("n", "agree", "false_passes", "false_fails", "unscored")}
    assert counts == {"n": 6, "agree": 3, "false_passes": 1, "false_fails": 1, "unscored": 1}
    assert [(each["case"], each["passes"]) for each in found["disagreements"]] == [("why", True), ("why", False)]
    assert 'do not hold: "Does not mention a price"' in found["disagreements"][1]["why"]
    # Two votes each; of the one that cannot be read three, each asked three times.
    assert found["used"].startswith("19 calls (6 calls retried after unusable replies), ")
    again = check(cli, place, "--judge", judge(place, REPLIES), "--answers", answers, "--yes")["judge"]
    assert again["used"].startswith("0 calls, ")
    assert {**again, "used": ""} == {**found, "used": ""}
    done = cli(
        "tasks", "check", place.skill_path, tasks_of(place), "--judge", judge(place, REPLIES), "--answers", answers,
        "--yes", store=place.store_path,
    )  # fmt: skip
    assert "agrees on 3 of 6 labelled answers: 1 passed that should fail, 1 failed that should pass" in done.stdout
    assert "why: passes, and should not: " in done.stderr


def test_recorded_attempts_with_a_score_are_labels_of_stored_tasks(cli: Cli, place: Place) -> None:
    with Workspace(place.store_path) as workspace:
        store, at, skill = workspace.store, workspace.place, str(place.skill_path)
        assert add_tasks(store, at, skill, file=str(tasks_of(place))).added == 3
        for answer, hard in (("The pump is good.", True), ("The pump is lucky.", False), ("The pump is bad.", None)):
            record_trajectory(store, at, skill, Recording(task="Why is it wet?", answer=answer, hard=hard))
        record_trajectory(store, at, skill, Recording(task="Another question", answer="The pump is here", hard=True))
    done = cli(
        "tasks", "check", place.skill_path, "--judge", judge(place, REPLIES), "--json", "--yes", store=place.store_path
    )
    found = json.loads(done.stdout)["judge"]
    assert (found["n"], found["agree"], found["false_passes"]) == (3, 2, 1)


def test_nothing_is_asked_before_a_person_has_seen_what_it_takes(cli: Cli, place: Place, vendor: Vendor) -> None:
    answers = lines(place, "answers.jsonl", ANSWERS[:2])
    arguments = ("tasks", "check", place.skill_path, tasks_of(place), "--judge", vendor.spec(), "--answers", answers)
    refused = cli(*arguments, store=place.store_path)
    assert refused.returncode == 1
    assert "3 labelled answers: 6 to 9 judge calls." in refused.stderr
    assert "agree beforehand with --yes" in refused.stderr
    planned = parsed(cli(*arguments, "--dry-run", "--json", store=place.store_path))
    assert planned["judge"]["calls"] == {"judge": 9}
    code, screen = at_a_terminal(place, *map(str, arguments), answer="n")
    assert (code, vendor.asked) == (1, [])
    assert "Spend that much? [y/N]" in screen
    code, screen = at_a_terminal(place, *map(str, arguments), answer="y")
    assert (code, len(vendor.asked)) == (0, 6)
    assert "The judge agrees on 2 of 3 labelled answers: 1 passed that should fail" in " ".join(screen.split())
    assert "Used in all: 6 calls, 660 tokens" in " ".join(screen.split())


def test_caps_hold_and_what_was_answered_is_kept(cli: Cli, place: Place, vendor: Vendor) -> None:
    answers = lines(place, "answers.jsonl", ANSWERS[:4])
    arguments = ("tasks", "check", place.skill_path, tasks_of(place), "--judge", vendor.spec(), "--answers", answers)
    capped = cli(*arguments, "--yes", "--max-calls", "4", store=place.store_path)
    assert (capped.returncode, len(vendor.asked)) == (1, 4)
    assert "--max-calls" in capped.stderr
    unpriced = cli(*arguments, "--yes", "--max-usd", "1", store=place.store_path)
    assert (unpriced.returncode, len(vendor.asked)) == (1, 4)
    assert "caps on tokens or money cannot hold: write max_tokens=N" in unpriced.stderr
    whole = parsed(cli(*arguments, "--yes", "--json", store=place.store_path))
    assert len(vendor.asked) == 10
    assert whole["judge"]["used"].startswith("6 calls, ")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"case": "why", "answer": "x"}, "row 1 is no"),
        ({"case": "who", "answer": "x", "passes": True}, "row 1 is no"),
        ({"case": "why", "answer": 1, "passes": True}, "row 1 is no"),
        ({"case": "why", "answer": "x", "passes": "no"}, "row 1 is no"),
        ({"case": "when", "answer": "Today.", "passes": True}, "no labelled answer of a task that a model judges"),
    ],
)  # fmt: skip
def test_answers_that_label_nothing_are_refused(cli: Cli, place: Place, row: dict[str, object], why: str) -> None:
    answers = lines(place, "answers.jsonl", [row])
    tasks = lines(place, "tasks.jsonl", [
        {"id": "why", "prompt": "Why?", "judge": RUBRIC},
        {"id": "when", "prompt": "When?", "judge": {"kind": "exact", "expected": "Today."}},
    ])  # fmt: skip
    done = cli(
        "tasks", "check", place.skill_path, tasks, "--judge", judge(place, REPLIES), "--answers", answers,
        store=place.store_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert why in done.stderr


def test_what_only_a_judge_makes_use_of_is_refused_without_one(cli: Cli, place: Place) -> None:
    for options in (("--answers", "x.jsonl"), ("--dry-run",), ("--max-calls", "3")):
        done = cli("tasks", "check", place.skill_path, tasks_of(place), *options)
        assert done.returncode == 2
        assert "need --judge" in done.stderr


def test_an_agent_checks_no_judge_on_held_out_tasks(
    cli: Cli, place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [{"id": name, "prompt": f"Why {name}?", "judge": RUBRIC, "split": name} for name in ("train", "test")]
    with Workspace(place.store_path) as workspace:
        add_tasks(workspace.store, workspace.place, str(place.skill_path), rows)
    answers = lines(place, "answers.jsonl", [{"case": "test", "answer": "The pump is here.", "passes": True}])
    monkeypatch.setenv("CLAUDECODE", "1")
    done = cli(
        "tasks", "check", place.skill_path, "--judge", judge(place, REPLIES), "--answers", answers, "--yes",
        store=place.store_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert "row 1 is no" in done.stderr
    pool = Pool(place.store_path)
    assert list(pool.rows("select count(*) from call")) == [(0,)]
    pool.close()
