"""Recorded evidence: a record of any test recomputes to its verdict, and what was changed in it is noticed."""

from __future__ import annotations

import hashlib
import json
from random import Random

import pytest

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import TestAttempt as Attempt
from skillopt_mcp.gates.promotion import Plan, Reading, order_units, passes_for
from skillopt_mcp.gates.recorded import RecordedTest

FACTS = {"base": "a" * 64, "head": "b" * 64, "tasks": "c" * 64, "origin": "base", "target": "claude-code:haiku"}
ARMS = ("base", "candidate")
SHAPES = ("pairs", "live", "pilot", "kind", "graded", "few cases", "margin", "lost")


def simulate(shape: str, chance: Random) -> tuple[Plan, list[Attempt], Reading]:
    """A test of this shape in a world by chance, with attempts beyond its verdict."""
    n = chance.randint(1, 7) if shape == "few cases" else chance.randint(8, 24)
    salt = f"{chance.getrandbits(128):032x}"
    units = tuple(order_units((hashlib.sha256(f"{salt}{at}".encode()).hexdigest() for at in range(n)), salt))
    rates = {"base": [chance.betavariate(0.5, 0.5) for _ in units]}
    gain = chance.choice((0, 0.3, 0.8)) * chance.choice((1, -1))
    rates["candidate"] = [r + (1 - r) * gain if gain > 0 else r * (1 + gain) for r in rates["base"]]
    earlier = tuple(tuple(float(chance.random() < r) for _ in range(3)) for r in rates["base"])
    earlier = earlier if shape == "pilot" else ()
    plan = Plan(
        salt=salt, units=units, passes=passes_for(earlier or [()] * n), number=chance.randint(1, 3),
        graded=shape == "graded", live=shape == "live", kind=tuple(range(0, n, 2)) if shape == "kind" else (),
        earlier=earlier, margin=0.3 if shape == "margin" else None,
        max_pairs=max(n, 60) if shape in ("few cases", "margin") else 0,
    )  # fmt: skip
    reading, attempts = Reading(plan), list[Attempt]()
    while wanted := reading.wanted(8):
        made = [
            Attempt(
                arm, unit, number,
                round(chance.random() * rates[arm][unit], 3) if plan.graded
                else float(chance.random() < rates[arm][unit]),
                "bounded" if shape == "lost" and chance.random() < 0.1 else "",
            )
            for arm, unit, number in wanted
        ]  # fmt: skip
        chance.shuffle(made)
        attempts += made
        reading.add(made)
    return plan, attempts, reading


@pytest.mark.parametrize("shape", SHAPES)
def test_a_record_gives_its_verdict_again_and_notices_what_would_give_another(shape: str) -> None:
    n_noticed = n_changed = 0
    verdicts = set()
    for number in range(25):
        chance = Random(f"{shape} {number}")
        plan, attempts, reading = simulate(shape, chance)
        standing = reading.standing()
        verdicts.add(standing.verdict)
        record = RecordedTest.of(plan, attempts, **FACTS)
        again = RecordedTest.read(record.content)
        found = again.recompute()
        assert found.verdict == standing.verdict
        assert (found.pairs, found.p_bound, found.solved) == (standing.pairs, standing.p_bound, standing.solved)
        for _ in range(12):
            changed = json.loads(record.content)
            place = chance.randrange(plan.n_units)
            what = chance.choice(("outcome", "salt", "unit", "more", "less"))
            outcomes = changed["outcomes"][place]
            at = chance.randrange(len(outcomes))
            if what == "outcome" and outcomes[at] != " ":
                changed["outcomes"][place] = f"{outcomes[:at]}{'0' if outcomes[at] == '1' else '1'}{outcomes[at + 1 :]}"
            elif what == "salt":
                changed["plan"]["salt"] = f"{chance.getrandbits(128):032x}"
            elif what == "unit":
                changed["plan"]["units"][place] = f"{chance.getrandbits(256):064x}"
            elif what == "more":
                changed["outcomes"][place] = f"{outcomes}1"
            elif what == "less" and outcomes[-1] != " ":
                changed["outcomes"][place] = outcomes[:-1]
            n_changed += 1
            try:
                assert RecordedTest.read(json.dumps(changed).encode()).recompute().verdict == standing.verdict
            except BadInput:
                n_noticed += 1
    assert n_noticed > n_changed / 3
    assert len(verdicts) > 1
