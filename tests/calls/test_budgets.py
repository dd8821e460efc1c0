"""Budgets: no call is sent that could go above a cap, by any process, and a run goes on under a higher one."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from asked import Logging, ask_all, rollouts, sent, texts
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Answer, Scripted
from skillopt_mcp.backends.spending import Budget
from skillopt_mcp.core.budgets import LOGIN_CAPS, NO_CAPS, Caps, Spent
from skillopt_mcp.core.calls import Call, Reply, Usage
from skillopt_mcp.core.errors import CapReached, StoreError
from skillopt_mcp.store.opening import Store
from tests.processes import Spawn, start

USED = Usage(60, 40, 0.25)


class Bounded(Scripted):
    """A scripted backend whose calls use at most `most`."""

    most: Usage | None = Usage(100, 100, 0.5)

    def worst_case(self, call: Call) -> Usage | None:
        return self.most


pytestmark = pytest.mark.usefixtures("impatient")


def bounded(answer: Answer | None = None) -> Bounded:
    return Bounded(lambda _: Reply("42", usage=USED) if answer is None else answer)


def ask_under(store: Store, backend: Scripted, caps: Caps, n: int = 20, concurrency: int = 4) -> list[Reply]:
    with Asker(store, {"target": backend}, "r-1", concurrency=concurrency, budget=Budget("r-1", caps)) as ask:
        return ask(rollouts(n))


@pytest.mark.parametrize("concurrency", [1, 4, 40])
def test_no_more_calls_are_sent_than_the_cap_and_a_higher_one_goes_on(store: Store, concurrency: int) -> None:
    backend = bounded()
    with pytest.raises(CapReached, match=r"the cap of 7 calls \(--max-calls\) is reached, with 7 calls, 700 tokens"):
        ask_under(store, backend, Caps(calls=7), concurrency=concurrency)
    assert backend.n_calls == 7
    with pytest.raises(CapReached, match="is reached"):
        ask_under(store, backend, Caps(calls=7), concurrency=concurrency)
    assert backend.n_calls == 7
    assert texts(ask_under(store, backend, Caps(calls=20), concurrency=concurrency)) == ["42"] * 20
    assert backend.n_calls == 20
    assert store.budgets.get_spent("r-1")[:3] == (20, 2000, 5.0)


def test_the_default_cap_of_a_login_says_so_in_its_refusal(store: Store) -> None:
    backend = bounded()
    said = (
        "500 calls .* higher cap; it is the default with a login, about 7,000,000 tokens: raise it with serve --max-c"
    )
    with pytest.raises(CapReached, match=said):
        ask_under(store, backend, LOGIN_CAPS, n=501, concurrency=40)
    assert backend.n_calls == LOGIN_CAPS.calls


@pytest.mark.parametrize(("most", "caps"), [(Usage(1, 1, math.nan), Caps(usd=3.0)), (Usage(1, 1, math.inf), NO_CAPS)])
def test_what_is_no_amount_is_never_charged_and_lifts_no_cap(store: Store, most: Usage, caps: Caps) -> None:
    backend = bounded()
    ask_under(store, backend, Caps(usd=10.0), n=3)
    backend = bounded(Reply("42", usage=most) if caps == NO_CAPS else None)
    backend.most = most
    with pytest.raises(StoreError, match=r"'r-1' must be finite"):
        ask_under(store, backend, caps, n=6)
    assert store.budgets.get_spent("r-1").usd == 0.75


@pytest.mark.parametrize("usage", [Usage(-200, 0, 0.0), Usage(1, 1, math.nan), Usage(1, 1, -2.0)])
def test_a_failed_attempt_that_says_what_cannot_be_costs_the_most(store: Store, usage: Usage) -> None:
    ask_under(store, bounded(BackendFault("refusal", "no", usage=usage)), Caps(usd=100.0), n=1)
    assert store.budgets.get_spent("r-1")[:3] == (1, 200, 0.5)


@pytest.mark.parametrize("caps", [Caps(tokens=1050), Caps(usd=2.6)])
def test_a_call_is_only_sent_when_the_most_it_can_use_is_left(store: Store, caps: Caps) -> None:
    backend = bounded()
    with pytest.raises(CapReached):
        ask_under(store, backend, caps)
    # The ninth leaves 150 tokens, and 35 cents: less than the most that a tenth could use.
    assert backend.n_calls == 9


def test_attempts_that_failed_count_as_calls(store: Store) -> None:
    backend = bounded(BackendFault("server", "500"))
    with pytest.raises(CapReached):
        ask_under(store, backend, Caps(calls=6), n=2)
    assert backend.n_calls == 6


@pytest.mark.parametrize(
    ("fault", "usage", "spent"),
    [
        ("server", None, (5, 0, 0.0)),
        ("timeout", None, (1, 200, 0.5)),
        ("truncated", USED, (1, 100, 0.25)),
        ("refusal", Usage(60, 40), (1, 100, 0.5)),
    ],
)
def test_a_failed_attempt_costs_what_it_says_or_else_the_most_where_it_may_be_paid(
    store: Store, fault: str, usage: Usage | None, spent: tuple[int, int, float]
) -> None:
    backend = bounded(BackendFault(fault, "no", usage=usage))  # type: ignore[arg-type]
    ask_under(store, backend, Caps(usd=100.0), n=1)
    assert store.budgets.get_spent("r-1")[:3] == spent


def replace_latency(usage: Usage) -> Usage:
    return usage._replace(latency_ms=0.0)


def test_calls_without_a_known_limit_are_not_sent_under_a_cap_that_needs_one(store: Store) -> None:
    for most, caps in ((None, Caps(tokens=10_000)), (Usage(1, 1), Caps(usd=10.0))):
        backend = bounded()
        backend.most = most
        with pytest.raises(CapReached, match="has no known limit"):
            ask_under(store, backend, caps)
        assert backend.n_calls == 0


def test_the_minutes_of_all_processes_that_worked_on_a_run_are_counted(store: Store) -> None:
    now = 0.0

    def ask_for(n: int, minutes: float) -> None:
        budget = Budget("r-1", Caps(minutes=minutes), clock=lambda: now)
        with Asker(store, {"target": Scripted(answer)}, "r-1", concurrency=1, budget=budget) as ask:
            ask(rollouts(n))

    def answer(_: Call) -> str:
        nonlocal now
        now += 30.0
        return "42"

    ask_for(3, 2.0)
    assert store.budgets.get_spent("r-1").seconds == 90.0
    with pytest.raises(CapReached, match=r"2 minutes \(--max-minutes\)"):
        ask_for(6, 2.0)
    assert store.budgets.get_spent("r-1") == Spent(4, 0, 0.0, 120.0)
    ask_for(6, 4.0)


GUESSED = Usage(10, 5, estimated=True)


@pytest.mark.parametrize(("caps", "spent"), [(Caps(usd=100.0), (5, 1000, 2.5)), (NO_CAPS, (5, 75, 0.0))])
def test_an_answer_that_does_not_say_what_it_used_stays_charged_at_its_most_or_as_estimated(
    store: Store, caps: Caps, spent: tuple[int, int, float]
) -> None:
    replies = ask_under(store, Bounded(lambda _: Reply("42", usage=GUESSED)), caps, n=5)
    assert store.budgets.get_spent("r-1")[:3] == spent
    assert [replace_latency(reply.usage) for reply in replies] == [Usage(10, 5, None)] * 5


@pytest.mark.parametrize("caps", [Caps(tokens=1050), Caps(usd=2.6)])
def test_caps_hold_though_the_backend_does_not_say_what_it_used(store: Store, caps: Caps) -> None:
    backend = Bounded(lambda _: Reply("42", usage=GUESSED))
    with pytest.raises(CapReached):
        ask_under(store, backend, caps)
    assert backend.n_calls == 5


def test_what_is_spent_never_comes_out_below_nothing(store: Store) -> None:
    backend = bounded(BackendFault("server", "500"))
    backend.most = Usage(1, 1, 0.1)
    for n in range(1, 4):
        ask_under(store, backend, Caps(usd=100.0), n=3 * n)
        assert str(store.budgets.get_spent("r-1").usd) == "0.0"
    with store.runs._pool.write() as connection:
        connection.execute("update budget set usd = -4.3e-19")
    assert str(store.budgets.get_spent("r-1").usd) == "0.0"


def test_stored_replies_cost_nothing(store: Store) -> None:
    ask_under(store, bounded(), NO_CAPS, n=5)
    assert len(ask_under(store, bounded(), Caps(calls=5), n=5)) == 5


def test_what_was_under_way_when_a_process_died_stays_charged(store: Store, tmp_path: Path, spawn: Spawn) -> None:
    log, draw = tmp_path / "sent", "r-1/e1s1"
    child = spawn(ask_all, store.path, log, 20, draw, 600.0)
    start([child])
    for _ in range(8):
        child.receive()
    child.kill()
    with (
        Asker(store, {"target": Logging(log)}, "r-1", budget=Budget("r-1", Caps(calls=20))) as ask,
        pytest.raises(CapReached, match="with 20 calls"),
    ):
        ask(rollouts(20, draw))
    assert len(sent(log, draw)) == 20
    with Asker(store, {"target": Logging(log)}, "r-1", budget=Budget("r-1", Caps(calls=28))) as ask:
        ask(rollouts(20, draw))
    assert len(sent(log, draw)) == 28


def test_given_caps_stand_in_the_place_of_kept_ones() -> None:
    kept = Caps(calls=1, tokens=2, usd=3.0, minutes=4.0)
    assert kept.replace_given(NO_CAPS) == kept
    assert kept.replace_given(Caps(calls=9)) == replace(kept, calls=9)
    assert NO_CAPS.replace_given(kept) == kept


@given(
    calls=st.none() | st.integers(1, 10**6),
    tokens=st.none() | st.integers(1, 10**9),
    usd=st.none() | st.floats(0.001, 1e6),
    minutes=st.none() | st.floats(0.001, 1e6),
    need=st.builds(Spent, st.integers(0, 10**7), st.integers(0, 10**10), st.floats(0, 1e7), st.floats(0, 1e8)),
)
def test_raised_caps_hold_what_is_needed_and_name_no_other(
    calls: int | None, tokens: int | None, usd: float | None, minutes: float | None, need: Spent
) -> None:
    caps = Caps(calls, tokens, usd, minutes)
    raised = caps.raise_above(need)
    assert (raised == NO_CAPS) == (caps.exceeded(need) is None)
    assert caps.replace_given(raised).exceeded(need) is None
    words = raised.options.split()
    given = {
        name: (float if name in ("usd", "minutes") else int)(value)
        for name, value in zip([word.removeprefix("--max-") for word in words[::2]], words[1::2], strict=True)
    }
    assert Caps(**given) == raised
