"""`benchmarks/gates.py --decide`: any path of attempts, decided as the reference does, and what is no path."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from test_promotion_gate import ARMS, TWELFTHS, Attempt, Plan, Reference, order_units, passes_for

from benchmarks import gates


@pytest.fixture
def decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what runs the script on a path: its exit code, and what it printed on both streams."""

    def decide(given: object) -> tuple[int, str, str]:
        path = tmp_path / "path.json"
        path.write_text(given if isinstance(given, str) else json.dumps(given))
        monkeypatch.setattr(sys, "argv", ["gates.py", "--decide", str(path), "--json"])
        return gates.main(), *capsys.readouterr()

    return decide


def drawn(chance: random.Random, n: int) -> dict[str, Any]:
    """Return a random path of n units: in any order, some attempts lost, missing, or there twice."""
    units, graded, live = [f"task {u} é" for u in range(n)], chance.random() < 0.3, chance.random() < 0.4
    gain, scores = chance.choice((-0.8, -0.4, 0.0, 0.3, 0.6, 0.9)), TWELFTHS if graded else (0, 12)
    rates = {unit: chance.betavariate(0.5, 0.5) * (1 - abs(gain)) + max(0.0, -gain) for unit in units}

    def draw(rate: float) -> float:
        half = len(scores) // 2
        return chance.choice(scores[half:] if chance.random() < rate else scores[:half]) / 12

    known = chance.choice(("", "", "same", "some"))
    earlier = {
        unit: [float(round(rate)) if known == "same" else draw(rate) for _ in range(chance.choice((2, 3)))]
        for unit, rate in rates.items() if known
    }  # fmt: skip
    attempts: list[list[Any]] = []
    often_lost, repeats = chance.choice((0, 0.02, 0.1)), chance.random() < 0.3
    for unit, arm in ((unit, arm) for unit in units for arm in ARMS):
        rate = rates[unit] + (gain if arm == "candidate" else 0)
        first = draw(rate)
        for number in range(passes_for([earlier.get(each, []) for each in units])):
            score = first if repeats and chance.random() < 0.98 else draw(rate)
            attempts.append([arm, unit, number, None if chance.random() < often_lost else score])
    chance.shuffle(attempts)
    attempts = attempts[chance.choice((0, 0, 1)) :]
    return {
        "salt": f"{chance.getrandbits(128):032x}", "units": units, "number": chance.randint(1, 3), "graded": graded,
        "live": live, "kind": chance.sample(units, 4) if not live and chance.random() < 0.3 else [],
        "earlier": earlier, "attempts": [*attempts, *attempts[:3]],
    }  # fmt: skip


def test_a_path_is_decided_as_the_reference_does(decide: Any) -> None:
    ends = set()
    for seed in range(90):
        given = drawn(random.Random(seed), {50: 16, 70: 17}.get(seed, 8 + seed % 4))
        names = order_units(given["units"], given["salt"])
        earlier = [given["earlier"].get(name, []) for name in names]
        plan = Plan(
            salt=given["salt"], units=tuple(names), passes=passes_for(earlier), number=given["number"],
            graded=given["graded"], live=given["live"], kind=tuple(map(names.index, given["kind"])),
            earlier=tuple(map(tuple, earlier)) if any(earlier) else (),
        )  # fmt: skip
        attempts = [
            Attempt(arm, names.index(unit), number, score or 0.0, "bounded" if score is None else "")
            for arm, unit, number, score in given["attempts"]
        ]
        verdict, n_pairs, spent = Reference(plan, attempts).verdict()
        code, printed, _ = decide(given)
        found = json.loads(printed)
        bound = spent and f"{spent.numerator}/{spent.denominator}"
        assert code == 0
        assert (found["verdict"], found["pairs"], found["p_bound"]) == (verdict, n_pairs, bound), seed
        assert found["passes"] == plan.passes
        if verdict in ("better", "worse"):
            assert found["total"] * (1 if verdict == "better" else -1) >= found["least"] > 0 or given["kind"]
        ends.add((verdict, given["live"]))
    assert {end for end, _ in ends} == {"better", "worse", "not_better", "cant_tell", None}


def test_a_target_that_repeats_itself_is_found_at_the_tenth_unit_and_at_the_end_of_the_second_pass(decide: Any) -> None:
    units = [f"u{n:02}" for n in range(17)]
    places = order_units(units, "ab")
    won = {unit: float(n % 4 == 0) for n, unit in enumerate(places)}
    attempts = [[arm, unit, n, won[unit] if arm == "candidate" else 0.0]
                for arm in ARMS for unit in units for n in range(2)]  # fmt: skip
    given = {"salt": "ab", "units": units, "attempts": attempts}
    found = json.loads(decide(given)[1])
    assert (found["repeats"], found["pairs"], found["verdict"]) == (True, 27, "cant_tell")
    for n_differing, pairs, verdict in (
        (1, 27, "cant_tell"),
        (2, 34, "cant_tell"),
        (3, 34, "cant_tell"),
        (4, 34, None),
    ):
        other = {("candidate", unit, 1) for unit in places[: 4 * n_differing : 4]}
        flipped = [[*each[:3], 1 - each[3] if tuple(each[:3]) in other else each[3]] for each in attempts]
        found = json.loads(decide({**given, "attempts": flipped})[1])
        assert (found["repeats"], found["pairs"], found["verdict"]) == (n_differing < 4, pairs, verdict)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"attempts": [["tutor", "u1", 0, 1]]}, "attempts.0.0: Input should be"),
        ({"attempts": [["base", "u1", 8, 1]]}, "the passes are 0 to 7, got 8"),
        ({"attempts": [["base", "u1", -1, 1]]}, "attempts.0.2"),
        ({"attempts": [["base", "u9", 0, 1]]}, '"u9" is not in units'),
        ({"attempts": [["base", "u1", 0, 1.5]]}, "attempts.0.3"),
        ({"attempts": [["base", "u1", 0]]}, "attempts.0"),
        ({"attempts": None}, "attempts"),
        ({"kind": ["u9"]}, '"u9" is not in units'),
        ({"kind": ["u1"], "live": True}, "a kind is units of a test whose text is not live"),
        ({"earlier": {"u9": [1]}}, '"u9" is not in units'),
        ({"salt": "xyz"}, "salt"),
        ({"salt": ""}, "salt"),
        ({"number": 0}, "number"),
        ({"number": 10**9}, "number"),
        ({"units": ["u1"] * 8}, "units: a name stands there twice"),
        ({"units": [f"u{n}" for n in range(7)]}, "units: List should have at least 8 items"),
        ({"units": []}, "units"),
    ],
)
def test_what_is_no_path_is_one_line_of_error(decide: Any, change: dict[str, Any], says: str) -> None:
    given = {"salt": "ab", "units": [f"u{n}" for n in range(8)], "attempts": []}
    assert json.loads(decide(given)[1])["verdict"] is None
    code, printed, error = decide({**given, **change})
    assert (code, printed) == (2, "")
    assert says in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert "Traceback" not in error


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\u0000", '{"salt": "ab"}'])
def test_what_is_no_object_of_a_path_is_one_line_of_error(decide: Any, text: str) -> None:
    code, printed, error = decide(text)
    assert (code, printed, error.count("\n")) == (2, "", 1)
