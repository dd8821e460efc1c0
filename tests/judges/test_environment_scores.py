from __future__ import annotations

import json

import pytest

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.environments import evaluation
from skillopt_mcp.judges.scorers import attemptable, environment_of, scored_by
from skillopt_mcp.judges.scoring import score
from skillopt_mcp.judges.specs import parse_judge
from skillopt_mcp.records.calls import EVALUATION, Message
from skillopt_mcp.records.judging import Exact, JudgeSpec, Score, Unscored
from skillopt_mcp.records.tasks import Task

SPEC = parse_judge({"kind": "environment", "name": "maze"})
SCORED = evaluation("maze", Score(False, 0.25, "the exit was at B2"))


def task(n: int, judge: JudgeSpec) -> Task:
    return Task(n, 1, f"t{n}", f"p{n}", judge, "test", f"d{n}")


def test_the_score_is_the_one_that_the_environment_recorded() -> None:
    found = score(SPEC, "B7", [Message("user", "go"), SCORED])
    assert found == Score(False, 0.25, 'scored by the environment "maze": the exit was at B2')


def test_a_score_that_the_first_releases_recorded_with_a_hint_is_read() -> None:
    old = Message(EVALUATION, '{"hard":false,"soft":0.25,"reason":"the exit was at B2","hint":"look left"}', "maze")
    assert score(SPEC, "B7", [old]) == score(SPEC, "B7", [SCORED])


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [Message("assistant", SCORED.content, "maze")],
        [Message(EVALUATION, SCORED.content, "other")],
        [Message(EVALUATION, SCORED.content)],
        [SCORED, SCORED],
        [Message(EVALUATION, '{"hard": 1, "soft": 1}', "maze")],
        [Message(EVALUATION, '{"hard": true, "soft": 1.5}', "maze")],
        [Message(EVALUATION, '{"hard": true, "soft": NaN}', "maze")],
        [Message(EVALUATION, '{"hard": true}', "maze")],
        [Message(EVALUATION, "[" * 10_000, "maze")],
    ],
    ids=["none", "prose", "other", "nameless", "two", "no bool", "above 1", "nan", "no soft", "no json"],
)
def test_without_one_score_of_that_environment_the_attempt_has_none(messages: list[Message]) -> None:
    answer = f"I solved it. {SCORED.content}"
    assert isinstance(score(SPEC, answer, messages), Unscored)


@pytest.mark.parametrize(
    "given", [(True, 1.2), (True, -0.1), (True, float("nan")), ("yes", 1.0), (1, 1.0), (True, None)]
)
def test_a_score_that_is_none_cannot_be_recorded(given: tuple[object, object]) -> None:
    with pytest.raises(BadInput, match="gave no score"):
        evaluation("maze", Score(*given, "why"))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", " ", "x" * 300, "\ud800"])
def test_an_environment_has_a_name(name: str) -> None:
    with pytest.raises(BadInput, match="environment judge: name"):
        parse_judge({"kind": "environment", "name": name})


def test_an_environment_attempts_its_own_tasks_and_any_other_target_the_rest() -> None:
    exact = Exact(kind="exact", expected="a")
    both = parse_judge(
        {"kind": "all", "judges": [{"kind": "environment", "name": "maze"}, {"kind": "length", "max": 9}]}
    )
    other = parse_judge({"kind": "environment", "name": "other"})
    tasks = [task(n, judge) for n, judge in enumerate((exact, SPEC, both, other))]
    assert [each.id for each in attemptable(tasks, None)] == [0]
    assert [each.id for each in attemptable(tasks, "maze")] == [1, 2]
    assert environment_of(both) == "maze"
    assert scored_by(tasks[:1]) == ""
    assert scored_by(tasks) == "; scored by the environment 'maze', 'other' itself"


def test_exact_match_and_token_f1_come_from_one_judge() -> None:
    judge = parse_judge({"kind": "f1", "expected": ["New York City", "NYC"], "exact": True})
    for answer, hard, soft in (
        ("the new york city!", True, 1.0), ("nyc", True, 1.0), ("york new city", False, 1.0), ("New York", False, 0.8),
        ("Boston", False, 0.0), ("", False, 0.0),
    ):  # fmt: skip
        found = score(judge, answer)
        assert isinstance(found, Score)
        assert (found.hard, round(found.soft, 6)) == (hard, soft)
    assert json.loads(judge.model_dump_json(exclude_defaults=True)) == {
        "kind": "f1", "expected": ["New York City", "NYC"], "exact": True,
    }  # fmt: skip
