"""Retiring at a terminal: a person alone does it, sees what it means, and finds it again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from console import Cli, Place, parsed

from skillopt_mcp.operations.workspace import Workspace


@pytest.fixture
def place(make_place: Callable[..., Place]) -> Place:
    return make_place(n_tasks=9)


def held_out_task(place: Place) -> str:
    with Workspace(place.store_path) as workspace:
        return next(task.name for task in workspace.store.tasks.list_tasks(1) if task.split == "test")


def test_a_task_is_retired_with_a_warning_and_shown_where_it_is_asked_for(cli: Cli, place: Place) -> None:
    task = held_out_task(place)
    told = cli("tasks", "retire", "ledger-clerk", task, "--reason", "wrong key", "--yes", store=place.store_path)
    assert told.returncode == 0, told.stderr
    assert "1 task retired, 0 were before; ledger-clerk has 3 train, 3 val and 2 test tasks." in told.stdout
    assert "never what a candidate failed: that would cheat its test" in told.stderr
    shown = cli("tasks", "list", "ledger-clerk", store=place.store_path)
    assert task not in shown.stdout
    assert "1 more is retired: see them with --all" in shown.stderr
    every = cli("tasks", "list", "ledger-clerk", "--all", store=place.store_path)
    assert f"{task}  test, retired" in every.stdout
    found = parsed(cli("tasks", "list", "ledger-clerk", "--all", "--json", store=place.store_path))
    assert found["splits"] == {"train": 3, "val": 3, "test": 2}
    assert [each["retired"]["reason"] for each in found["tasks"] if "retired" in each] == ["wrong key"]  # type: ignore
    assert task not in cli("tasks", "export", "ledger-clerk", store=place.store_path).stdout
    assert f"task '{task}' (test): wrong key" in cli("history", "ledger-clerk", store=place.store_path).stdout


def test_an_agent_in_its_shell_retires_nothing(cli: Cli, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    told = cli("tasks", "retire", "ledger-clerk", held_out_task(place), "--yes", store=place.store_path)
    assert told.returncode == 1
    assert "'tasks retire' is for a person" in told.stderr
    assert "retired" not in cli("tasks", "list", "ledger-clerk", "--all", store=place.store_path).stdout


def test_nobody_is_taken_to_agree_where_nobody_can_be_asked(cli: Cli, place: Place) -> None:
    told = cli("tasks", "retire", "ledger-clerk", held_out_task(place), store=place.store_path)
    assert told.returncode == 1
    assert "agree beforehand with --yes" in told.stderr
    assert cli("history", "ledger-clerk", store=place.store_path).stdout == ""


def test_the_help_says_what_retiring_must_not_be_used_for(cli: Cli) -> None:
    told = " ".join(cli("tasks", "retire", "--help").stdout.split())
    assert "Retiring what a candidate has failed would cheat its promotion test" in told
