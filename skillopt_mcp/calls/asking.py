"""Asking: every question to a model goes through here; it is asked once, answered once, and kept.

The slots are few and hold one call each from its claim to the commit of its reply, so a kill at any moment costs at
most as many repeated sends as there are slots.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from typing import Self

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.calls.lanes import Lane, Open, open_lane
from skillopt_mcp.calls.owners import Owner
from skillopt_mcp.calls.rounds import OnReply, Round, Terms
from skillopt_mcp.calls.spending import Budget
from skillopt_mcp.errors import BackendError, BadInput
from skillopt_mcp.records.calls import Call, Reply, Role
from skillopt_mcp.store.opening import Store

MAX_SLOTS = 1000


class Asker:
    """The `Ask` of one scope (a run or a promotion test): use it as a context manager, call it with calls.

    `n_slots` calls at once go to each backend, or as many as it takes by itself; `budget` is the scope's own unless
    another is given.
    """

    def __init__(
        self,
        store: Store,
        backends: Mapping[Role, Backend],
        scope: str,
        *,
        n_slots: int | None = None,
        on_reply: OnReply | None = None,
        budget: Budget | None = None,
    ) -> None:
        if n_slots is not None and not 1 <= n_slots <= MAX_SLOTS:
            raise BadInput(f"{n_slots} slots cannot be used: name from 1 to {MAX_SLOTS}")
        self._calls, self._backends, self._n_slots = store.calls, backends, n_slots
        self._lanes: dict[Role, Lane] = {}
        self._runner = asyncio.Runner()
        self._owner = Owner(store.locks_path)
        self._terms = Terms(store.calls, scope, self._owner, budget or Budget(scope), on_reply)

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
        lanes = {role: self._lane(role) for role in {call.role for call in calls}}
        fingerprints = {role: lane.backend.fingerprint for role, lane in lanes.items()}
        keys = [call.key(fingerprints[call.role]) for call in calls]
        replies = self._calls.get_replies(keys)
        open_calls = {key: call for key, call in zip(keys, calls, strict=True) if key not in replies}
        if open_calls:
            for lane in lanes.values():
                lane.begin()
            for key, call in open_calls.items():
                lanes[call.role].fresh.append(Open(key, call))
            replies |= self._runner.run(self._ask(list(lanes.values())), context=copy_context())
        return [replies[key] for key in keys]

    async def _ask(self, lanes: Sequence[Lane]) -> dict[bytes, Reply]:
        return await Round(self._terms, lanes).replies()

    def _lane(self, role: Role) -> Lane:
        backend = self._backends.get(role)
        if backend is None:
            raise BackendError(
                f"no backend is set for the role '{role}': start with --{role} BACKEND:MODEL, "
                "for instance 'simulated:honest'"
            )
        return self._lanes.setdefault(role, open_lane(backend, self._n_slots))
