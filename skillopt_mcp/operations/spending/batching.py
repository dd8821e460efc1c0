"""Batching: calls are asked at once, or by their vendors' batch APIs, whichever process goes on with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.batches import batching
from skillopt_mcp.calls.asking import Asker, Outstanding, run_or_wait
from skillopt_mcp.calls.rounds import OnReply
from skillopt_mcp.calls.spending import Budget, Pause
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import BadInput, Refused
from skillopt_mcp.operations.spending.waves import Waves
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.pacing import USUAL, Pace
from skillopt_mcp.optimizer.progress import WAIT, Notify, Progress, silent
from skillopt_mcp.records.calls import Role
from skillopt_mcp.store.batches import Batch

# Each wave may take a day, and what is ahead of the deciding pair is done in vain.
BATCH_PAIRS = 40
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Way:
    """How the calls of a run or a test are asked."""

    workspace: Workspace
    budget: Budget
    notify: Notify = silent
    on_reply: OnReply | None = None
    n_slots: int | None = None

    def through(self, backends: Mapping[Role, Backend], scope: str, work: Callable[[Asker], T]) -> T | Outstanding:
        """Return what `work` comes to, with all batches waited for, or what is outstanding where a host is to answer.

        Raises Refused when calls of this scope wait at a vendor, and they are not to be asked by batch.
        """
        store = self.workspace.store
        if not any(map(batching, backends.values())):
            _nothing_waits(self.workspace, scope)
        waves = Waves(self.workspace, backends, self.budget, self.notify, self.on_reply)
        with Asker(
            store, backends, scope, n_slots=self.n_slots, on_reply=self.on_reply, budget=self.budget,
            on_pause=self._tell_pause,
        ) as ask:  # fmt: skip
            while True:
                outcome = run_or_wait(ask, store, lambda: work(ask))
                if not isinstance(outcome, Outstanding) or not waves.take(outcome):
                    return outcome
                waves.answer(outcome.calls)
                ask.left_open.clear()

    def _tell_pause(self, pause: Pause) -> None:
        self.notify(Progress(WAIT, 0, 0, 0, note=str(pause)))


def pace_of(backends: Mapping[Role, Backend]) -> Pace:
    """Return how far ahead a promotion test asks its pairs."""
    return Pace(BATCH_PAIRS) if any(map(batching, backends.values())) else USUAL


def check_batch(workspace: Workspace, backends: Mapping[Role, Backend]) -> None:
    """Raise BadInput when calls are to be asked by batch, and neither target nor judge has a batch API."""
    if workspace.batch and not any(map(batching, backends.values())):
        raise BadInput(
            f"neither the target '{backends['target'].name}' nor a judge has a batch API: leave out --by-batch, or "
            "name openai:MODEL or anthropic:MODEL"
        )


def waiting_batches(workspace: Workspace, budget: str) -> list[Batch]:
    """Return the batches of a run, or of a test that was asked for by itself, that are still at a vendor."""
    return workspace.store.batches.list_open(budget)


def waiting_for(workspace: Workspace, candidate_id: str) -> list[Batch]:
    """Return the batches at a vendor that hold calls of a candidate's promotion tests."""
    candidate = workspace.store.candidates.get_candidate(candidate_id)
    tests = workspace.store.decisions.list_tests(candidate.skill_id)
    scopes = [row.id for row in tests if row.version_id == candidate.version_id]
    found = {batch.id: batch for scope in scopes for batch in workspace.store.batches.list_waiting(scope)}
    return list(found.values())


def abandon(workspace: Workspace, backends: Mapping[Role, Backend], budget: str) -> list[Batch]:
    """Return the batches that their vendors were asked to answer no more of; what they answered already is paid."""
    batches = waiting_batches(workspace, budget)
    Waves(workspace, backends, Budget(budget), silent, None).cancel(batches)
    return batches


def told_of(batches: list[Batch]) -> str:
    """Return what is still at a vendor, in words; empty when nothing is."""
    if not batches:
        return ""
    called = ((batch.vendor_id or "one that is being sent", counted(batch.n_calls, "call")) for batch in batches)
    names = ", ".join(f"{name} ({calls})" for name, calls in called)
    return f"still at the vendor, and paid for as far as it answers: {names}"


def _nothing_waits(workspace: Workspace, scope: str) -> None:
    waiting = workspace.store.batches.list_waiting(scope)
    if waiting:
        raise Refused(f"{told_of(waiting)}: go on with --by-batch, so that nothing is paid twice")
