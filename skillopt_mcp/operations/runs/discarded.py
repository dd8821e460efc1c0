"""Discarded: the edits of earlier candidates that came to nothing, as the optimizer of a proposal is told of them."""

from __future__ import annotations

from skillopt_mcp.operations.candidates.recalling import edits_of
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.optimizer.memory import MOST_REJECTED
from skillopt_mcp.records.candidates import rolled_back
from skillopt_mcp.records.runs import DiscardedEdit, Run
from skillopt_mcp.store.discarding import Discarding, Standing
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.opening import Store


def discarded_before(store: Store, run: Run) -> tuple[DiscardedEdit, ...]:
    """Return the edits that a promotion test had rejected or a person had rolled back when a run began, newest first.

    They are those of this skill, each once, at most as many as a run's own that were rejected; none of a candidate
    that was made from an attempt erased since, and none that its base version holds.
    """
    room = store.room(Discarding)
    begun_at = room.begun_at(run.id)
    changes = [each for each in store.promotions.list_promotions(run.skill_id) if each.created_at < begun_at]
    undone = rolled_back(changes)
    erasing = store.room(Erasing)
    erased = set(erasing.list_made_of(erasing.list_erased()))
    text = store.skills.get_files(run.skill_id, run.base_version).text
    found: dict[tuple[str, str, str | None, str | None], DiscardedEdit] = {}
    for standing in room.list_standing(run.id, GATE):
        became = _became(standing, undone)
        if not became or standing.candidate_id in erased or len(found) >= MOST_REJECTED:
            continue
        edits = edits_of(store, store.candidates.get_candidate(standing.candidate_id))
        for edit in edits:
            if not edit.content or edit.content.strip() not in text:
                told = DiscardedEdit(edit, became, len(edits) - 1)
                found.setdefault((edit.op, edit.path, edit.target, edit.content), told)
    return tuple(found.values())[:MOST_REJECTED]


def _became(standing: Standing, undone: frozenset[str]) -> str:
    """Return what had become of a candidate that came to nothing; empty for any other."""
    if standing.version_id in undone:
        return "promoted, then rolled back by a person"
    return "rejected by its promotion test" if standing.verdict == "reject" else ""
