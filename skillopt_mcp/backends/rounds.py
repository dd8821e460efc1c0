"""Rounds: calls sent a few at a time, as many as each backend takes, until each has a reply or is missing."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from skillopt_mcp.backends.base import FATAL, Backend, BackendFault, concurrency_of
from skillopt_mcp.backends.spending import MAX_PAUSE_S, ONE_CHANCE, POLICIES, Budget, Pause, too_long, wait_before_next
from skillopt_mcp.core import tracing
from skillopt_mcp.core.budgets import Cost, Spent
from skillopt_mcp.core.calls import NOTHING, Call, Fault, Reply, Usage, served_name, storable_messages
from skillopt_mcp.core.errors import Outage, TurnedDown
from skillopt_mcp.core.text import storable
from skillopt_mcp.store.calls import Calls, Claim, FailedSend, Settled, Settlement
from skillopt_mcp.store.files import Owner

REJECTIONS: frozenset[Fault] = frozenset({"rate_limit", "overloaded"})
# A task or a skill causes these itself: they are not an outage, and gates deal with missing replies.
OF_THE_CALL: frozenset[Fault] = frozenset({"refusal", "context_too_long"})
# So does an attempt at a task, where the backend has answered another.
_OF_AN_ATTEMPT: frozenset[Fault] = frozenset({"truncated", "empty"})
N_IN_A_ROW = 3
WINDOW = 20
_CLEAN_WINDOWS, _HALF = 8, 0.5
MAX_FAILED = 10


class Pace:
    """The calls that one backend takes at once: additive increase, decrease by the share that it rejects.

    After each window of as many answers as calls at once, a window that was rejected whole halves them, one without a
    rejection adds one; between, DCTCP's rule (Alizadeh et al., 2010) keeps single rejections from halving them. Where
    more calls than went through before are rejected, that many is a ceiling: it is raised after some windows without a
    rejection, by a step that doubles as long as none comes.
    """

    def __init__(self, concurrency: int) -> None:
        self.concurrency = self._most = concurrency
        self.closed_until = self._halved_at = 0.0
        self._n_answered = 0
        self._limit = self._ceiling = float(concurrency)
        self._clean = 0.0  # the most calls at once of which none was rejected
        self._n_clean, self._step = 0, 1
        self._n_seen = self._n_rejected = self._n_in_a_row = 0

    @property
    def limit(self) -> int:
        """Return how many calls may be under way at once, 1 or more."""
        return round(self._limit)

    def answered(self) -> None:
        """Note an answer, or a fault that is not about load."""
        self._n_in_a_row = 0
        self._n_answered += 1
        if self._n_answered % WINDOW == 0:
            self.concurrency = min(self._most, self.concurrency + 1)
        self._seen()

    def halve(self, sent_at: float, now: float) -> None:
        """Note that no answer came in time to a call: calls that go at once then, and 20 answers later one more."""
        if sent_at >= self._halved_at:  # of calls that went together one counts
            self._halved_at, self._n_answered, self.concurrency = now, 0, max(1, self.limit // 2)
            self._limit = float(self.concurrency)

    def rejected(self, now: float, retry_after: float | None) -> None:
        """Note that the backend wants fewer calls; after several rejections in a row, none for `retry_after`."""
        self._n_rejected += 1
        self._n_in_a_row += 1
        if retry_after and self._n_in_a_row >= min(N_IN_A_ROW, self.limit):
            self.closed_until = max(self.closed_until, now + retry_after)
        self._seen()

    def _seen(self) -> None:
        self._n_seen += 1
        if self._n_seen >= self.limit:
            share = self._n_rejected / self._n_seen
            if share:
                self._clean = 0.0 if share >= _HALF else self._clean
                self._ceiling = self._clean if 0 < self._clean < self._limit else self._ceiling
                self._n_clean, self._step = 0, 1
                paced = max(1.0, self._limit * (1 - share / 2))
            else:
                self._clean, self._n_clean = max(self._clean, self._limit), self._n_clean + 1
                if self._n_clean == _CLEAN_WINDOWS:
                    self._ceiling, self._n_clean, self._step = self._ceiling + self._step, 0, 2 * self._step
                paced = self._limit + 1
            self._limit = min(float(self.concurrency), paced, self._ceiling)
            self._n_seen = self._n_rejected = 0


class Breaker:
    """Whether most of the last calls to a backend failed.

    What an attempt may have brought upon itself counts only where none of them was answered: a text that makes a target
    take too long most of the time has failed, and is no outage.
    """

    def __init__(self) -> None:
        self.has_answered = False
        self._last: deque[Fault | None] = deque(maxlen=WINDOW)
        self._doubted: deque[bool] = deque(maxlen=WINDOW)

    def note(self, fault: Fault | None, *, has_one_chance: bool = False) -> None:
        """Note how a call ended."""
        self._last.append(fault)
        self._doubted.append(has_one_chance)

    @property
    def is_open(self) -> bool:
        """Whether more than half of the last 20 calls failed; fewer calls than that prove nothing."""
        n_failed = WINDOW - self._last.count(None)
        return len(self._last) == WINDOW and (n_failed == WINDOW or n_failed - sum(self._doubted) > MAX_FAILED)

    def __str__(self) -> str:
        faults = Counter(fault for fault in self._last if fault)
        kinds = ", ".join(f"{n} {fault}" for fault, n in faults.most_common())
        return f"{faults.total()} of the last {len(self._last)} calls failed ({kinds})"


MOST_WAITING = 100


class Open(NamedTuple):
    """A call without a reply yet."""

    key: bytes
    call: Call

    def has_one_chance(self, fault: Fault | None) -> bool:
        """Return whether it is an attempt at a task, which may bring this fault upon itself."""
        return self.call.stage == "rollout" and fault in ONE_CHANCE


@dataclass(slots=True, eq=False)
class Sent:
    """A call that this process holds: what it is charged, how often it failed, and its outcome."""

    item: Open
    lane: Lane
    call_id: int
    cost: Cost
    first_at: float = 0.0
    n_failed: int = 0
    outcome: Reply | BackendFault | None = None
    latency_s: float = 0.0
    task: asyncio.Task[None] | None = None
    is_sent: bool = False

    async def asked(self) -> Reply | None:
        """Return the backend's reply, or None: what was claimed while a refusal came in is not sent any more.

        Raises BackendFault as the backend does.
        """
        if self.lane.refusal:
            return None
        self.is_sent = True
        try:
            return await self.lane.backend.complete(self.item.call)
        except BackendFault as fault:
            self.lane.refusal = fault if fault.fault in FATAL else self.lane.refusal
            raise

    def kept(self, reply: Reply) -> Reply:
        """Return a reply exactly as the store will give it back; what failed attempts cost stands with these."""
        usage = reply.usage
        used = Usage(usage.tokens_in, usage.tokens_out, usage.usd, self.latency_s * 1000, usage.tokens_cached)
        said = storable_messages(reply.messages)
        served = served_name(reply.served) if reply.served else ""
        return Reply(storable(reply.text), said, used, reply.fault, self.call_id, served)


@dataclass(slots=True, eq=False)
class Lane:
    """A backend with its pace and its breaker, which last, and the calls of the round that is under way.

    `asked_s` is for how many seconds it asked to be left alone when it failed last; `refusal` is what ends this round.
    """

    backend: Backend
    pace: Pace
    breaker: Breaker = field(default_factory=Breaker)
    n_flying: int = 0
    fresh: deque[Open] = field(default_factory=deque)
    again: list[tuple[float, int, Sent]] = field(default_factory=list)
    held: list[tuple[Open, Reply]] = field(default_factory=list)
    asked_s: float = 0.0
    refusal: BackendFault | None = None

    def begin(self) -> None:
        """Clear what an interrupted round left."""
        self.n_flying = 0
        self.refusal = None
        self.fresh.clear()
        self.again.clear()
        self.held.clear()

    @property
    def is_idle(self) -> bool:
        """Return whether nothing of the round is left to be sent or to come back."""
        return not (self.n_flying or self.fresh or self.again)

    def outage(self, text: str) -> Outage:
        """Return what ends a run whose backend fails again and again; `text` is how it did last."""
        return Outage(
            f"backend '{self.backend.name}': {self.breaker}, last: {text}. Fix that and resume: "
            "what was answered is kept"
        )

    def put_again(self, sent: Sent, at: float) -> None:
        """Keep a call to be sent again at a time of the loop's clock."""
        heappush(self.again, (at, sent.call_id, sent))

    @property
    def had_their_chance(self) -> list[tuple[Open, Reply]]:
        """Return what is held back and is not retried after an interruption."""
        return [(item, missing) for item, missing in self.held if item.has_one_chance(missing.fault)]

    def let_go(self) -> list[tuple[Open, Reply]]:
        """Remove and return the calls that were held back as missing."""
        held, self.held = self.held, []
        return held

    def take(self, now: float) -> tuple[list[Sent], list[Open]]:
        """Remove and return what may be sent now, retries first."""
        room = self.pace.limit - self.n_flying if now >= self.pace.closed_until else 0
        again: list[Sent] = []
        while len(again) < room and self.again and self.again[0][0] <= now:
            again.append(heappop(self.again)[2])
        n_fresh = min(max(0, room - len(again)), self._n_startable)
        return again, [self.fresh.popleft() for _ in range(n_fresh)]

    def next_at(self, now: float) -> float | None:
        """Return when something may go out though nothing comes back; None when only an answer makes room."""
        if self.n_flying >= self.pace.limit or not (self.fresh or self.again):
            return None
        return max(self.pace.closed_until, now if self._n_startable else self.again[0][0])

    @property
    def _n_startable(self) -> int:
        """Return how many fresh calls may be begun: where a hundred already wait to be sent again, none."""
        return 0 if len(self.again) >= MOST_WAITING else len(self.fresh)


