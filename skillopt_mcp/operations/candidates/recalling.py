"""Recalling: how a candidate comes back that a person rolled back: no test and no tool brings it, only a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.documents.hunks import edits_between
from skillopt_mcp.operations.candidates.repeating import Change, Past, Repeat, first_repeat, past_of
from skillopt_mcp.operations.finding import called
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.candidates import Candidate, rolled_back
from skillopt_mcp.records.edits import Edit, Patch
from skillopt_mcp.records.skills import SkillFiles, short
from skillopt_mcp.store.discarding import Discarding
from skillopt_mcp.store.opening import Store

LOOKED_AT, LOOKED_BACK = 8, 100


def told_rolled_back(store: Store, candidate: Candidate) -> str:
    """Return that a person rolled a candidate back, and how a person has it again; "" for any other candidate."""
    if candidate.version_id not in rolled_back(store.promotions.list_promotions(candidate.skill_id)):
        return ""
    named = f"{called(store, store.skills.get_skill(candidate.skill_id))} {short(candidate.version_id)}"
    return f"It was live, and a person rolled it back. To have it back, a person runs: skillopt-mcp rollback {named}"


def told_repeated(store: Store, candidate: Candidate) -> str:
    """Return that a candidate makes an edit again, on whatever it is based, that a person rolled back; else ""."""
    again = repeated(store, candidate)
    return _told_rolled_back(again) if again else ""


def repeated(store: Store, candidate: Candidate) -> Repeat | None:
    """Return which edit that a person rolled back a candidate makes again, on whatever it is based; None: none."""
    if candidate.version_id in rolled_back(store.promotions.list_promotions(candidate.skill_id)):
        return None
    return _repeat(store, candidate, _rolled_back(store, candidate.skill_id))


def told_rejected(store: Store, candidate: Candidate) -> str:
    """Return that a candidate makes an edit again that a promotion test with a real model rejected; else ""."""
    ids = store.room(Discarding).list_rejected(candidate.skill_id, GATE, LOOKED_BACK)
    again = _repeat(store, candidate, _past(store, (id for id in ids if id != candidate.id)))
    return f"it {again.told}, which its promotion test rejected" if again else ""


def told_repeats(store: Store, candidates: Sequence[Candidate]) -> dict[str, str]:
    """Return what `told_repeated` tells of a skill's newest few candidates, the newest last, by their ids."""
    past = _rolled_back(store, candidates[0].skill_id) if candidates else []
    found = {each.id: _repeat(store, each, past) for each in candidates[-LOOKED_AT:]}
    return {id: _told_rolled_back(again) for id, again in found.items() if again}


def edits_of(store: Store, candidate: Candidate) -> tuple[Edit, ...]:
    """Return the edits of a candidate: those it was made by, or where they are not all of it, what differs."""
    base, after = _files(store, candidate)
    edits = _applied(store, candidate)
    if edits and apply_patch(base, Patch(edits)).files == after:
        return edits
    return edits_between(base, after)


def _told_rolled_back(again: Repeat) -> str:
    return f"it {again.told}, which a person rolled back"


def _rolled_back(store: Store, skill_id: int) -> list[Past]:
    """Return what people rolled back of a skill and nobody has put back since, the newest first."""
    changes = store.promotions.list_promotions(skill_id)
    undone = rolled_back(changes)
    made = (each.candidate_id for each in changes if each.kind == "promote" and each.to_version in undone)
    return _past(store, filter(None, made))


def _past(store: Store, ids: Iterable[str]) -> list[Past]:
    return [past_of(_change(store, store.candidates.get_candidate(id))) for id in dict.fromkeys(ids)]


def _repeat(store: Store, candidate: Candidate, past: Sequence[Past]) -> Repeat | None:
    return first_repeat(_change(store, candidate), past) if past else None


def _change(store: Store, candidate: Candidate) -> Change:
    files = _files(store, candidate)
    edits = (*_applied(store, candidate), *edits_between(*files))
    return Change(candidate.id, edits, *files)


def _applied(store: Store, candidate: Candidate) -> tuple[Edit, ...]:
    return tuple(edit for edit, report in store.candidates.list_edits(candidate.id) if report.status == "applied")


def _files(store: Store, candidate: Candidate) -> tuple[SkillFiles, SkillFiles]:
    files = store.skills.get_files
    return files(candidate.skill_id, candidate.base_version), files(candidate.skill_id, candidate.version_id)
