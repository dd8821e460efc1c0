"""Recalling: how a candidate comes back that a person rolled back: no test and no tool brings it, only a person."""

from __future__ import annotations

from typing import NamedTuple

from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.documents.hunks import edits_between
from skillopt_mcp.operations.finding import called
from skillopt_mcp.records.candidates import Candidate, rolled_back
from skillopt_mcp.records.edits import Edit, Patch
from skillopt_mcp.records.skills import SkillFiles, short
from skillopt_mcp.store.opening import Store


def told_rolled_back(store: Store, candidate: Candidate) -> str:
    """Return that a person rolled a candidate back, and how a person has it again; "" for any other candidate."""
    if candidate.version_id not in rolled_back(store.promotions.list_promotions(candidate.skill_id)):
        return ""
    named = f"{called(store, store.skills.get_skill(candidate.skill_id))} {short(candidate.version_id)}"
    return f"It was live, and a person rolled it back. To have it back, a person runs: skillopt-mcp rollback {named}"


def told_repeated(store: Store, candidate: Candidate) -> str:
    """Return that a candidate makes an edit again, on whatever it is based, that a person rolled back; else ""."""
    earlier = repeated(store, candidate)
    return f"it makes an edit of {earlier} again, which a person rolled back" if earlier else ""


def repeated(store: Store, candidate: Candidate) -> str:
    """Return the id of a candidate that a person rolled back, and that this one makes an edit of again; else ""."""
    changes = store.promotions.list_promotions(candidate.skill_id)
    undone = rolled_back(changes)
    if not undone or candidate.version_id in undone:
        return ""
    edits, differing = _said(store, candidate), _differing(*_files(store, candidate))
    for change in changes:
        if change.kind != "promote" or change.to_version not in undone or change.candidate_id is None:
            continue
        earlier = store.candidates.get_candidate(change.candidate_id)
        if not edits.isdisjoint(_said(store, earlier)) or any(map(differing.holds, _told_lines(store, earlier))):
            return earlier.id
    return ""


def edits_of(store: Store, candidate: Candidate) -> tuple[Edit, ...]:
    """Return the edits of a candidate: those it was made by, or where they are not all of it, what differs."""
    base, after = _files(store, candidate)
    edits = _applied(store, candidate)
    if edits and apply_patch(base, Patch(edits)).files == after:
        return edits
    return edits_between(base, after)


class _Lines(NamedTuple):
    """The lines that a change brings into a skill, and those that it takes out, wherever they stand."""

    added: frozenset[str]
    removed: frozenset[str]

    def holds(self, edit: _Lines) -> bool:
        """Return whether all that an edit brings is brought here, too; of one that brings nothing, all it takes."""
        return edit.added <= self.added if edit.added else bool(edit.removed) and edit.removed <= self.removed


def _told_lines(store: Store, candidate: Candidate) -> list[_Lines]:
    """Return what each edit of a candidate brings and takes; what it only moves is neither."""
    whole = _differing(*_files(store, candidate))
    edits = (_between(edit.target or "", edit.content or "") for edit in _all_edits(store, candidate))
    return [_Lines(edit.added & whole.added, edit.removed & whole.removed) for edit in edits]


def _differing(before: SkillFiles, after: SkillFiles) -> _Lines:
    return _between(
        *("\n".join(each.content.decode("utf-8", "replace") for each in files.files) for files in (before, after))
    )


def _between(before: str, after: str) -> _Lines:
    old, new = _lines(before), _lines(after)
    return _Lines(new - old, old - new)


def _lines(text: str) -> frozenset[str]:
    """Return the lines that say something: neither white space, nor marks alone, nor a heading."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return frozenset(line for line in lines if not line.startswith("#") and any(map(str.isalnum, line)))


def _said(store: Store, candidate: Candidate) -> set[tuple[str, str, str | None, str | None]]:
    """Return the edits of a candidate, as they were given and as they can be seen, wherever they come from."""
    return {(edit.op, edit.path, edit.target, edit.content) for edit in _all_edits(store, candidate)}


def _all_edits(store: Store, candidate: Candidate) -> tuple[Edit, ...]:
    return (*_applied(store, candidate), *edits_between(*_files(store, candidate)))


def _applied(store: Store, candidate: Candidate) -> tuple[Edit, ...]:
    return tuple(edit for edit, report in store.candidates.list_edits(candidate.id) if report.status == "applied")


def _files(store: Store, candidate: Candidate) -> tuple[SkillFiles, SkillFiles]:
    files = store.skills.get_files
    return files(candidate.skill_id, candidate.base_version), files(candidate.skill_id, candidate.version_id)
