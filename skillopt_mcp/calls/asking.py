"""Asking: every question to a model goes through here; it is asked once, answered once, and kept.

The slots are few and hold one call each from its claim to the commit of its reply, so a kill at any moment costs at
most as many repeated sends as there are slots. One transaction commits the replies that came and claims the calls that
go out next.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

from skillopt_mcp.backends.base import FATAL, RETRYABLE, Backend, BackendFault
from skillopt_mcp.calls.owners import Owner
from skillopt_mcp.errors import BackendError, BadInput
from skillopt_mcp.records.calls import Call, Message, Reply, Role, Usage, storable
from skillopt_mcp.store.calls import Attempt, Claim
from skillopt_mcp.store.opening import Store

MAX_ATTEMPTS = 5
BACK_OFF_S = 0.5
MAX_BACK_OFF_S = 30.0
POLL_S = 0.05

OnReply = Callable[[Call, Reply], None]


class _Open(NamedTuple):
    """A call without a reply yet."""

    key: bytes
    call: Call
    backend: Backend


class Asker:
    """The `Ask` of one scope (a run or a promotion test): use it as a context manager, call it with calls."""

    def __init__(
        self,
        store: Store,
        backends: Mapping[Role, Backend],
        scope: str,
        *,
        n_slots: int = 8,
        on_reply: OnReply | None = None,
    ) -> None:
        if n_slots < 1:
            raise BadInput(f"{n_slots} slots send nothing: use 1 or more")
        self._store, self._backends, self._scope = store, backends, scope
        self._n_slots, self._on_reply = n_slots, on_reply
        self._runner = asyncio.Runner()
        self._owner = Owner(store.locks_path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the event loop and let go of unanswered claims."""
        self._runner.close()
        self._owner.close()

    def __call__(self, calls: Sequence[Call], /) -> list[Reply]:
        """Return one reply per call, stored ones first, the rest asked now. See `records.calls.Ask`."""
        keyed = [(call.key(self._backend(call).fingerprint), call) for call in calls]
        replies = self._store.calls.get_replies([key for key, _ in keyed])
        open_calls = {key: _Open(key, call, self._backend(call)) for key, call in keyed if key not in replies}
        if open_calls:
            replies |= self._runner.run(_Round(self, list(open_calls.values())).replies())
        return [replies[key] for key, _ in keyed]

    def _backend(self, call: Call) -> Backend:
        backend = self._backends.get(call.role)
        if backend is None:
            raise BackendError(
                f"no backend is set for the role '{call.role}': start with --{call.role} BACKEND:MODEL, "
                "for instance 'simulated:honest'"
            )
        return backend


