"""Judge all: rounds of questions, combinations, and what leaves a trial without a score."""

from __future__ import annotations

import math

import pytest
from scripted_judge import ScriptedJudge, attempted, grade, question

from skillopt_mcp.core.calls import Call, Reply
from skillopt_mcp.core.judging import Attempt, Score, Unscored
from skillopt_mcp.tasks.judges.judging import judge_all, parse_judge, score
from skillopt_mcp.tasks.judges.kinds.text import Exact

EXACT = {"kind": "exact", "expected": "yes"}
RUBRIC = {"kind": "rubric", "rubric": "Says yes politely."}
COMMAND = {"kind": "command", "name": "pytest-fast"}
PASSED = '{"exit": 0, "confined": "bwrap"}'


def silent(call: Call) -> str:
    """Fail the test: nothing was to be asked."""
    raise AssertionError(f"asked {call.stage}")


def test_questions_of_all_attempts_go_out_together_and_come_back_in_order() -> None:
    ask = ScriptedJudge(
        lambda call: (
            PASSED if call.stage == "check" else grade("all" if "answer 2" in question(call).evidence else "none")
        )
    )
    both = {"kind": "all", "judges": [RUBRIC, COMMAND]}
    found = judge_all(ask, [attempted("answer 1", both, 1), attempted("yes", EXACT, 2), attempted("answer 2", both, 3)])
    assert [each.hard for each in found if isinstance(each, Score)] == [False, True, True]
    assert [(call.role, call.stage, call.draw) for calls in ask.rounds for call in calls] == [
        ("judge", "check", "draw/1"),
        ("judge", "check", "draw/3"),
        ("judge", "judge", "draw/1/vote0"),
        ("judge", "judge", "draw/3/vote0"),
    ]
    assert len(ask.rounds) == 2


def test_a_missing_judge_reply_is_a_missing_score_and_never_zero() -> None:
    ask = ScriptedJudge(lambda call: Reply("overloaded", fault="overloaded"))
    for judge in (RUBRIC, COMMAND, {"kind": "all", "judges": [EXACT, RUBRIC]}):
        [found] = judge_all(ask, [attempted("yes", judge)])
        assert isinstance(found, Unscored)
        assert "overloaded" in found.reason


def test_a_judge_that_raises_leaves_no_score_and_the_others_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(judge: Exact, attempt: Attempt) -> Score:
        if attempt.answer == "bad":
            raise KeyError("bad")
        return Score(hard=True, soft=1.0, reason="fine")

    monkeypatch.setattr(Exact, "score", broken)
    found = judge_all(ScriptedJudge(silent), [attempted("bad", EXACT), attempted("good", EXACT)])
    assert found == [
        Unscored("the judge failed: KeyError: 'bad'"),
        Score(hard=True, soft=1.0, reason="fine"),
    ]


@pytest.mark.parametrize("soft", [math.nan, math.inf, -0.01, 1.01])
@pytest.mark.parametrize("judge", [EXACT, {"kind": "all", "judges": [EXACT, EXACT]}])
def test_a_score_that_is_no_number_between_0_and_1_is_none(
    monkeypatch: pytest.MonkeyPatch, soft: float, judge: object
) -> None:
    monkeypatch.setattr(Exact, "score", lambda *_: Score(hard=True, soft=soft, reason=""))
    [found] = judge_all(ScriptedJudge(silent), [attempted("yes", judge)])
    assert isinstance(found, Unscored)
    assert "not between 0 and 1" in found.reason


def weighted(threshold: float = 0.8) -> dict[str, object]:
    """Return a judge of which exact has three quarters of the weight."""
    judges = [{"judge": EXACT, "weight": 3}, {"judge": {"kind": "contains", "expected": ["yes", "no"]}, "weight": 1}]
    return {"kind": "weighted", "judges": judges, "threshold": threshold}


def test_weights_make_the_mean_and_the_threshold_decides() -> None:
    [lax, strict] = judge_all(
        ScriptedJudge(silent), [attempted("yes", weighted(0.875)), attempted("yes", weighted(0.9))]
    )
    assert isinstance(lax, Score)
    assert isinstance(strict, Score)
    assert (lax.hard, lax.soft) == (True, 0.875)
    assert (strict.hard, strict.soft) == (False, 0.875)
    assert strict.reason == 'weighted mean 0.875, 0.9 passes: lacks "no" (1 of 2 found)'


@pytest.mark.parametrize(("threshold", "is_scored"), [(0.7, False), (0.9, True)])
def test_weights_decide_without_a_score_that_could_change_nothing(threshold: float, *, is_scored: bool) -> None:
    rubric = {"judge": {"kind": "rubric", "rubric": "is brief"}, "weight": 3}
    judge = weighted(threshold) | {"judges": [{"judge": {"kind": "exact", "expected": "no"}, "weight": 1}, rubric]}
    outcome = score(parse_judge(judge), "yes")
    assert isinstance(outcome, Score) is is_scored
    if isinstance(outcome, Score):
        assert (outcome.hard, outcome.soft) == (False, 0.0)


@pytest.mark.parametrize(
    ("reply", "hard", "reason"),
    [
        ('{"exit": 0, "confined": "bwrap"}', True, "command 'pytest-fast' ended with exit code 0 [confined: bwrap]"),
        (
            '{"exit": 1, "confined": "bwrap", "output": "E assert 4 == 5"}',
            False,
            "command 'pytest-fast' ended with exit code 1 [confined: bwrap]: \"E assert 4 == 5\"",
        ),
        ('{"limit": "time", "confined": "none"}', False, "command 'pytest-fast' ran out of time [confined: none]"),
    ],
)
def test_the_end_of_a_command_is_its_score_and_its_output_the_reason(reply: str, hard: bool, reason: str) -> None:
    [found] = judge_all(ScriptedJudge(lambda call: reply), [attempted("x", COMMAND)])
    assert isinstance(found, Score)
    assert (found.hard, found.soft, found.reason) == (hard, float(hard), reason)


@pytest.mark.parametrize("reply", ["", "{}", '{"exit": "zero"}', "exit 0", '{"exit": null, "limit": "mood"}'])
def test_an_end_that_cannot_be_read_is_no_score(reply: str) -> None:
    [found] = judge_all(ScriptedJudge(lambda call: reply), [attempted("x", COMMAND)])
    assert isinstance(found, Unscored)
