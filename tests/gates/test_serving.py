"""Serving: a verdict on two texts needs a model that answered for both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.gates.confirm import ConfirmRule, confirm
from skillopt_mcp.gates.recompute import confirm_verdict, inputs_of
from skillopt_mcp.gates.serving import PAIRS_TO_DECIDE, Serving, as_served, describe_served
from skillopt_mcp.records.evidence import Pair, Served

RULE = ConfirmRule(alpha=0.03)
WON, LOST, EVEN = Pair(0.0, 1.0), Pair(1.0, 0.0), Pair(1.0, 1.0)
APART = Served(("small",), ("big",))


@pytest.mark.parametrize("pair", [WON, LOST])
def test_where_no_model_answered_for_both_versions_neither_verdict_is_one(pair: Pair) -> None:
    found = confirm([pair] * 40, RULE)
    assert found.verdict != "undecided"
    mixed = as_served(found, APART)
    assert (mixed.verdict, mixed.is_mixed, mixed.is_over, mixed.n_expected) == ("undecided", True, True, None)
    assert mixed.reason == (
        "live answered by small, candidate by big: this compares models, not texts, and decides nothing about them"
    )


def test_a_few_pairs_may_be_apart_by_chance_and_it_goes_on() -> None:
    few = as_served(confirm([EVEN] * (PAIRS_TO_DECIDE - 1), RULE), APART)
    assert (few.is_mixed, few.is_over) == (False, False)
    assert few.reason.endswith("; live answered by small, candidate by big: this compares models, not texts")
    assert as_served(confirm([EVEN] * PAIRS_TO_DECIDE, RULE), APART).is_over


@pytest.mark.parametrize(
    ("served", "told"),
    [
        (Served(), ""),
        (Served(("a",), ("a",)), ""),
        (Served(("a", "b"), ("a", "b")), "both versions were answered by a and b: the model changed in the course of"),
        (Served(("a", "b"), ("a",)), "live answered by a and b, candidate by a: in part this compares models, not"),
        (Served(("a",), ()), "live answered by a, candidate by a model that is not named: in part this compares"),
        (Served(tuple("abcde"), ("e",)), "live answered by a, b, c and 2 more, candidate by e: in part"),
        (Served(("a\u202eb",), ("c" * 99,)), rf"live answered by a\u{{202E}}b, candidate by {'c' * 60}: this compares"),
    ],
)
def test_models_that_differ_or_change_are_told_and_an_accept_stands_where_one_answered_for_both(
    served: Served, told: str
) -> None:
    assert describe_served(served).startswith(told)
    assert bool(describe_served(served)) == bool(told)
    found = as_served(confirm([WON] * 40, RULE), served)
    assert found.verdict == ("undecided" if served.are_disjoint else "accept")


@pytest.mark.parametrize("pair", [LOST, EVEN, Pair(1.0, None)])
def test_a_version_that_may_never_have_been_answered_is_not_told_to_have_had_another_model(pair: Pair) -> None:
    found = confirm([pair] * 40, RULE)
    assert as_served(found, Served(("a",), ())).reason == found.reason


def test_only_the_pairs_that_count_say_who_answered() -> None:
    serving = Serving()
    for n, model in enumerate(["a/fp_1", "a/fp_2", "b"]):
        serving.take(n, "base", model)
        serving.take(n, "candidate", "a")
    assert serving.before(2) == Served(("a",), ("a",))
    assert serving.before(3) == Served(("a", "b"), ("a",))
    assert serving.before(0) == Served()


NAMES = st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=40, max_size=40)


@given(st.lists(st.sampled_from([WON, LOST, EVEN, Pair(None, 1.0)]), max_size=40), NAMES, NAMES)
def test_every_verdict_follows_again_from_what_it_keeps(pairs: list[Pair], live: list[str], new: list[str]) -> None:
    serving = Serving()
    for n, (base, candidate) in enumerate(zip(live, new, strict=True)):
        serving.take(n, "base", base)
        serving.take(n, "candidate", candidate)
    found = confirm(pairs, RULE)
    found = as_served(found, serving.before(found.n_pairs))
    kept = inputs_of("t", RULE, found)
    assert confirm_verdict(pairs, kept) == found.verdict
    assert ("served" in kept) == (found.served != Served())
    assert not (found.served.are_disjoint and found.verdict != "undecided")
