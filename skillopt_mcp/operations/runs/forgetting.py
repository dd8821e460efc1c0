"""Forgetting: what a proposal came to in the background shows no attempt that was erased meanwhile."""

from __future__ import annotations

from typing import NamedTuple

from skillopt_mcp.calls.asking import Outstanding
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.plan import Work
from skillopt_mcp.records.calls import Question
from skillopt_mcp.records.runs import Run
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.opening import Store


class Outcome(NamedTuple):
    """What a proposal came to, and which of its attempts were erased before it read them."""

    value: Work | Outstanding
    erased: frozenset[int]


def erased_of(store: Store, run: Run) -> frozenset[int]:
    """Return those of a run's attempts that were erased."""
    return store.room(Erasing).erased_of(run.sessions)


def take_back(workspace: Workspace, outcome: Outstanding) -> bool:
    """Take back what was handed out of the questions that show an erased attempt; return whether there are such."""
    erasing = workspace.store.room(Erasing)
    requests = {call_id: call.request for call_id, call in outcome.calls.items()}
    asked = {call_id: set(request.refs) for call_id, request in requests.items() if isinstance(request, Question)}
    numbers = [int(ref.partition(":")[2]) for refs in asked.values() for ref in refs if ref.startswith("trajectory:")]
    gone = {f"trajectory:{each}" for each in erasing.erased_of(numbers)}
    showing = [call_id for call_id, refs in asked.items() if refs & gone]
    _, leases = erasing.clear_calls(showing)
    workspace.workplaces.remove(leases)
    return bool(showing)
