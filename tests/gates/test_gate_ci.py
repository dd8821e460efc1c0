"""`benchmarks/gate_ci.py`: the gate that ships meets its goals; what one misses that is unsound or blind is named."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import pytest

from benchmarks import gate_ci
from skillopt_mcp.gates import rounds


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what runs the script on few pull requests: its exit code, and the object that it printed."""

    def measure(reps: int) -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["gate_ci.py", "--short", "--json", "--reps", str(reps)])
        return gate_ci.main(), json.loads(capsys.readouterr().out)

    return measure


def test_the_gate_meets_its_goals_and_the_mean_of_three_does_not(measure: Any) -> None:
    code, found = measure(25)
    assert (code, found["missed"]) == (0, [])
    others = found["mean_of_three"]
    for n in ("3", "6", "12", "30"):
        assert others["false_better"]["no effect"][n][0] > 0.2 > found["false_better"]["no effect"][n][0]
        assert others["contradictions"]["no effect"][n][1] > found["contradictions"]["no effect"][n][0]
    for share, low, high in (each for name in gate_ci.GOALS for row in found[name].values() for each in row.values()):
        assert 0 <= low <= share <= high <= 1
    assert 1 - found["missed_harm"]["-0.3"]["30"][0] == pytest.approx(found["decided_share"]["30"]["-0.3"][0])
    repeating = found["runs_per_pr"]["determ"]["no effect"]["30"]
    assert repeating["better or worse, kept"] < repeating["better or worse"]
    agent = gate_ci.measure_runs("agent", "no effect", 30, 40)
    assert agent["better alone, kept"] < agent["better alone"] < agent["better or worse"]


@pytest.mark.parametrize(
    ("enough", "missed"),
    [
        (1.5, ("false_better, no effect, 3 tasks", "false_worse, no effect, 6 tasks", "contradictions")),
        (1e30, ("a loss of 0.50 called worse, 6 tasks",)),
    ],
    ids=["calls what is luck", "calls nothing"],
)
def test_a_gate_that_misses_a_goal_is_named(
    measure: Any, monkeypatch: pytest.MonkeyPatch, enough: float, missed: tuple[str, ...]
) -> None:
    monkeypatch.setattr(rounds, "ENOUGH", enough)
    code, found = measure(25)
    assert code == 1
    for goal in missed:
        assert [each for each in found["missed"] if each.startswith(goal)], found["missed"]


def test_words_that_move_the_mean_of_these_cases_are_false_of_tasks_like_these_alone() -> None:
    words = gate_ci.measure_calls("words", 3, 200)["gate"]
    kept = gate_ci.measure_calls("words, mean kept", 3, 200)["gate"]
    assert words[f"false_better {gate_ci.LIKE}"][1] > words[f"false_better {gate_ci.HERE}"][2]
    assert kept[f"false_better {gate_ci.LIKE}"] == kept[f"false_better {gate_ci.HERE}"]
    rates = [0.1, 0.5, 0.95]
    changed = gate_ci.make_change(rates, "words, mean kept", random.Random(1))
    assert sum(changed) == pytest.approx(sum(rates))
    assert max(map(abs, map(float.__sub__, changed, rates))) > 0.05
