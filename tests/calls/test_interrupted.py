"""Interrupted: what a Ctrl-C leaves of the calls that had failed before it came."""

from __future__ import annotations

import asyncio
import signal

import pytest
from asked import prompt, rollouts

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.calls.asking import Asker
from skillopt_mcp.records.calls import Call, Fault, Reply
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
        raise AssertionError("nobody waits for this")


@pytest.mark.parametrize(("fault", "is_kept"), [("timeout", True), ("malformed", True), ("server", False)])
def test_an_attempt_that_had_its_chance_is_missing_though_a_ctrl_c_came_next(
    fault: Fault, is_kept: bool, store: Store
) -> None:
    calls = rollouts(2)
    with Asker(store, {"target": Interrupted(fault)}, "r-1", n_slots=2) as ask, pytest.raises(KeyboardInterrupt):
        ask(calls)
    kept = store.calls.get_replies([call.key("interrupted") for call in calls])
    assert [reply.fault for reply in kept.values()] == ([fault] if is_kept else [])
