"""Watch in a log: where no bar can be drawn, a line a minute says how far a run is."""

from __future__ import annotations

import pytest

from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.optimizer.progress import Progress
from skillopt_mcp.records.calls import Call, Question, Reply, Usage

CALL = Call("optimizer", "reflect", Question("any", "any", "patch"), "any")
REPLY = Reply("42", usage=Usage(90, 10, 0.06))


class Clock:
    """A clock that goes on when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def watched(*, silent: bool = False) -> None:
    """Watch a run of five minutes, with a reply every twenty seconds."""
    clock = Clock()
    with Watch("SIMULATION", silent=silent, clock=clock) as watch:
        watch.notify(Progress("rollout", 1, 0, 4, 0.5, 0.5))
        for _ in range(15):
            clock.now += 20
            watch.on_reply(CALL, REPLY)


def test_a_run_without_a_terminal_says_once_a_minute_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    watched()
    told = capsys.readouterr()
    assert told.out == ""
    lines = told.err.splitlines()
    assert len(lines) == 5
    assert lines[0] == (
        "rollout, epoch 1, step 1 of 4; val 0.50, best 0.50; 3 calls, 300 tokens, $0.18 so far; SIMULATION"
    )
    assert "15 calls, 1,500 tokens, $0.90 so far" in lines[-1]


def test_a_run_that_is_to_be_silent_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    watched(silent=True)
    assert capsys.readouterr() == ("", "")
