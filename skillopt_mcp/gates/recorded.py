"""Recorded evidence: a promotion test in so few bytes that it lies next to its skill, where anybody reads it again."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod
from string import ascii_letters, digits
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Arm, Standing, TestAttempt, Verdict
from skillopt_mcp.core.limits import KIB
from skillopt_mcp.core.text import quoted
from skillopt_mcp.gates.promotion import Plan, Reading, order_units

RECORD_BYTES = 8 * KIB
MAX_SPOT = 8
SPOT_CHANCE = 0.01
"""Repeated answers that are rarer, by what was recorded, do not fit it."""
_DIGITS = digits + ascii_letters + "".join(map(chr, range(0x100, 0x250)))
_ARMS: tuple[Arm, ...] = ("base", "candidate")
_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Name = Annotated[str, Field(max_length=200)]


class RecordedTest(BaseModel):
    """A promotion test as its file has it.

    `base` and `head` are the digests of the texts, `tasks` is that of all tasks, which are of the `origin`. `models`
    served the attempts; `host` is the version of the target's program. The `outcomes` of each unit of the `plan` are
    those of its passes with the base, and with the head: an outcome is the place of its score in `scores`, and "!" is
    what was lost and counts against the head.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    verdict: Verdict
    base: _Digest
    head: _Digest
    tasks: _Digest
    origin: Literal["base", "head", "store", "given"]
    target: _Name
    host: _Name = ""
    models: list[_Name] = Field(default_factory=list)
    scores: list[Annotated[str, Field(pattern=r"^(0|1|[1-9]\d{0,4}/[1-9]\d{0,4})$")]] = Field(max_length=1_000)
    plan: Plan
    outcomes: list[Annotated[str, Field(pattern="^[^ ]* [^ ]*$")]]

    @classmethod
    def of(cls, plan: Plan, attempts: Sequence[TestAttempt], **facts: Any) -> Self:
        """The record of a test with its further `facts`. Raises BadInput where it compared nothing, or is too large."""
        standing = Reading(plan, attempts).standing()
        if standing.void or standing.verdict in (None, "not_tested"):
            raise BadInput("a test without comparable attempts is no evidence")
        read = {(each.arm, each.unit, each.number): each for each in attempts}
        read = {place: read[place] for place in sorted(_list_read(plan, standing))}
        exact = {place: Fraction(each.score).limit_denominator(10_000) for place, each in read.items()}
        known = sorted({Fraction(0), Fraction(1), *exact.values()}, key=lambda each: (each not in (0, 1), each))
        shown = {place: "!" if read[place].cause == "bounded" else _DIGITS[known.index(score) % len(_DIGITS)]
                 for place, score in exact.items()}  # fmt: skip
        record = cls(
            verdict=standing.verdict,
            models=standing.models,
            scores=[str(score) for score in known],
            plan=plan.model_copy(update={"earlier": plan.earlier[: plan.n_pilot], "needs_opening": False}),
            outcomes=[
                " ".join("".join(shown[place] for place in shown if place[:2] == (arm, unit)) for arm in _ARMS)
                for unit in range(plan.n_units)
            ],
            **facts,
        )
        if len(known) > len(_DIGITS) or len(record.content) > RECORD_BYTES:
            size = f"{len(known):,} scores in {len(record.content):,} bytes"
            raise BadInput(f"the evidence of {plan.n_units} tasks takes {size}, and {RECORD_BYTES:,} are the most")
        record.recompute()
        return record

    @property
    def content(self) -> bytes:
        """The file."""
        return self.model_dump_json(exclude_defaults=True).encode() + b"\n"

    @classmethod
    def read(cls, content: bytes) -> Self:
        """The record of a file. Raises BadInput where it is none."""
        if len(content) > RECORD_BYTES:
            raise BadInput(f"it has more than {RECORD_BYTES:,} bytes")
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = f"{quoted('.'.join(map(str, first['loc'])))}: " if first["loc"] else ""
            raise BadInput(f"it is no record: {where}{first['msg']}") from None

    def recompute(self) -> Standing:
        """Where the test stands, through the code that ships. Raises BadInput where that is not the verdict."""
        plan, scores = self.plan, dict(zip(_DIGITS, map(float, map(Fraction, self.scores)), strict=False))
        given = {*"".join(self.outcomes)} - {"!", " "}
        if len(self.outcomes) != plan.n_units or given - scores.keys() or max(scores.values(), default=0) > 1:
            raise BadInput("it has outcomes of other tasks, or scores that are none")
        if order_units({*plan.units}, plan.salt) != [*plan.units]:
            raise BadInput("its tasks are not in the order of its salt: the salt or a task was changed")
        attempts = [
            TestAttempt(arm, unit, number, scores.get(each, 0.0), "bounded" if each == "!" else "")
            for unit, arms in enumerate(self.outcomes)
            for arm, outcomes in zip(_ARMS, arms.split(" "), strict=True)
            for number, each in enumerate(outcomes)
        ]
        standing = Reading(plan, attempts).standing()
        if standing.verdict != self.verdict:
            found = standing.verdict or "no verdict yet"
            raise BadInput(f"its verdict does not follow: the outcomes give {found}, not {self.verdict}")
        if {each[:3] for each in attempts} != _list_read(plan, standing):
            raise BadInput("its test ends elsewhere: the outcomes are not those that the order of its salt asks for")
        return standing.model_copy(update={"models": self.models})

    def chance_of(self, repeated: Sequence[tuple[int, Arm, bool]]) -> tuple[int, float]:
        """How many repeated answers (unit, arm, solved) came out as recorded, and the chance of any as rare as these.

        The rate of a text at a unit is that of its outcomes, with one more that solved it and one more that failed.
        """
        rates = list[float]()
        for unit, arm, solved in repeated:
            outcomes = self.outcomes[unit].split(" ")[_ARMS.index(arm)]
            n = sum(each != "!" and Fraction(self.scores[_DIGITS.index(each)]) * 2 >= 1 for each in outcomes)
            rates.append(((n if solved else len(outcomes) - n) + 1) / (len(outcomes) + 2))
        chances = [prod(each) for each in product(*((rate, 1 - rate) for rate in rates))]
        return sum(2 * rate >= 1 for rate in rates), sum(each for each in chances if each <= chances[0] * (1 + 1e-9))


def _list_read(plan: Plan, standing: Standing) -> set[tuple[Arm, int, int]]:
    """The attempts that a test has read where it stands so, as (arm, unit, number)."""
    pilot = plan.n_pilot if standing.pairs else standing.pilot
    pairs = {(arm, at % plan.n_units, at // plan.n_units) for at in range(standing.pairs) for arm in _ARMS}
    return pairs | {("candidate", unit, 0) for unit in range(pilot)}
