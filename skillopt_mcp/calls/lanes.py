"""Lanes: the calls of one round that one backend is to answer: not sent yet, on their way, or to be sent again."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from skillopt_mcp.backends.base import FATAL, Backend, BackendFault, slots_of
from skillopt_mcp.calls.pacing import Breaker, Pace
from skillopt_mcp.calls.retrying import ONE_CHANCE
from skillopt_mcp.errors import Outage
from skillopt_mcp.records.budgets import Cost
from skillopt_mcp.records.calls import Call, Fault, Reply, Usage, served_name, storable, storable_messages

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
    """A call that this process holds: what it is charged, how often it failed, and what came of it, once it is sent."""

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
        """Forget what a round that was cut short left behind."""
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
            f"backend '{self.backend.name}': {self.breaker}, the last one so: {text}. Nothing that was answered is "
            "lost: mend that, and go on where it stopped"
        )

    def put_again(self, sent: Sent, at: float) -> None:
        """Keep a call to be sent again at a time of the loop's clock."""
        heappush(self.again, (at, sent.call_id, sent))

    @property
    def had_their_chance(self) -> list[tuple[Open, Reply]]:
        """Return what is held back and is begun anew by no interruption."""
        return [(item, missing) for item, missing in self.held if item.has_one_chance(missing.fault)]

    def let_go(self) -> list[tuple[Open, Reply]]:
        """Return the calls that were held back as missing; they are no longer the lane's."""
        held, self.held = self.held, []
        return held

    def take(self, now: float) -> tuple[list[Sent], list[Open]]:
        """Return what may go out now, the calls that are due again first; it is no longer the lane's."""
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


def open_lane(backend: Backend, n_slots: int | None) -> Lane:
    """Return the lane of a backend, as wide as is said, or as the backend itself says."""
    return Lane(backend, Pace(n_slots or slots_of(backend)))
