"""Erasing at a terminal: a person alone does it, sees what goes and what stays, and finds it gone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from changes import at_a_terminal
from console import SCRIPT, Cli, Place, parsed

from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.workspace import Workspace

CANARY = "zebra-4711"


@pytest.fixture
def place(make_place: Callable[..., Place]) -> Place:
    """Return a place with two attempts, the second of which tells the canary."""
    place = make_place(n_tasks=9)
    with Workspace(place.store_path) as workspace:
        for n, text in enumerate(["plain", CANARY]):
            told = Recording(task=f"{n}: book it", answer=text, hard=False, session_id="s", index=n)
            record_trajectory(workspace, str(place.skill_path), told)
    return place


def holding(place: Place) -> list[str]:
    folder = place.store_path.parent
    return [path.name for path in folder.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]


def test_a_person_sees_what_goes_and_agrees(place: Place) -> None:
    code, screen = at_a_terminal(place, "erase", "ledger-clerk", "--containing", CANARY, answer="n")
    assert (code, "Nothing was changed." in screen, bool(holding(place))) == (1, True, True)
    assert "1 attempt would be erased:" in screen
    assert "trajectory:2  ledger-clerk  " in screen
    assert "session s  1: book it" in screen
    assert "Not looked at: backups, exports and --out folders" in screen
    code, screen = at_a_terminal(place, "erase", "ledger-clerk", "--containing", CANARY, answer="y")
    assert (code, "1 attempt erased" in screen, holding(place)) == (0, True, [])


def test_an_agent_in_its_shell_erases_nothing(cli: Cli, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    told = cli("erase", "trajectory:2", "--yes", store=place.store_path)
    assert (told.returncode, "'erase' is for a person" in told.stderr) == (1, True)
    assert holding(place)


def test_nobody_is_taken_to_agree_where_nobody_can_be_asked(cli: Cli, place: Place) -> None:
    for more in ([], ["--json"]):
        told = cli("erase", "trajectory:2", *more, store=place.store_path)
        assert (told.returncode, "agree beforehand with --yes" in told.stderr) == (1, True)
    assert holding(place)


def test_a_dry_run_changes_nothing(cli: Cli, place: Place) -> None:
    planned = parsed(cli("erase", "ledger-clerk", "--all", "--dry-run", "--json", store=place.store_path))
    assert (planned["status"], planned["n"]) == ("planned", 2)
    told = cli("erase", "ledger-clerk", "--all", "--dry-run", store=place.store_path)
    assert (told.returncode, "2 attempts would be erased:" in told.stdout) == (0, True)
    assert holding(place)


def test_what_was_erased_is_told_as_that_and_the_store_is_sound(cli: Cli, place: Place) -> None:
    done = parsed(cli("erase", "trajectory:2", "--yes", "--json", store=place.store_path))
    assert (done["status"], done["n"], done["log_emptied"]) == ("erased", 1, True)
    assert holding(place) == []
    assert "was erased by a person at" in cli("show", "trajectory:2", store=place.store_path).stdout
    assert parsed(cli("verify", "--json", store=place.store_path))["problems"] == []
    again = cli("erase", "trajectory:2", "--yes", store=place.store_path)
    assert (again.returncode, "0 attempts erased" in again.stdout) == (0, True)


def test_a_secret_is_read_from_standard_input(place: Place, tmp_path: Path) -> None:
    command = [SCRIPT, "--store", str(place.store_path), "erase", "ledger-clerk", "--containing", "-", "--yes"]
    done = subprocess.run(command, input=f"{CANARY}\n", capture_output=True, text=True, check=False, env=os.environ)
    assert (done.returncode, "1 attempt erased" in done.stdout, holding(place)) == (0, True, [])
    assert CANARY not in done.stdout + done.stderr


def test_a_store_that_is_not_there_is_not_made(cli: Cli, tmp_path: Path) -> None:
    told = cli("erase", "trajectory:1", "--yes", store=tmp_path / "none.db")
    assert (told.returncode, "there is no store" in told.stderr) == (1, True)
    assert not (tmp_path / "none.db").exists()


def test_a_restore_says_how_many_come_back(cli: Cli, place: Place, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    assert cli("backup", file, store=place.store_path).returncode == 0
    assert cli("erase", "trajectory:2", "--yes", store=place.store_path).returncode == 0
    code, screen = at_a_terminal(place, "restore", str(file), answer="n")
    assert (code, "1 attempt that was erased since comes back: erase again what is to be gone." in screen) == (1, True)
