"""Asking: every question to a model goes through here; it is asked once, answered once, and kept.

The slots are few and hold one call each from its claim to the commit of its reply, so a kill at any moment costs at
most as many repeated sends as there are slots.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Self, TypeVar

from skillopt_mcp.backends.arrivals import check_arrivals
from skillopt_mcp.backends.base import Backend, is_deferred, is_instant, no_backend, shown
from skillopt_mcp.backends.rounds import GRACE_S, Lane, OnPause, OnReply, Open, Round, Terms, open_lane
from skillopt_mcp.backends.spending import Budget
from skillopt_mcp.core.calls import HOST, Call, Reply, Role, Rollout
from skillopt_mcp.core.errors import BadInput, Waiting
from skillopt_mcp.core.limits import MAX_CONCURRENCY
from skillopt_mcp.store.calls import Settlement
from skillopt_mcp.store.files import Owner
from skillopt_mcp.store.opening import Store

T = TypeVar("T")
_MOST_THREADS, _LAST_S = 1_000, 60.0


@dataclass(frozen=True, slots=True)
class Outstanding:
    """Where a run or a test waits for a host: the calls that are open, by the ids of their rows."""

    calls: Mapping[int, Call]


class Asker:
    """The `Ask` of one scope (a run or a promotion test): use it as a context manager, call it with calls.

    `concurrency` calls at once go to each backend, or as many as it takes by itself; `budget` is the scope's own unless
    another is given; `on_pause` is called when nothing can be asked for a while. What a deferred backend did not answer
    is in `left_open`, by the id of its row.
    """

    def __init__(
        self,
        store: Store,
        backends: Mapping[Role, Backend],
        scope: str,
        *,
        concurrency: int | None = None,
        on_reply: OnReply | None = None,
        budget: Budget | None = None,
        on_pause: OnPause | None = None,
    ) -> None:
        if concurrency is not None and not (isinstance(concurrency, int) and 1 <= concurrency <= MAX_CONCURRENCY):
            raise BadInput(f"concurrency must be 1-{MAX_CONCURRENCY}, got {concurrency}")
        self.left_open: dict[int, Call] = {}
        self._store, self._backends, self._concurrency = store, backends, concurrency
        self._lanes: dict[Role, Lane] = {}
        self._runner = asyncio.Runner()
        self._shared: SharedRound | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._arriving = threading.Lock()
        self._owner = Owner(store.locks_path)
        self._terms = Terms(store.calls, scope, self._owner, budget or Budget(scope), on_reply, on_pause)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the event loop and release unanswered claims."""
        self._runner.close()
        self._owner.close()

    def __call__(self, calls: Sequence[Call], /) -> list[Reply]:
        """Return one reply per call, stored ones first, the rest asked now. See `core.calls.Ask`."""
        lanes = {role: self._lane(role) for role in {call.role for call in calls}}
        fingerprints = {role: lane.backend.fingerprint for role, lane in lanes.items()}
        keys = [call.key(fingerprints[call.role]) for call in calls]
        replies = self._store.calls.get_replies(keys)
        unanswered = {key: call for key, call in zip(keys, calls, strict=True) if key not in replies}
        deferred = {key: call for key, call in unanswered.items() if is_deferred(lanes[call.role].backend, call)}
        if len(unanswered) > len(deferred):
            waiting = [
                call.request for key, call in unanswered.items() if call.role == "target" and key not in deferred
            ]
            rollouts = [request for request in waiting if isinstance(request, Rollout)]
            if rollouts:
                with self._arriving:  # one thread looks, the others find what it saw
                    check_arrivals(self._store, lanes["target"].backend, rollouts)
            fresh = [(Open(key, call), lanes[call.role]) for key, call in unanswered.items() if key not in deferred]
            if self._shared:
                replies |= self._shared.ask(fresh)
            else:
                self._ask_alone(fresh, replies)
        if deferred:
            self._leave_open(deferred)
            raise Waiting(len(deferred))
        return [replies[key] for key in keys]

    def slots(self, role: Role) -> int:
        """How many calls a role's backend takes at once; 0 for one that answers later."""
        lane = self._lane(role)
        return 0 if lane.backend.deferred else 1 if is_instant(lane.backend) else lane.pace.concurrency

    @property
    def defers(self) -> bool:
        """Whether a backend answers later."""
        return any(backend.deferred for backend in self._backends.values())

    @property
    def is_shared(self) -> bool:
        """Whether threads may ask at the same time now."""
        return self._shared is not None

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Let jobs ask at the same time, if a backend takes several calls at once; at the end they have a minute."""
        if max(map(self.slots, self._backends), default=0) < 2:
            yield
            return
        lanes = [self._lane(role) for role in self._backends if not self._backends[role].deferred]
        for lane in lanes:
            lane.begin()
        with ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="ask") as self._pool:
            self._shared = shared = SharedRound(self._runner, self._terms, lanes)
            grace_s = 0.0
            try:
                yield
                grace_s = _LAST_S  # what nobody waits for any more is paid, too
            except Exception:
                grace_s = GRACE_S  # what is under way is paid, and asked again otherwise
                raise
            finally:
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._shared = None
                shared.close(grace_s)

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Do a job in a thread of its own, while this is shared."""
        assert self._pool
        return self._pool.submit(copy_context().run, job)

    def wait_for(self, jobs: Collection[Future[T]]) -> Collection[Future[T]]:
        """Wait until some of these jobs are done, and return these."""
        return wait(jobs, return_when=FIRST_COMPLETED).done

    def drop(self, calls: Sequence[Call]) -> None:
        """Send these calls no more, as far as none is claimed: who waits for them gets a CancelledError."""
        if self._shared:
            self._shared.drop({call.key(self._lane(call.role).backend.fingerprint) for call in calls})

    def _ask_alone(self, fresh: Sequence[tuple[Open, Lane]], replies: dict[bytes, Reply]) -> None:
        lanes = list({id(lane): lane for _, lane in fresh}.values())
        for lane in lanes:
            lane.begin()
        for item, lane in fresh:
            lane.fresh.append(item)
        try:
            self._runner.run(self._ask(lanes, replies), context=copy_context())
        except asyncio.CancelledError:
            # A Ctrl-C that comes just as the runner begins to listen for it is taken for no Ctrl-C.
            raise KeyboardInterrupt from None

    def _leave_open(self, calls: Mapping[bytes, Call]) -> None:
        """Keep calls in the store for a host to answer, charged once. Raises CapReached when one is too many."""
        store, terms = self._store, self._terms
        known = store.leases.open_ids(list(calls))
        fresh = [Open(key, call) for key, call in calls.items() if key not in known]
        if fresh:
            costs = [terms.budget.cost(self._lane(call.role).backend, call) for _, call in fresh]
            settled = store.calls.settle(Settlement([], [], 0, fresh, terms.scope, HOST, terms.budget.bill(costs)))
            known |= {item.key: claim.id for item, claim in zip(fresh, settled.claims, strict=False)}
        for key, call in calls.items():
            if key in known:
                self.left_open[known[key]] = shown(self._lane(call.role).backend, call)
        if fresh and len(settled.claims) < len(fresh) and not self.left_open:
            raise terms.budget.reached(settled.spent, costs[len(settled.claims)])

    async def _ask(self, lanes: Sequence[Lane], replies: dict[bytes, Reply]) -> None:
        # Not returned: what a task returns is spelled out each time that the runner gives back the signal of Ctrl-C.
        replies |= await Round(self._terms, lanes).replies()

    def _lane(self, role: Role) -> Lane:
        backend = self._backends.get(role)
        if backend is None:
            raise no_backend(role)
        return self._lanes.setdefault(role, open_lane(backend, self._concurrency))


