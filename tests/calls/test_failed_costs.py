"""Failed costs: what was paid for attempts that gave no reply is reported, and never as nothing where it is unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from asked import prompt, rollouts

from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.base import Backend, BackendFault
from skillopt_mcp.backends.scripted import Answer, Scripted
from skillopt_mcp.backends.spending import Budget
from skillopt_mcp.core.budgets import Caps
from skillopt_mcp.core.calls import Call, Fault, Reply, Usage
from skillopt_mcp.core.errors import Outage, TurnedDown
from skillopt_mcp.store.calls import LedgerRow
from skillopt_mcp.store.opening import Store

USED = Usage(60, 40, 0.25)


pytestmark = pytest.mark.usefixtures("impatient")


def reported(store: Store) -> LedgerRow:
    [row] = store.ledger.list_rows("r-1")
    return row


def number(call: Call) -> int:
    return int(prompt(call).removeprefix("what is ").removesuffix("?"))


def first_failing(fault: BackendFault) -> Scripted:
    """Return a backend that fails at the first attempt at each call, and answers the second."""
    seen: set[Call] = set()

    def answer(call: Call) -> Answer:
        if call in seen:
            return Reply("42", usage=USED)
        seen.add(call)
        return fault

    return Scripted(answer)


def stopped(
    store: Store, backend: Backend, calls: Sequence[Call], why: type[Exception], caps: Caps | None = None
) -> None:
    budget = Budget("r-1", caps) if caps else None
    with Asker(store, {"target": backend}, "r-1", concurrency=4, budget=budget) as ask, pytest.raises(why):
        ask(calls)


@pytest.mark.parametrize(("fault", "n_unpriced"), [("connection", 6), ("server", 0), ("rate_limit", 0)])
def test_a_send_that_may_have_been_paid_is_of_unknown_price_though_the_next_was_answered(
    store: Store, fault: Fault, n_unpriced: int
) -> None:
    with Asker(store, {"target": first_failing(BackendFault(fault, "cut off"))}, "r-1") as ask:
        ask(rollouts(6))
    row = reported(store)
    assert (row.n_calls, row.n_failed, row.n_unpriced) == (6, 6, n_unpriced)
    assert (row.tokens_in, row.tokens_out, row.usd_known, row.usd) == (360, 240, 1.5, None if n_unpriced else 1.5)


@pytest.mark.parametrize(
    ("fault", "n_unpriced", "n_tokens", "usd"),
    [
        (BackendFault("truncated", "cut off", usage=USED), 0, 100, 0.25),
        (BackendFault("truncated", "cut off", usage=Usage(60, 40)), 1, 100, 0.0),
        (BackendFault("timeout", "too slow"), 1, 0, 0.0),
        (BackendFault("connection", "connection refused", usage=Usage(usd=0.0)), 0, 0, 0.0),
    ],
)
def test_what_was_paid_before_an_outage_is_reported_once_when_it_goes_on(
    store: Store, fault: BackendFault, n_unpriced: int, n_tokens: int, usd: float
) -> None:
    calls = rollouts(40)
    backend = Scripted(lambda _: fault)
    stopped(store, backend, calls, Outage)
    n, row = backend.n_calls, reported(store)
    assert (row.n_calls, row.n_failed, row.n_repeated) == (0, n, 0)
    assert (row.tokens_in + row.tokens_out, row.usd_known) == (n * n_tokens, n * usd)
    assert row.n_unpriced == n * n_unpriced
    with Asker(store, {"target": Scripted(lambda _: Reply("42", usage=USED))}, "r-1") as ask:
        ask(calls)
    row = reported(store)
    assert (row.n_calls, row.n_missing, row.n_failed) == (40, 0, n)
    assert (row.tokens_in + row.tokens_out, row.usd_known) == (n * n_tokens + 4000, n * usd + 10)
    assert row.n_unpriced == n * n_unpriced


def resumed(store: Store, calls: Sequence[Call]) -> LedgerRow:
    with Asker(store, {"target": Scripted(lambda _: "42")}, "r-1") as ask:
        ask(calls)
    return reported(store)


def refuses(call: Call) -> Answer:
    return "42" if number(call) < 8 else BackendFault("auth", "no such key")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda _: BackendFault("truncated", "cut off", usage=USED), Outage),
        (lambda _: BackendFault("connection", "connection refused"), Outage),
        (lambda _: BackendFault("rate_limit", "come back later", 4000.0), Outage),
        (refuses, TurnedDown),
    ],
)
def test_nothing_that_failed_is_reported_as_lost_with_a_process_when_it_is_sent_again(
    store: Store, answer: Callable[[Call], Answer], why: type[Exception]
) -> None:
    calls = rollouts(60)
    for _ in range(3):
        stopped(store, Scripted(answer), calls, why)
    assert reported(store).n_failed >= 3
    assert resumed(store, calls).n_repeated == 0
