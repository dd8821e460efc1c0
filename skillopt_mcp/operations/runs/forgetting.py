"""Forgetting: whether what a proposal came to in the background still shows an attempt that was erased meanwhile."""

from __future__ import annotations

from skillopt_mcp.calls.asking import Outstanding
from skillopt_mcp.optimizer.plan import Work
from skillopt_mcp.records.calls import Question
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.opening import Store


def shows_erased(store: Store, outcome: Work | Outstanding) -> bool:
    """Return whether edits rest on an attempt that was erased, or questions to a host would show one."""
    if isinstance(outcome, Work):
        refs = {source for edit in outcome.selected.edits for source in edit.sources}
    else:
        asked = (call.request for call in outcome.calls.values())
        refs = {ref for request in asked if isinstance(request, Question) for ref in request.refs}
    numbers = [int(ref.partition(":")[2]) for ref in refs if ref.startswith("trajectory:")]
    return bool(numbers) and store.room(Erasing).any_erased(numbers)