def open_lane(backend: Backend, concurrency: int | None) -> Lane:
    """Return the lane of a backend, with this concurrency, or the backend's own."""
    return Lane(backend, Pace(concurrency or concurrency_of(backend)))


POLL_S = 0.05
GRACE_S = 10.0
# A shorter pause is over before a person could read of it.
_MIN_REPORTED_S = 1.0

OnReply = Callable[[Call, Reply], None]
OnPause = Callable[[Pause], None]
Landed = Callable[[bytes, Reply], None]
"""Takes the key of a call and its reply, as soon as that is committed."""


class Terms(NamedTuple):
    """What all rounds of an asker share."""

    calls: Calls
    scope: str
    owner: Owner
    budget: Budget
    on_reply: OnReply | None
    on_pause: OnPause | None = None


class Round:
    """Sends the calls of its lanes, a few at a time. One transaction commits what came back and claims what goes out.

    A call that waits to be sent again holds no slot. A call that failed because of the backend
    is only committed as missing once the backend answers another, or when nothing else is left.
    """

    def __init__(self, terms: Terms, lanes: Sequence[Lane], landed: Landed | None = None) -> None:
        self._terms, self._lanes = terms, lanes
        self._tell, self._is_extended = landed, landed is not None
        self._n_open = sum(len(lane.fresh) for lane in lanes)
        self._flying: set[Sent] = set()
        self._landed: list[Sent] = []
        self._foreign: dict[bytes, tuple[Open, Lane, Claim]] = {}
        self._done: list[tuple[Open, Reply]] = []
        self._attempts: list[FailedSend] = []
        self._unsent: list[Sent] = []
        self._replies: dict[bytes, Reply] = {}
        self._is_traced = tracing.is_on()
        self._is_capped = self._is_over = False
        self.grace_s = 0.0
        self._spent: Spent | None = None
        self._reported_until = 0.0
        self._loop = asyncio.get_running_loop()
        self._waker = self._loop.create_future()

    async def replies(self) -> dict[bytes, Reply]:
        """Return the reply of every open call, by key. What came in is committed even when this is cut short."""
        try:
            while True:
                self._take_in()
                await self._settle()
                self._look_at_foreign()
                if not (self._n_open or self._is_extended):
                    return self._replies
                await self._wait()
        finally:
            await self._stop()

    def add(self, calls: Sequence[tuple[Open, Lane]]) -> None:
        """Ask these as well. Only a round that says what landed takes more, until it is closed."""
        for item, lane in calls:
            lane.fresh.append(item)
        self._n_open += len(calls)
        self._wake()

    def remove(self, keys: Collection[bytes]) -> list[bytes]:
        """Take out these calls, as far as they are not claimed; return which."""
        removed = [item.key for lane in self._lanes for item in lane.fresh if item.key in keys]
        for lane in self._lanes:
            lane.fresh = deque(item for item in lane.fresh if item.key not in keys)
        self._n_open -= len(removed)
        self._wake()
        return removed

    def close(self) -> None:
        """End the round when nothing is open any more."""
        self._is_extended = False
        self._wake()

    def _take_in(self) -> None:
        """Sort what came back: to be committed, or to be sent again. Raises what ends the run."""
        failure: BaseException | None = None
        for sent in self._landed:
            failure = self._land(sent) or failure
        self._landed.clear()
        if failure:
            self.grace_s = GRACE_S
            raise failure
        for lane in self._lanes:
            if lane.is_idle:
                self._done += lane.let_go()

    def _land(self, sent: Sent) -> BaseException | None:
        """Take one call in; return what ends the run, if its outcome does."""
        lane, outcome = sent.lane, sent.outcome
        lane.n_flying -= 1
        self._flying.discard(sent)
        self._is_capped = False
        if self._is_traced and outcome:
            ending = outcome.usage if isinstance(outcome, Reply) else outcome.fault
            tracing.note_call(sent.item.call, lane.backend.name, sent.latency_s, ending)
        if isinstance(outcome, Reply):
            lane.pace.answered()
            lane.asked_s = 0.0
            lane.breaker.note(None)
            lane.breaker.has_answered = True
            self._terms.budget.answered(sent.cost, sent.item.call, outcome)
            self._done.append((sent.item, sent.kept(outcome)))
            # Replies after an outage do not show that what failed before was not part of it.
            self._done += lane.let_go() if not self._is_over else []
            return None
        if outcome is None:
            self._unsent += [] if sent.is_sent else [sent]
            return sent.task.exception() if sent.task and not sent.task.cancelled() else None
        return self._fail(sent, outcome)

    def _fail(self, sent: Sent, fault: BackendFault) -> TurnedDown | Outage | None:
        lane, now = sent.lane, self._loop.time()
        detail = storable(str(fault))
        # Where it may have been paid and is not reported, its price is unknown.
        usage = fault.usage or (Usage() if POLICIES[fault.fault].may_be_paid else NOTHING)
        self._attempts.append(FailedSend(sent.call_id, fault.fault, detail, usage))
        self._terms.budget.failed(sent.cost, sent.item.call, fault.fault, fault.usage)
        sent.n_failed += 1
        if fault.fault in FATAL:
            lane.put_again(sent, now)
            return TurnedDown(f"backend '{lane.backend.name}': {detail.rstrip('.')}. Nothing that was answered is lost")
        if fault.is_overload:
            lane.pace.halve(now - sent.latency_s, now)
        elif fault.fault in REJECTIONS:
            lane.pace.rejected(now, fault.retry_after)
        else:
            lane.pace.answered()
        lane.asked_s = fault.retry_after or 0.0
        has_one_chance = sent.item.has_one_chance(fault.fault)
        wait = wait_before_next(fault.fault, sent.n_failed, fault.retry_after, sent.item.key, age_s=now - sent.first_at)
        if wait.given_up is None and not has_one_chance:
            lane.put_again(sent, now + wait.seconds)
            return None
        is_of_the_call = fault.fault in OF_THE_CALL or (
            sent.item.call.stage == "rollout" and fault.fault in _OF_AN_ATTEMPT and lane.breaker.has_answered
        )
        lane.breaker.note(None if is_of_the_call else fault.fault, has_one_chance=has_one_chance)
        text = f"{detail} ({wait.given_up})" if wait.given_up else detail
        missing = Reply(text, usage=NOTHING, fault=fault.fault, id=sent.call_id)
        (self._done if is_of_the_call else lane.held).append((sent.item, missing))
        if lane.breaker.is_open:
            self._is_over = True
            return lane.outage(text)
        return None

    async def _settle(self) -> None:
        """Commit what is done, claim what may go out, and send it. Raises CapReached when there is room for nothing."""
        taken = [(lane, *lane.take(self._loop.time())) for lane in self._lanes] if not self._is_capped else []
        again = [sent for _, due, _ in taken for sent in due]
        fresh = [(item, lane) for lane, _, items in taken for item in items]
        if not (again or fresh or self._done or self._attempts):
            return
        budget = self._terms.budget
        costs = [sent.cost for sent in again] + [budget.cost(lane.backend, item.call) for item, lane in fresh]
        work = self._settlement(len(again), [item for item, _ in fresh], costs)
        if self._flying:
            settled = await asyncio.to_thread(self._terms.calls.settle, work)
        else:  # nothing runs meanwhile: a thread would only cost
            settled = self._terms.calls.settle(work)
        self._spent = settled.spent
        done, self._done = self._done, []
        # `on_reply` may end the round: nothing of this is sent then.
        self._unsent = self._held(settled, again, fresh, costs)
        for item, reply in done:
            self._keep(item, reply)
        while self._unsent:
            self._send(self._unsent.pop(0))
        if (n_charged := settled.n_again + len(settled.claims)) < len(costs):
            self._put_back(again[settled.n_again :], fresh[len(settled.claims) :])
            if not self._flying:
                failures = self._terms.calls.failures([budget.name, self._terms.scope])
                raise budget.reached(settled.spent, costs[n_charged], failures)

    def _settlement(self, n_again: int, fresh: Sequence[Open], costs: Sequence[Cost]) -> Settlement:
        attempts, self._attempts = self._attempts, []
        terms, replies = self._terms, [reply for _, reply in self._done]
        bill = terms.budget.bill(costs, [sent.cost for sent in self._unsent])
        return Settlement(replies, attempts, n_again, fresh, terms.scope, terms.owner.name, bill)

    def _held(
        self, settled: Settled, again: list[Sent], fresh: list[tuple[Open, Lane]], costs: Sequence[Cost]
    ) -> list[Sent]:
        """Return what was claimed within the caps and is to be sent; what others hold is waited for."""
        held = again[: settled.n_again]
        for (item, lane), claim, cost in zip(fresh, settled.claims, costs[len(again) :], strict=False):
            if claim.owner == self._terms.owner.name:
                held.append(Sent(item, lane, claim.id, cost, self._loop.time()))
            else:
                self._foreign[item.key] = (item, lane, claim)
        return held

    def _put_back(self, again: Sequence[Sent], fresh: Sequence[tuple[Open, Lane]]) -> None:
        """Keep what caps left no room for: what is under way is charged at its most, so there may be room later."""
        self._is_capped = True
        for sent in again:
            sent.lane.put_again(sent, self._loop.time())
        for item, lane in reversed(fresh):
            lane.fresh.appendleft(item)

    def _keep(self, item: Open, reply: Reply) -> None:
        self._n_open -= 1
        if self._tell:
            self._tell(item.key, reply)
        else:
            self._replies[item.key] = reply
        if self._terms.on_reply:
            self._terms.on_reply(item.call, reply)

    def _send(self, sent: Sent) -> None:
        sent.lane.n_flying += 1
        sent.is_sent = False
        self._flying.add(sent)
        sent.task = self._loop.create_task(self._complete(sent))

    async def _complete(self, sent: Sent) -> None:
        """Make one attempt at a call; its outcome lands, and wakes the round."""
        sent.outcome = None
        started = self._loop.time()
        try:
            sent.outcome = await sent.asked()
        except BackendFault as fault:
            sent.outcome = fault
        except asyncio.CancelledError:
            if sent.task and sent.task.cancelling():
                raise
            sent.outcome = BackendFault("internal", "the backend cancelled its own work")
        finally:
            sent.latency_s = self._loop.time() - started
            self._landed.append(sent)
            self._wake()

    def _wake(self) -> None:
        if not self._waker.done():
            self._waker.set_result(None)

    async def _wait(self) -> None:
        """Wait until something came back, or something may go out."""
        if self._landed:
            return
        now = self._loop.time()
        due = [] if self._is_capped else [(at, lane) for lane in self._lanes if (at := lane.next_at(now)) is not None]
        if due and not self._flying:
            self._pause(now, *min(due, key=lambda each: each[0]))
        times = [at for at, _ in due] + ([now + POLL_S] if self._foreign else [])
        self._waker = self._loop.create_future()
        timer = self._loop.call_at(min(times), self._wake) if times else None
        try:
            await self._waker
        finally:
            if timer:
                timer.cancel()

    def _pause(self, now: float, until: float, lane: Lane) -> None:
        """Report a wait in which nothing is under way. Raises CapReached or Outage when it would be too long."""
        pause = Pause(lane.backend.name, until - now, lane.asked_s)
        left_s = self._terms.budget.left_s(self._spent) if self._spent else None
        if left_s is not None and pause.seconds >= left_s:
            settled = self._terms.calls.settle(self._settlement(0, [], []))
            raise self._terms.budget.too_short(settled.spent, pause)
        if pause.seconds > MAX_PAUSE_S:
            raise too_long(pause)
        if (
            self._terms.on_pause
            and min(lane.asked_s, pause.seconds) >= _MIN_REPORTED_S
            and until > self._reported_until
        ):
            self._reported_until = until
            self._terms.on_pause(pause)

    def _look_at_foreign(self) -> None:
        """Collect what other processes answered, and take over what they died with."""
        if not self._foreign:
            return
        for key, reply in self._terms.calls.get_replies(list(self._foreign)).items():
            item, _, _ = self._foreign.pop(key)
            self._keep(item, reply)
        owner = self._terms.owner
        for key, (item, lane, claim) in list(self._foreign.items()):
            if not owner.is_alive(claim.owner):
                del self._foreign[key]
                if self._terms.calls.take_over(key, claim.owner, owner.name):
                    now, cost = self._loop.time(), self._terms.budget.cost(lane.backend, item.call)
                    lane.put_again(Sent(item, lane, claim.id, cost, now), now)
                else:
                    lane.fresh.append(item)

    async def _stop(self) -> None:
        """Commit what came in; what is on its way when something went wrong gets a moment, then it is cancelled."""
        tasks = [sent.task for sent in self._flying if sent.task]
        try:
            if tasks and self.grace_s:
                await asyncio.wait(tasks, timeout=self.grace_s)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for sent in self._landed:
                self._land(sent)
            self._landed.clear()
            self._unsent += [sent for sent in self._flying if not sent.is_sent]
            if not (self._is_over or self.grace_s):
                # Who interrupts gives no attempt a second chance: what hangs is what is on its way then.
                self._done += [each for lane in self._lanes for each in lane.had_their_chance]
            idle = self._unsent + [sent for lane in self._lanes for _, _, sent in lane.again]
            unsent = [sent.call_id for sent in idle if not sent.n_failed]
            failed = [sent.call_id for sent in idle if sent.n_failed]
            failed += [missing.id for lane in self._lanes for _, missing in lane.held]
            if self._done or self._attempts or unsent or failed:
                self._terms.calls.settle(self._settlement(0, [], [])._replace(unsent=unsent, failed=failed))
