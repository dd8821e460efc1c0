"""Verdicts of inspect_ai's scorers, as inspect_ai 0.3.285 gave them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Score, Unscored
from skillopt_mcp.tasks.judges.judging import parse_judge, score
from skillopt_mcp.tasks.judges.kinds.scorer import Scorer

VERDICTS = json.loads((Path(__file__).parents[1] / "evals" / "inspect" / "verdicts.json").read_text())


@pytest.mark.parametrize("scorer", VERDICTS)
def test_each_verdict_is_the_owners(scorer: str) -> None:
    assert len(VERDICTS[scorer]) >= 40
    for target, answer, value, *choices in VERDICTS[scorer]:
        n, multiple = choices or [0, False]
        judge = Scorer(scorer=scorer, target=target, choices=[f"c{i}" for i in range(n)], multiple=multiple)
        outcome = score(judge, answer)
        assert isinstance(outcome, Score)
        assert (outcome.soft, outcome.hard) == (value, value == 1), (target, answer, choices)


def test_several_letters_of_a_choice_are_all_wanted_and_of_other_targets_one() -> None:
    for scorer, wanted in (("choice", '"A" and "B"'), ("match", '"A" or "B"')):
        judge = Scorer(scorer=scorer, target=["A", "B"], choices=["x", "y"], multiple=True)
        assert score(judge, "ANSWER: C").reason.endswith(f"is wrong by {scorer} for {wanted}")


def test_a_number_in_numerals_that_are_not_read_is_no_zero() -> None:
    judge = Scorer(scorer="match(numeric=True)", target="21")
    assert isinstance(score(judge, "that is 二十一"), Unscored)
    assert score(judge, "二十一 is 21").hard  # type: ignore[union-attr]
    assert isinstance(score(judge, "答案是二十一"), Score)  # a word that is no number in any numerals


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"scorer": "matches", "target": "a"}, "no scorer"),
        ({"scorer": "match(location='middle')", "target": "a"}, "no scorer"),
        ({"scorer": "exact('x')", "target": "a"}, "no scorer"),
        ({"scorer": "match(**{'numeric': True})", "target": "a"}, "no scorer"),
        ({"scorer": "__import__('os').getcwd()", "target": "a"}, "no scorer"),
        ({"scorer": "(" * 90, "target": "a"}, "no scorer"),
        ({"scorer": "match" + " " * 200, "target": "a"}, "no scorer"),
        ({"scorer": "match", "target": []}, "1-100 texts"),
        ({"scorer": "match", "target": "\ud800"}, "texts of UTF-8"),
        ({"scorer": "choice", "target": "C", "choices": ["x", "y"]}, "none of 2 choices"),
        ({"scorer": "choice", "target": "9" * 5_000, "choices": ["x", "y"]}, "names no choice"),
        ({"scorer": "choice", "target": "?", "choices": ["x", "y"]}, "names no choice"),
    ],
)
def test_a_scorer_that_can_never_judge_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        parse_judge({"kind": "scorer", **given})


@pytest.mark.parametrize(
    "scorer", ["match", "match('any')", "match(numeric=True)", "includes", "exact", "f1", "choice"]
)
def test_a_hostile_answer_is_judged_in_linear_time(scorer: str) -> None:
    judge = Scorer(scorer=scorer, target="A", choices=["x", "y"], multiple=True)
    n = 50_000
    for answer in (
        "$a" + " " * n, "ANSWER:" + " " * n + "!", "ANSWER: a" + " " * n + "!", "ANSWER:" * n, "$ a " * n, "**a **" * n,
        ":" + " " * n + "(", "²" * n + "x", "-" * n + "5", "9" * n, "a," * n, "ANSWER:" + "\t " * n + "x_", "\\$" * n,
    ):  # fmt: skip
        begun = time.process_time()
        score(judge, answer)
        assert time.process_time() - begun < 2, answer[:20]
