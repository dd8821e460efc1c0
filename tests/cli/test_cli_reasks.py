"""Calls that ask again for replies of no use are told beforehand, as what an estimate leaves out, and afterwards."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from console import Cli, Place, parsed
from test_cli_gates import add_rubrics

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.commands import replay
from skillopt_mcp.operations.spending.charging import account
from skillopt_mcp.operations.workspace import Workspace

SMALL = ("--epochs", "1", "--batch", "8", "--max-pairs", "5")
WORDY = {
    "rollout": ["Good day to you."],
    "reflect": ['{"edits": [{"op": "append", "content": "Greet.", "evidence": [1]}]}'],
    "merge": ['{"edits": [{"op": "append", "content": "Greet."}], "merged_from": [[1]]}'],
    "judge": [
        {"match": "could not be used", "reply": '{"reasoning": "It greets.", "grade": "all"}'},
        "A fine greeting, I should say.",
    ],
}


@pytest.fixture
def place(make_place) -> Place:
    place: Place = make_place(n_tasks=0)
    with Workspace(place.store_path) as workspace:
        add_rubrics(workspace, str(place.skill_path))
    return place


@pytest.fixture
def wordy(tmp_path: Path) -> str:
    """Return the spec of models whose judge answers in prose until it is told that this is of no use."""
    path = tmp_path / "wordy.json"
    path.write_text(json.dumps(WORDY))
    return f"scripted:{path}"


def n_again(told: str) -> int:
    found = re.search(r"calls \((\d+) calls asked again for replies that could not be used\), ", told)
    assert found, told
    return int(found[1])


def test_the_calls_that_ask_again_are_within_what_the_estimate_leaves_out_and_are_told_at_the_end(
    cli: Cli, place: Place, wordy: str
) -> None:
    command = ("replay", "ledger-clerk", "--target", wordy, "--optimizer", wordy, "--judge", wordy, *SMALL)
    plan = json.loads(cli(*command, "--dry-run", "--json", store=place.store_path).stdout)
    done = cli(*command, store=place.store_path)
    assert done.returncode == 0, done.stderr
    [run] = parsed(cli("runs", "--json", store=place.store_path))["runs"]  # type: ignore[misc]
    with Workspace(place.store_path) as workspace:
        rows = [row for row in account(workspace.store, run["id"]).rows if row.role == "judge"]
    assert n_again(done.stdout) == run["n_again"] == sum(row.n_again for row in rows) > 0
    assert 2 * run["n_again"] == sum(row.n_calls for row in rows)
    assert run["n_again"] <= plan["n_again"] == 2 * (plan["calls"]["optimizer"] + plan["calls"]["judge"])


def test_a_contest_tells_the_calls_that_asked_again(cli: Cli, place: Place, wordy: str) -> None:
    command = ("calibrate", "ledger-clerk", "--target", wordy, "--judge", wordy, "--pairs", "8")
    told = cli(*command, store=place.store_path)
    assert told.returncode == 0, told.stderr
    assert n_again(told.stdout.partition("Used in all: ")[2]) > 0


def test_who_is_asked_to_pay_hears_what_the_estimate_leaves_out(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(terminal, "agreed", lambda question, **_: False)
    model = "openai:m,base_url=http://127.0.0.1:9"
    options = replay.Options(
        store=str(place.store_path), skill="ledger-clerk", target=model, optimizer=model, judge=model,
        given={"epochs": 1, "max_pairs": 5},
    )  # fmt: skip
    assert replay.run(options) == 1
    told = capsys.readouterr().err
    asked = re.search(r"and about ([\d,]+) optimizer calls?, and ([\d,]+) calls of the judge", told)
    assert asked, told
    most = 2 * sum(int(n.replace(",", "")) for n in asked.groups())
    assert f"\nNot counted: up to {most:,} calls that ask again for replies which cannot be used, and repeats" in told
