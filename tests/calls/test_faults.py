"""Faults: an attempt that failed is tried again where that helps, kept as a row, and never becomes a score."""

import asyncio
import time
from itertools import pairwise

import pytest
from asked import prompt, question, rollouts, texts

from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.base import FATAL, RETRYABLE, BackendFault
from skillopt_mcp.backends.scripted import Answer, Scripted
from skillopt_mcp.backends.spending import MAX_ATTEMPTS, ONE_CHANCE
from skillopt_mcp.core.calls import Call, Fault, Reply, Usage
from skillopt_mcp.core.errors import BackendError, StoreError
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool

pytestmark = pytest.mark.usefixtures("impatient")


def attempts(store: Store) -> list[tuple[object, ...]]:
    pool = Pool(store.path)
    rows = pool.rows("select call_id, fault, detail from attempt order by id")
    pool.close()
    return list(rows)


def failing(n: int, fault: BackendFault) -> Scripted:
    """Return a backend that fails the first `n` attempts at each call."""
    asked: dict[str, int] = {}

    def answer(call: Call) -> Answer:
        asked[prompt(call)] = asked.get(prompt(call), 0) + 1
        return fault if asked[prompt(call)] <= n else "42"

    return Scripted(answer)


@pytest.mark.parametrize("fault", sorted(RETRYABLE - ONE_CHANCE))
def test_a_passing_fault_is_tried_again_and_every_attempt_is_a_row(store: Store, fault: Fault) -> None:
    backend = failing(2, BackendFault(fault, "not now"))
    with Asker(store, {"target": backend}, "r-1") as ask:
        replies = ask(rollouts(2))
    assert texts(replies) == ["42", "42"]
    assert backend.n_calls == 6
    assert sorted(attempts(store)) == sorted((reply.id, fault, "not now") for reply in replies for _ in range(2))


@pytest.mark.parametrize("fault", sorted(ONE_CHANCE))
def test_an_attempt_at_a_task_that_may_have_failed_by_itself_has_no_second_chance_and_a_question_has(
    store: Store, fault: Fault
) -> None:
    failed, outcomes = BackendFault(fault, "too slow"), dict[str, list[Answer]]()
    backend = Scripted(lambda call: outcomes.setdefault(call.stage, [failed, "42"]).pop(0))
    with Asker(store, {"target": backend, "optimizer": backend}, "r-1") as ask:
        [answered] = ask([question()])
        [missing] = ask(rollouts(1))
    assert (answered.text, answered.fault) == ("42", None)
    assert (missing.text, missing.fault) == ("too slow", fault)


def test_a_fault_that_stays_leaves_a_missing_reply_that_only_a_new_draw_asks_for_again(store: Store) -> None:
    backend = failing(99, BackendFault("server", "500 \ud83d"))
    with Asker(store, {"target": backend}, "r-1") as ask:
        [first] = ask(rollouts(1))
        assert (first.text, first.fault, first.missing) == ("500 \ufffd (given up after 5 attempts)", "server", True)
        assert backend.n_calls == MAX_ATTEMPTS
        assert ask(rollouts(1)) == [first]
        assert backend.n_calls == MAX_ATTEMPTS
        ask(rollouts(1, "r-1/e1s1/try1"))
        assert backend.n_calls == 2 * MAX_ATTEMPTS
    assert len(attempts(store)) == 2 * MAX_ATTEMPTS
    assert [(row.n_calls, row.n_missing) for row in store.ledger.list_rows("r-1")] == [(2, 2)]


def test_what_a_reply_cost_that_was_cut_off_is_kept_though_it_is_missing(store: Store) -> None:
    cut_off = BackendFault("truncated", "cut off", usage=Usage(100, 4096, 0.25))
    with Asker(store, {"target": failing(99, cut_off)}, "r-1") as ask:
        [reply] = ask(rollouts(1))
        assert (reply.missing, reply.usage) == (True, Usage(usd=0.0))
        assert ask(rollouts(1)) == [reply]
    [row] = store.ledger.list_rows("r-1")
    assert (row.n_missing, row.tokens_in, row.tokens_out, row.usd) == (1, 100, 4096, 0.25)


