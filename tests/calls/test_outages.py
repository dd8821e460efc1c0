"""Outages: a backend that is down stops the run, leaves no hole in it, and the run goes on when it is back."""

import asyncio

import pytest
from asked import prompt, rollouts, texts

from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Answer, Scripted
from skillopt_mcp.core.calls import Call, Fault, Reply
from skillopt_mcp.core.errors import Outage
from skillopt_mcp.store.opening import Store

DOWN = BackendFault("connection", "example.org: refused; check the network")


pytestmark = pytest.mark.usefixtures("impatient")


def number(call: Call) -> int:
    return int(prompt(call).removeprefix("what is ").removesuffix("?"))


def test_few_faults_at_the_start_do_not_stop_a_run(store: Store) -> None:
    with Asker(
        store, {"target": Scripted(lambda call: DOWN if number(call) < 9 else "42")}, "r-1", concurrency=4
    ) as ask:
        replies = ask(rollouts(40))
    assert [reply.missing for reply in replies] == [True] * 9 + [False] * 31


def test_a_fault_is_only_held_against_a_call_once_the_backend_answers_another(store: Store) -> None:
    reported: list[Reply] = []

    def answer(call: Call) -> Answer:
        if number(call) >= 5:
            assert not reported
        return DOWN if number(call) < 5 else "42"

    backend = Scripted(answer)
    with Asker(
        store, {"target": backend}, "r-1", concurrency=1, on_reply=lambda _, reply: reported.append(reply)
    ) as ask:
        assert [reply.missing for reply in ask(rollouts(6))] == [True] * 5 + [False]
    assert sorted(reply.missing for reply in reported) == [False] + [True] * 5


@pytest.mark.parametrize("fault", ["refusal", "context_too_long"])
def test_what_a_task_brings_upon_itself_is_no_outage(store: Store, fault: str) -> None:
    backend = Scripted(lambda _: BackendFault(fault, "no"))  # type: ignore[arg-type]
    with Asker(store, {"target": backend}, "r-1") as ask:
        assert all(reply.missing for reply in ask(rollouts(60)))


@pytest.mark.parametrize("fault", ["truncated", "empty", "timeout", "malformed"])
def test_a_text_that_spoils_most_answers_is_no_outage(store: Store, fault: Fault) -> None:
    spoiled = Scripted(lambda call: "42" if number(call) % 4 == 0 else BackendFault(fault, "no"))
    with Asker(store, {"target": spoiled}, "r-1", concurrency=1) as ask:
        assert sum(reply.missing for reply in ask(rollouts(60))) == 45


@pytest.mark.parametrize("fault", ["connection", "internal", "malformed", "timeout"])
def test_what_led_to_an_outage_is_not_missing_whatever_its_fault(store: Store, fault: Fault) -> None:
    """Nor when another call is answered while the round comes to its end."""

    class Late(Scripted):
        async def complete(self, call: Call) -> Reply:
            if number(call) == 40:
                await asyncio.sleep(0.05)
            return await super().complete(call)

    def answer(call: Call) -> Answer:
        return "42" if number(call) in (*range(9), 40) else BackendFault(fault, "broken")

    calls = rollouts(41)
    with Asker(store, {"target": Late(answer)}, "r-1", concurrency=41) as ask, pytest.raises(Outage):
        ask(calls)
    again = Scripted(lambda _: "42")
    with Asker(store, {"target": again}, "r-1") as ask:
        assert texts(ask(calls)) == ["42"] * 41
    assert sorted(map(number, again.calls)) == list(range(9, 40))