class _Round:
    """One batch of open calls on its way through the slots."""

    def __init__(self, asker: Asker, open_calls: list[_Open]) -> None:
        self._store, self._scope, self._owner = asker._store, asker._scope, asker._owner
        self._n_slots, self._on_reply = asker._n_slots, asker._on_reply
        self._todo = deque(open_calls)
        self._sending: dict[asyncio.Task[Reply], _Open] = {}
        self._foreign: dict[bytes, tuple[_Open, Claim]] = {}
        self._attempts: list[Attempt] = []
        self._replies: dict[bytes, Reply] = {}

    async def replies(self) -> dict[bytes, Reply]:
        """Return the reply of every open call, by key. What came in is committed even when this is cut short."""
        done: list[tuple[_Open, Reply]] = []
        try:
            while self._todo or self._sending or self._foreign or done:
                await self._settle(done)
                self._look_at_foreign()
                done = await self._wait()
        finally:
            await self._stop(done)
        return self._replies

    async def _settle(self, done: list[tuple[_Open, Reply]]) -> None:
        """Commit what is done, claim what fills the free slots, and start to send it."""
        room = self._n_slots - len(self._sending)
        batch = [self._todo.popleft() for _ in range(min(room, len(self._todo)))]
        if not done and not batch and not self._attempts:
            return
        replies = [reply for _, reply in done]
        attempts, self._attempts = self._attempts, []
        arguments = (replies, attempts, [(item.key, item.call) for item in batch], self._scope, self._owner.name)
        if self._sending:
            claims = await asyncio.to_thread(self._store.calls.settle, *arguments)
        else:  # nothing runs meanwhile: a thread would only cost
            claims = self._store.calls.settle(*arguments)
        for item, reply in done:
            self._keep(item, reply)
        done.clear()
        for item, claim in zip(batch, claims, strict=True):
            if claim.owner == self._owner.name:
                self._send(item, claim.id)
            else:
                self._foreign[item.key] = (item, claim)

    def _keep(self, item: _Open, reply: Reply) -> None:
        self._replies[item.key] = reply
        if self._on_reply:
            self._on_reply(item.call, reply)

    def _send(self, item: _Open, call_id: int) -> None:
        self._sending[asyncio.ensure_future(self._complete(item, call_id))] = item

    async def _wait(self) -> list[tuple[_Open, Reply]]:
        """Return what came back, as soon as anything did."""
        if not self._sending:
            if self._foreign and not self._todo:
                await asyncio.sleep(POLL_S)
            return []
        timeout = POLL_S if self._foreign else None
        finished, _ = await asyncio.wait(self._sending, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for task in finished:
            failure = task.exception()
            if failure:
                raise failure
        return [(self._sending.pop(task), task.result()) for task in finished]

    def _look_at_foreign(self) -> None:
        """Collect what other processes answered, and take over what they died with."""
        if not self._foreign:
            return
        for key, reply in self._store.calls.get_replies(list(self._foreign)).items():
            item, _ = self._foreign.pop(key)
            self._keep(item, reply)
        for key, (item, claim) in list(self._foreign.items()):
            if len(self._sending) >= self._n_slots:
                return
            if not self._owner.is_alive(claim.owner):
                del self._foreign[key]
                if self._store.calls.take_over(claim.id, claim.owner, self._owner.name):
                    self._send(item, claim.id)
                else:
                    self._todo.append(item)

    async def _stop(self, done: list[tuple[_Open, Reply]]) -> None:
        """Commit what came in; cancel what is still on its way (only when something went wrong)."""
        for task, item in self._sending.items():
            if task.done() and not task.cancelled() and task.exception() is None:
                done.append((item, task.result()))
            else:
                task.cancel()
        if self._sending:
            await asyncio.gather(*self._sending, return_exceptions=True)
        if done or self._attempts:
            replies = [reply for _, reply in done]
            self._store.calls.settle(replies, self._attempts, [], self._scope, self._owner.name)

    async def _complete(self, item: _Open, call_id: int) -> Reply:
        """Send one call until it is answered or given up. Raises BackendError when asking again cannot help."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            started = time.perf_counter()
            try:
                reply = await item.backend.complete(item.call)
            except BackendFault as fault:
                detail = storable(str(fault))
                self._attempts.append(Attempt(call_id, fault.fault, detail))
                if fault.fault in FATAL:
                    raise BackendError(f"backend '{item.backend.name}': {fault}") from fault
                if fault.fault not in RETRYABLE or attempt == MAX_ATTEMPTS:
                    return Reply(text=detail, fault=fault.fault, id=call_id)
                await asyncio.sleep(_back_off_s(attempt, fault.retry_after, item.key))
                continue
            return _kept(reply, call_id, latency_ms=(time.perf_counter() - started) * 1000)
        raise AssertionError("unreachable")


def _kept(reply: Reply, call_id: int, *, latency_ms: float) -> Reply:
    """Return the reply exactly as the store will give it back."""
    messages = tuple(
        Message(storable(m.role), storable(m.content), m.name and storable(m.name)) for m in reply.messages
    )
    usage = Usage(reply.usage.tokens_in, reply.usage.tokens_out, reply.usage.usd, latency_ms)
    return Reply(storable(reply.text), messages, usage, reply.fault, call_id)


def _back_off_s(attempt: int, retry_after: float | None, key: bytes) -> float:
    """Return how long to wait: what the server asked for, else doubling, with a jitter by key that spreads callers."""
    jitter = 0.5 + random.Random(key + bytes([attempt])).random()
    return max(retry_after or 0.0, min(MAX_BACK_OFF_S, BACK_OFF_S * 2.0 ** (attempt - 1)) * jitter)