def test_the_time_that_a_backend_asks_for_is_given(store: Store) -> None:
    moments: list[float] = []

    def answer(_: Call) -> Answer:
        moments.append(time.perf_counter())
        return BackendFault("rate_limit", "slow down", 0.05) if len(moments) < 3 else "42"

    with Asker(store, {"target": Scripted(answer)}, "r-1") as ask:
        [reply] = ask(rollouts(1))
    assert [later - earlier >= 0.05 for earlier, later in pairwise(moments)] == [True, True]
    assert reply.usage.latency_ms < 100, "waiting is not latency"


@pytest.mark.parametrize("fault", sorted(FATAL))
def test_a_fatal_fault_stops_at_once_and_what_came_in_is_kept(store: Store, fault: Fault) -> None:
    def answer(call: Call) -> Answer:
        return BackendFault(fault, "key refused") if prompt(call) == "what is 9?" else "42"

    calls = rollouts(40)
    backend = Scripted(answer, name="scripted:x")
    with (
        Asker(store, {"target": backend}, "r-1", concurrency=4) as ask,
        pytest.raises(BackendError, match="backend 'scripted:x': key refused"),
    ):
        ask(calls)
    kept = store.calls.get_replies([call.key("scripted:x") for call in calls])
    assert backend.n_calls <= 12
    assert len(kept) == backend.n_calls - 1
    assert [each[1:] for each in attempts(store)] == [(fault, "key refused")]
    with Asker(store, {"target": Scripted(lambda _: "42", name="scripted:x")}, "r-1") as ask:
        assert texts(ask(calls)) == ["42"] * 40


def test_a_bug_of_a_backend_surfaces_and_what_came_in_is_kept(store: Store) -> None:
    class Buggy(Scripted):
        async def complete(self, call: Call) -> Reply:
            reply = await super().complete(call)
            if prompt(call) == "what is 9?":
                await asyncio.sleep(0.002)
                raise ZeroDivisionError("a bug")
            return reply

    backend = Buggy(lambda _: "42")
    calls = rollouts(12)
    with Asker(store, {"target": backend}, "r-1", concurrency=4) as ask:
        with pytest.raises(ZeroDivisionError, match="a bug"):
            ask(calls)
        kept = store.calls.get_replies([call.key("scripted") for call in calls])
        assert len(kept) == 11
        assert calls[9].key("scripted") not in kept
        with pytest.raises(ZeroDivisionError):
            ask(calls)
        assert backend.n_calls == 13
    assert [row.n_repeated for row in store.ledger.list_rows("r-1")] == [1]


def test_a_backend_that_cancels_its_own_work_leaves_a_missing_reply_and_delays_no_other(store: Store) -> None:
    calls = rollouts(3)

    def answer(call: Call) -> Answer:
        if prompt(call) == prompt(calls[1]):
            raise asyncio.CancelledError
        return "42"

    with Asker(store, {"target": Scripted(answer)}, "r-1") as ask:
        replies = ask(calls)
    assert [reply.fault for reply in replies] == [None, "internal", None]
    assert replies[1].text == "the backend cancelled its own work"


def test_the_faults_of_one_call_do_not_hold_up_the_others(store: Store) -> None:
    order: list[str] = []

    def answer(call: Call) -> Answer:
        return BackendFault("rate_limit", "slow down", 0.1) if call.request.digest.endswith("0") else "42"

    with Asker(
        store, {"target": Scripted(answer)}, "r-1", concurrency=2, on_reply=lambda call, _: order.append(prompt(call))
    ) as ask:
        asking_started = time.perf_counter()
        replies = ask(rollouts(9))
        assert time.perf_counter() - asking_started >= 0.1 * (MAX_ATTEMPTS - 1)
    assert order[-1] == "what is 0?"
    assert [reply.missing for reply in replies] == [True] + [False] * 8


def test_a_reply_that_cannot_be_stored_is_never_reported(store: Store) -> None:
    reported: list[Reply] = []
    broken = Reply(b"42")  # type: ignore[arg-type]
    with (
        Asker(
            store, {"target": Scripted(lambda _: broken)}, "r-1", on_reply=lambda _, reply: reported.append(reply)
        ) as ask,
        pytest.raises(StoreError, match="cannot store BLOB value in TEXT column"),
    ):
        ask(rollouts(1))
    assert reported == []
