"""Asking: once per call, in order, a few at a time, and nothing is said to be answered before it is stored."""

import asyncio
from collections.abc import Coroutine

import pytest
from asked import question, rollouts, texts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.calls import Call, Message, Reply, Usage
from skillopt_mcp.store.opening import Store

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)


def answer(call: Call) -> str:
    return f"{call.draw} {call.request.digest[-4:]}"


def test_replies_come_in_the_order_of_the_calls_however_they_were_answered(store: Store) -> None:
    class Backwards(Scripted):
        async def complete(self, call: Call) -> Reply:
            await asyncio.sleep(0.001 * (8 - self.n_calls % 8))
            return await super().complete(call)

    calls = rollouts(20)
    with Asker(store, {"target": Backwards(answer)}, "r-1") as ask:
        assert texts(ask(calls)) == [answer(call) for call in calls]
        assert texts(ask(calls[::-1])) == [answer(call) for call in calls[::-1]]


def test_a_stored_reply_is_returned_whole_and_never_asked_for_again(store: Store) -> None:
    reply = Reply("42", (Message("assistant", "é\0"), Message("tool", "", "")), Usage(3, 4, 0.25, tokens_cached=2))
    backend = Scripted(lambda call: reply._replace(text=answer(call)))
    with Asker(store, {"target": backend}, "r-1") as ask:
        first = ask(rollouts(10))
        assert backend.n_calls == 10
        assert ask(rollouts(10)) == first
    with Asker(store, {"target": backend}, "r-1") as ask:
        assert ask(rollouts(12))[:10] == first
    assert backend.n_calls == 12
    assert [each.messages for each in first] == [reply.messages] * 10
    assert {each.usage._replace(latency_ms=0.0) for each in first} == {reply.usage}
    assert len({each.id for each in first}) == 10


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ANY_TEXT, st.lists(st.tuples(ANY_TEXT, ANY_TEXT, st.none() | ANY_TEXT), max_size=3), st.floats(0, 1e9))
def test_what_is_returned_first_is_what_the_store_returns_later(
    store: Store, text: str, messages: list[tuple[str, str, str | None]], usd: float
) -> None:
    reply = Reply(text, tuple(Message(*each) for each in messages), Usage(1, 2, usd))
    with Asker(store, {"target": Scripted(lambda _: reply)}, "r-1") as ask:
        call = rollouts(1)[0]._replace(draw=f"r-1/{text!r}{messages!r}{usd}")
        [first] = ask([call])
        assert ask([call]) == [first]
    assert "\ud83d" not in first.text


def test_a_lone_surrogate_in_a_reply_costs_one_character_and_not_the_round(store: Store) -> None:
    with Asker(store, {"target": Scripted(lambda call: f"{answer(call)} \ud83d")}, "r-1") as ask:
        assert texts(ask(rollouts(3))) == [f"{answer(call)} \ufffd" for call in rollouts(3)]


def test_equal_calls_in_one_round_are_asked_once(store: Store) -> None:
    backend = Scripted(answer)
    one, two = rollouts(2)
    with Asker(store, {"target": backend}, "r-1") as ask:
        replies = ask([one, two, one, one])
    assert texts(replies) == [answer(one), answer(two), answer(one), answer(one)]
    assert backend.calls == [one, two]


@pytest.mark.parametrize("change", [{"draw": "r-1/e2s1"}, {"draw": "r-2/e1s1"}, {"stage": "merge"}])
def test_another_draw_or_stage_asks_again(store: Store, change: dict[str, str]) -> None:
    backend = Scripted(answer)
    call = question()
    with Asker(store, {"optimizer": Scripted(lambda _: "x")}, "r-1") as ask:
        ask([call])
    with Asker(store, {"optimizer": backend}, "r-1") as ask:
        backend.fingerprint = "scripted"
        ask([call])
        assert backend.n_calls == 0
        ask([call._replace(**change)])  # type: ignore[arg-type]
        assert backend.n_calls == 1


def test_another_backend_is_asked_again_and_each_keeps_its_reply(store: Store) -> None:
    replies = []
    for name in ("one", "two", "one"):
        with Asker(store, {"target": Scripted(lambda _, name=name: name, name=name)}, "r-1") as ask:
            replies += texts(ask(rollouts(1)))
    assert replies == ["one", "two", "one"]


@pytest.mark.parametrize(("concurrency", "n_calls"), [(1, 5), (3, 20), (8, 50), (8, 3)])
def test_no_more_than_the_slots_are_sent_and_not_yet_stored(store: Store, concurrency: int, n_calls: int) -> None:
    calls = rollouts(n_calls)
    keys = [call.key("scripted") for call in calls]

    class Watching(Scripted):
        n_sent = n_running = most_running = most_uncommitted = 0

        async def complete(self, call: Call) -> Reply:
            self.n_sent += 1
            self.n_running += 1
            self.most_running = max(self.most_running, self.n_running)
            n_uncommitted = self.n_sent - len(store.calls.get_replies(keys))
            self.most_uncommitted = max(self.most_uncommitted, n_uncommitted)
            await asyncio.sleep(0.001 * (self.n_sent % 4))
            reply = await super().complete(call)
            self.n_running -= 1
            return reply

    backend = Watching(answer)
    with Asker(store, {"target": backend}, "r-1", concurrency=concurrency) as ask:
        ask(calls)
    assert backend.most_running == backend.most_uncommitted == min(concurrency, n_calls)


def test_a_ctrl_c_that_the_loop_takes_for_a_cancellation_is_a_ctrl_c(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(work: Coroutine[object, object, None], **_: object) -> None:
        work.close()
        raise asyncio.CancelledError

    with Asker(store, {"target": Scripted(answer)}, "r-1") as ask:
        monkeypatch.setattr(ask._runner, "run", run)
        with pytest.raises(KeyboardInterrupt):
            ask(rollouts(1))
