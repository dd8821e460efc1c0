"""Backend faults: what is wrong in a fault that a program raises is reported with the fault."""

from __future__ import annotations

import pickle

import pytest

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.core.calls import Usage
from skillopt_mcp.core.errors import BackendError

NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("usage", "message"),
    [
        (Usage(-5, 1), 'the tokens_in of its usage is "-5", not a whole number from 0'),
        (Usage(1, 1, NAN), 'the usd of its usage is "nan", not a number from 0'),
        (Usage(1, 1, latency_ms=NAN), 'the latency_ms of its usage is "nan"'),
        (Usage(10**13), 'the tokens_in of its usage is "10000000000000"'),
    ],
)
def test_an_impossible_cost_is_left_out_and_the_message_says_so(usage: Usage, message: str) -> None:
    fault = BackendFault("refusal", "no", usage=usage)
    assert fault.usage is None
    assert fault.message.startswith(f"no (left out: {message}")
    assert str(fault) == fault.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"message": None}, "the message of a BackendFault (refusal) is of type NoneType: give a text"),
        (
            {"usage": {"tokens_in": 4}},
            'its usage is of type dict, not skillopt_mcp.Usage in a BackendFault ("boo"): give usage a',
        ),
        ({"usage": Usage("a", 1)}, "the tokens_in of its usage is \"'a'\", not a whole number"),  # type: ignore[arg-type]
        ({"usage": Usage(1, 1, "1")}, "the usd of its usage is \"'1'\", not a number"),  # type: ignore[arg-type]
        (
            {"retry_after": "3"},
            'retry_after is "\'3\'" in a BackendFault ("boo"): give a number of seconds',
        ),
        ({"retry_after": NAN}, 'retry_after is "nan"'),
    ],
)
def test_what_is_of_another_type_ends_the_run_with_what_to_give(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(BackendError) as error:
        BackendFault("refusal", **{"message": "boo"} | arguments)  # type: ignore[arg-type]
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("asked", "kept"), [(None, None), (0, 0.0), (2.5, 2.5), (-5, 0.0), (10**30, 1e9)])
def test_a_wait_is_never_below_nothing_nor_without_an_end(asked: float | None, kept: float | None) -> None:
    assert BackendFault("rate_limit", "later", asked).retry_after == kept


def test_a_fault_comes_whole_out_of_another_process() -> None:
    fault = BackendFault("truncated", "cut off", 3.0, Usage(7, 9, 0.25))
    fault.add_note("at the third send")
    again = pickle.loads(pickle.dumps(fault))
    assert vars(again) == vars(fault)
    assert str(again) == "cut off"
