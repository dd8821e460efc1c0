"""Numbers: reading the last number of an answer and comparing it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.tasks.judges.kinds.numeric import last_number


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("$1,234.50", 1234.5),
        ("12%", 12.0),
        ("-3.5e2", -350.0),
        ("−3.5 × 10^2", -350.0),
        (r"2 \times 10^{5}", 200_000.0),
        ("1.5*10^-3", 0.0015),
        ("6.02E+23 per mol", 6.02e23),
        ("-$5", -5.0),
        ("$-5", -5.0),
        ("€12", 12.0),
        ("1\u202f234\u202f567 people", 1_234_567.0),
        ("12,34", 34.0),
        ("(3,5)", 5.0),
        ("10-5", 5.0),
        ("5–10", 10.0),
        ("x=-5", -5.0),
        ("**-7.**", -7.0),
        ("- 5 apples", 5.0),
        ("it is .5", 0.5),
        (r"\boxed{42}", 42.0),
        ("7 km2", 7.0),
        ("9.8 m/s^2", 9.8),
        ("5²", 5.0),
        ("from 3 to 4, so 7.", 7.0),
        ("1/2", 2.0),
        ("+3", 3.0),
        ("H2O", None),
        ("no idea", None),
        ("", None),
    ],
)
def test_the_last_number_is_read_as_people_write_numbers(answer: str, number: float | None) -> None:
    assert last_number(answer) == number


@given(st.floats(allow_nan=False, allow_infinity=False), st.text(st.sampled_from(" =:,;\n$*("), max_size=5))
def test_every_float_that_is_printed_is_read_back(number: float, before: str) -> None:
    assert last_number(f"{before} {number!r}") == number
