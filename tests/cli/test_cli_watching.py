"""Watching: the live table of a run at a terminal, of any width, and what it leaves there."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from console import BACKENDS, TARGET, Place, run_at_a_terminal

from skillopt_mcp.core.runs import StepRecord
from skillopt_mcp.workspace.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the terminal is one of Linux")
SLOW = ("--target", f"{TARGET},latency_ms=30", "--optimizer", TARGET)
_ROW = re.compile(r" *(\d+) +(\d+) +(\d+|slow|meta) +[-.\d]+ +[-≤.\d]+ +([.\d]+)  \S")
_CONTROL = re.compile(r"\x1b\[[?\d;]*[A-Za-z]")


def watched(
    place: Place, folder: Path, *arguments: str, columns: int = 80, interrupt: str = "", term: str = "xterm"
) -> tuple[int, list[str]]:
    """Return exit code and all lines that were ever drawn, of a run that gets Ctrl-C once it shows `interrupt`."""
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")} | {"TERM": term}
    command = [*place.command[1:], *arguments]
    code, screen = run_at_a_terminal(command, folder, environ, "\x03", columns, interrupt or "[y/N]")
    assert screen.rfind("\x1b[?25l") <= screen.rfind("\x1b[?25h")  # the cursor is back
    return code, re.split("[\r\n]+", _CONTROL.sub("", screen))


def rows(lines: list[str]) -> list[tuple[str, ...]]:
    """Return step, epoch, edits and best score of the rows of all tables."""
    return [found.groups() for line in lines if (found := _ROW.match(line))]


def stored(place: Place) -> list[StepRecord]:
    with Workspace(place.store_path) as workspace:
        [run] = workspace.store.runs.list_runs(workspace.place.skill("ledger-clerk").id)
        return workspace.store.runs.list_steps(run.id)


@pytest.mark.parametrize("columns", [60, 100])
def test_a_table_of_the_last_steps_follows_the_run_and_stays(make_place, tmp_path: Path, columns: int) -> None:
    place = make_place()
    given = ("replay", "ledger-clerk", *SLOW, "--epochs", "3", "--batch", "8", "--max-calls", "5000")
    code, lines = watched(place, tmp_path, *given, columns=columns)
    assert code == 0
    steps = stored(place)
    expected = [
        (str(each.n), str(each.epoch), str(each.n_applied) if each.kind == "step" else each.kind, f"{each.best:.2f}")
        for each in steps
    ]
    assert len(expected) > 8
    assert rows(lines)[-8:] == expected[-8:]
    text = " ".join(" ".join(lines).split())
    for fact in ("SIMULATION rollout, epoch 1", " of 5,000 calls", "to the promotion test", "attempt 0 of at most"):
        assert fact in text
    drawn = [line for line in lines if _ROW.match(line) or line.startswith(("step ", "━", "val ", "Caps used"))]
    assert max(map(len, drawn)) <= columns
    # What one reads once it is over: the table, no bar, and the result.
    last = next(n for n, line in enumerate(lines) if "finished: " in line)
    assert [bool(_ROW.match(line)) for line in lines[last - 9 : last]] == [False] + [True] * 8


def test_ctrl_c_leaves_the_table_and_a_resumed_run_shows_the_steps_before(make_place, tmp_path: Path) -> None:
    place = make_place()
    given = ("replay", "ledger-clerk", *SLOW, "--epochs", "2", "--batch", "8")
    code, lines = watched(place, tmp_path, *given, interrupt="step 3 of")
    assert code == 130
    n_done = len(stored(place))
    last = max(n for n, line in enumerate(lines) if line.startswith("━"))
    assert [row[0] for row in rows(lines[last - n_done : last])] == [str(n + 1) for n in range(n_done)]
    code, lines = watched(place, tmp_path, "replay", "ledger-clerk", "--resume")
    assert code == 0
    assert rows(lines)[0][0] == "1"
    assert int(rows(lines)[-1][0]) > n_done


def test_a_test_shows_its_attempts_and_leaves_its_verdict_alone(make_place, tmp_path: Path) -> None:
    place = make_place()
    better = tmp_path / "better.md"
    better.write_text(f"{place.main.read_text()}\nShorter.\n")
    given = ("evaluate", "ledger-clerk", "--file", str(better), *SLOW[:2])
    code, lines = watched(place, tmp_path, *given)
    assert code == 0
    assert any(re.match("━.*SIMULATION  promotion test, attempt [1-9]", line) for line in lines)
    assert rows(lines) == []


def test_an_agent_is_not_shown_how_far_a_test_is(make_place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    place = make_place()
    better = tmp_path / "better.md"
    better.write_text(f"{place.main.read_text()}\nShorter.\n")
    given = ("evaluate", "ledger-clerk", "--file", str(better), *SLOW[:2], "--max-calls", "500")
    code, lines = watched(place, tmp_path, *given)
    assert code == 0, lines
    during = [line for line in lines if "promotion test, " in line or " of 500 calls" in line or "0 calls" in line]
    assert [line for line in during if "attempts are not shown" in line]
    assert [line for line in during if re.search("[1-9][0-9]* (answer|call|token)|attempt [0-9]", line)] == []


def test_a_terminal_that_cannot_draw_gets_lines(make_place, tmp_path: Path) -> None:
    given = ("replay", "ledger-clerk", *BACKENDS, "--epochs", "1", "--batch", "20")
    code, lines = watched(make_place(), tmp_path, *given, term="dumb")
    assert code == 0
    assert [line for line in lines if line.startswith("step 1/1  epoch 1")]
    assert rows(lines) == []