class SharedRound:
    """One round in a thread of its own that many threads add calls to; each waits for its own."""

    def __init__(self, runner: asyncio.Runner, terms: Terms, lanes: Sequence[Lane]) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[bytes, Future[Reply]] = {}
        self._calls, self._asked = terms.calls, set[bytes]()
        self._failure: BaseException | None = None
        self._loop = runner.get_loop()
        self._begun: Future[tuple[Round, asyncio.Task[object]]] = Future()
        self._thread = threading.Thread(target=copy_context().run, args=(runner.run, self._serve(terms, lanes)))
        self._thread.start()

    def ask(self, calls: Sequence[tuple[Open, Lane]]) -> dict[bytes, Reply]:
        """The reply of each call. Raises what ended the round."""
        served, _ = self._begun.result()
        with self._lock:
            if self._failure:
                raise self._failure
            # What another thread asked may have landed since the caller looked for it.
            done = self._calls.get_replies([
                item.key for item, _ in calls if item.key in self._asked and item.key not in self._waiting
            ])  # fmt: skip
            fresh = [(item, lane) for item, lane in calls if item.key not in self._waiting and item.key not in done]
            self._waiting |= {item.key: Future() for item, _ in fresh}
            self._asked.update(item.key for item, _ in fresh)
            futures = {item.key: self._waiting[item.key] for item, _ in calls if item.key not in done}
            self._loop.call_soon_threadsafe(served.add, fresh)
        return done | {key: future.result() for key, future in futures.items()}

    def drop(self, keys: Collection[bytes]) -> None:
        """Send these no more, as far as they are not claimed; who waits for them gets a CancelledError."""

        def drop() -> None:
            for key in self._begun.result()[0].remove(keys):
                with self._lock:
                    future = self._waiting.pop(key)
                future.set_exception(CancelledError())

        self._loop.call_soon_threadsafe(drop)

    def close(self, grace_s: float) -> None:
        """End the round. What came in is committed; what is under way is cut short after so many seconds."""
        served, task = self._begun.result()
        with self._lock:
            served.grace_s = grace_s
            self._loop.call_soon_threadsafe(task.cancel if self._waiting else served.close)
        self._thread.join()

    def _landed(self, key: bytes, reply: Reply) -> None:
        with self._lock:
            future = self._waiting.pop(key)
        future.set_result(reply)

    async def _serve(self, terms: Terms, lanes: Sequence[Lane]) -> None:
        task = asyncio.current_task()
        assert task
        served = Round(terms, lanes, self._landed)
        self._begun.set_result((served, task))
        failure: BaseException = CancelledError()
        try:
            await served.replies()
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - those who wait raise it
            failure = error
        with self._lock:
            self._failure, waiting = failure, list(self._waiting.values())
        for future in waiting:
            future.set_exception(failure)


def run_or_wait(ask: Asker, store: Store, work: Callable[[], T]) -> T | Outstanding:
    """Return the result of `work` with this `ask`, or what is outstanding when it has to wait for a host."""
    while True:
        try:
            return work()
        except Waiting:
            if store.leases.count_unanswered(list(ask.left_open)):
                return Outstanding(dict(ask.left_open))
            # The last reply came while this went on.
            ask.left_open.clear()
