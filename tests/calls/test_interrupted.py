"""Interrupted: what a Ctrl-C leaves of the calls that had failed before it came."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest
from asked import prompt, rollouts

from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.core.calls import Call, Fault, Reply, Usage
from skillopt_mcp.core.errors import Stopped, TurnedDown
from skillopt_mcp.store.calls import Calls, Settled, Settlement
from skillopt_mcp.store.opening import Store


class Interrupted:
    """A backend that fails its first call, and is interrupted in its second."""

    name = fingerprint = "interrupted"
    deferred = False

    def __init__(self, fault: Fault) -> None:
        self._fault: Fault = fault

    async def complete(self, call: Call) -> Reply:
        """Fail, or wait for the Ctrl-C that comes once the failure is in."""
        if prompt(call) == "what is 0?":
            raise BackendFault(self._fault, "it took too long")
        await asyncio.sleep(0.05)
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(3600)
        raise AssertionError("no caller waits for this")


@pytest.mark.parametrize(("fault", "is_kept"), [("timeout", True), ("malformed", True), ("server", False)])
def test_an_attempt_that_had_its_chance_is_missing_though_a_ctrl_c_came_next(
    fault: Fault, is_kept: bool, store: Store
) -> None:
    calls = rollouts(2)
    with Asker(store, {"target": Interrupted(fault)}, "r-1", concurrency=2) as ask, pytest.raises(KeyboardInterrupt):
        ask(calls)
    kept = store.calls.get_replies([call.key("interrupted") for call in calls])
    assert [reply.fault for reply in kept.values()] == ([fault] if is_kept else [])


class Refusing:
    """A backend that answers at first, and then refuses every call, which ends a run."""

    name = fingerprint = "refusing"
    deferred = False

    def __init__(self, n_answered: int) -> None:
        self.n_sent, self._n_answered = 0, n_answered

    async def complete(self, call: Call) -> Reply:
        """Answer, or refuse."""
        self.n_sent += 1
        await asyncio.sleep(0)  # what goes out together comes back together: nothing is on its way when a round ends
        if self.n_sent > self._n_answered:
            raise BackendFault("auth", "no key")
        return Reply("42", usage=Usage(3, 4, 0.5))


def n_rows(store: Store) -> int:
    return sum(row.n_calls + row.n_open for row in store.ledger.list_rows("r-1"))


@pytest.mark.parametrize("n_heard", [1, 3, 5])
def test_what_was_not_sent_because_a_callback_ended_it_is_neither_charged_nor_begun(n_heard: int, store: Store) -> None:
    target, heard = Refusing(100), list[str]()

    def stop(call: Call, _: Reply) -> None:
        heard.append(prompt(call))
        if len(heard) == n_heard:
            raise Stopped("enough of it")

    calls = rollouts(12)
    with Asker(store, {"target": target}, "r-1", concurrency=4, on_reply=stop) as ask, pytest.raises(Stopped):
        ask(calls)
    spent = store.budgets.get_spent("r-1")
    assert (spent.calls, spent.tokens, spent.usd) == (target.n_sent, 7 * target.n_sent, 0.5 * target.n_sent)
    assert n_rows(store) == target.n_sent
    with Asker(store, {"target": target}, "r-1", concurrency=4) as ask:
        assert len(ask(calls)) == 12
    [row] = store.ledger.list_rows("r-1")
    assert (target.n_sent, store.budgets.get_spent("r-1").calls, row.n_calls, row.n_again) == (12, 12, 12, 0)
    assert store.calls.n_lost(list(range(1, 40))) == {}


def test_what_was_not_sent_because_of_a_refusal_is_neither_charged_nor_begun(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, settle = threading.Event(), Calls.settle

    def settle_late(calls: Calls, work: Settlement) -> Settled:
        if work.replies and work.fresh:
            assert refused.wait(10)
        return settle(calls, work)

    class Turning(Refusing):
        async def complete(self, call: Call) -> Reply:
            self.n_sent += 1
            if prompt(call) == "what is 0?":
                return Reply("42")
            await asyncio.sleep(0.05)
            refused.set()
            raise BackendFault("auth", "no key")

    monkeypatch.setattr(Calls, "settle", settle_late)
    target = Turning(0)
    with Asker(store, {"target": target}, "r-1", concurrency=2) as ask, pytest.raises(TurnedDown):
        ask(rollouts(12))
    assert (store.budgets.get_spent("r-1").calls, target.n_sent, n_rows(store)) == (2, 2, 2)


def test_a_process_that_waits_for_a_call_that_was_not_sent_sends_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, other, waits = Refusing(100), Refusing(100), threading.Event()
    answers, settle = list[Reply](), Calls.settle

    def settle_and_report(calls: Calls, work: Settlement) -> Settled:
        settled = settle(calls, work)
        if threading.current_thread() is thread:
            waits.set()
        return settled

    monkeypatch.setattr(Calls, "settle", settle_and_report)

    def wait_for_it() -> None:
        with Asker(store, {"target": other}, "r-1", concurrency=2) as ask:
            answers.extend(ask(rollouts(2)[1:]))

    thread = threading.Thread(target=wait_for_it)

    def stop(call: Call, _: Reply) -> None:
        # The second call is claimed by now, and not sent yet.
        thread.start()
        assert waits.wait(10)
        raise Stopped("enough of it")

    with Asker(store, {"target": target}, "r-1", concurrency=1, on_reply=stop) as ask, pytest.raises(Stopped):
        ask(rollouts(2))
    thread.join(20)
    assert not thread.is_alive()
    assert (target.n_sent, other.n_sent, [reply.text for reply in answers]) == (1, 1, ["42"])
    assert (store.budgets.get_spent("r-1").calls, n_rows(store)) == (2, 2)
