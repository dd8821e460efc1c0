"""Waiting: what a run does while a backend wants to be left alone: it says so, and never waits past what it may."""

import asyncio
import threading
from itertools import count

import pytest
from asked import rollouts, texts

from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Answer, Scripted
from skillopt_mcp.backends.spending import Budget, Pause
from skillopt_mcp.core.budgets import NO_CAPS, Caps
from skillopt_mcp.core.calls import Call, Reply
from skillopt_mcp.core.errors import CapReached, Outage, TurnedDown
from skillopt_mcp.store.calls import Calls, Settled, Settlement
from skillopt_mcp.store.opening import Store


def refusing(retry_after: float, n: int = 10**9) -> Scripted:
    """Return a backend whose first `n` answers ask for a wait."""
    sends = count(1)
    asks = BackendFault("rate_limit", "429 slow down", retry_after)

    def answer(_: Call) -> Answer:
        return asks if next(sends) <= n else "42"

    return Scripted(answer, name="busy")


def ask_all(store: Store, backend: Scripted, caps: Caps = NO_CAPS, reported: list[Pause] | None = None) -> list[str]:
    on_pause = None if reported is None else reported.append
    with Asker(store, {"target": backend}, "r-1", budget=Budget("r-1", caps), on_pause=on_pause) as ask:
        return texts(ask(rollouts(30)))


@pytest.mark.parametrize("retry_after", [600.0, 3600.0])
def test_a_wait_that_does_not_end_before_the_minutes_do_stops_the_run_at_once(store: Store, retry_after: float) -> None:
    with pytest.raises(CapReached) as stop:
        ask_all(store, refusing(retry_after), Caps(minutes=0.1))
    assert str(stop.value).startswith(
        "the cap of 0.1 minutes (--max-minutes) is over before the end of a wait: asked to "
    )
    assert f"asked to wait {retry_after:,.0f} s by 'busy'" in str(stop.value)
    assert stop.value.higher == f"--max-minutes {retry_after / 60 + 1:g}"
    assert ask_all(store, Scripted(lambda _: "42", name="busy")) == ["42"] * 30


def test_a_wait_that_is_too_long_for_any_run_ends_it_and_says_when_to_come_back(store: Store) -> None:
    backend = refusing(3600.0)
    with pytest.raises(
        Outage, match=r"asked to wait 3,600 s by 'busy'.* Resume in 60 minutes, from \d{4}-\d\d-\d\d .* UTC"
    ):
        ask_all(store, backend)
    assert backend.n_calls <= 8
    assert store.ledger.list_rows("r-1")[0].n_missing == 0
    assert ask_all(store, Scripted(lambda _: "42", name="busy")) == ["42"] * 30


@pytest.mark.parametrize("fault", ["auth", "model_not_found", "unsupported"])
def test_a_backend_that_turns_a_run_down_stops_it_so_that_it_can_go_on(store: Store, fault: str) -> None:
    with pytest.raises(TurnedDown, match=r"backend 'scripted': 401 no. Nothing that was answered is lost"):
        ask_all(store, Scripted(lambda _: BackendFault(fault, "401 no")))  # type: ignore[arg-type]
    assert ask_all(store, Scripted(lambda _: "42")) == ["42"] * 30


class Refusing(Scripted):
    """A backend that answers its first call at once, and refuses the second while that answer is being committed."""

    def __init__(self) -> None:
        super().__init__(lambda _: "42")
        self.committing, self.refused, self.n_late = threading.Event(), threading.Event(), 0

    async def complete(self, call: Call) -> Reply:
        self.n_late += self.refused.is_set()
        reply, n = await super().complete(call), self.n_calls
        while n > 1 and not self.refused.is_set():
            if n == 2 and self.committing.is_set():
                self.refused.set()
                raise BackendFault("auth", "401 no")
            await asyncio.sleep(0)
        return reply


def test_no_call_begins_once_a_backend_has_turned_one_down(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, settle = Refusing(), Calls.settle

    def committed(calls: Calls, work: Settlement) -> Settled:
        if work.replies:
            backend.committing.set()
            assert backend.refused.wait(10)
        return settle(calls, work)

    monkeypatch.setattr(Calls, "settle", committed)
    with pytest.raises(TurnedDown, match="401 no"):
        ask_all(store, backend)
    assert (backend.n_calls, backend.n_late) == (8, 0)
    assert ask_all(store, Scripted(lambda _: "42")) == ["42"] * 30
