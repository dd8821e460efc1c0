"""Verify: whether a store is sound, and its verdicts follow from their evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from pydantic import Field

from skillopt_mcp.core.candidates import GATE
from skillopt_mcp.core.errors import BadInput, BadSkill, StoreError
from skillopt_mcp.core.evidence import ACCEPTED
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.notes import Note
from skillopt_mcp.core.results import Result
from skillopt_mcp.core.text import quoted
from skillopt_mcp.gates.promotion import Reading
from skillopt_mcp.gates.recompute import recomputed
from skillopt_mcp.store.files import Mark, check_store, read_mark
from skillopt_mcp.store.integrity import Damage, Integrity
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.promotion_test import decision_of
from skillopt_mcp.workspace.skill_folders import read_skill

Advance = Callable[[str, int, int], None]
"""Called with what is done now, how much of it is done, and of how much: 0 where that is unknown."""
RESTORE = NextStep(action="store restore", why="a sound backup; what is there now is kept next to it")
COVERED = (
    "SQLite's pages, indexes and references", "the number of commits", "versions, their files, and tasks",
    "decisions, promotions, consents, and the findings of candidates", "the scores that promotion tests rest on",
)  # fmt: skip
UNCOVERED = (
    "the text of replies and of recorded attempts", "trials outside of promotion tests", "reasons and edits",
    "charges, settings and notes of runs",
)  # fmt: skip
MAX_SHOWN = 100
TRIES = 5
_HASH = re.compile("[0-9a-f]{64}")


def silent(_what: str, _n_done: int, _n_total: int) -> None:
    """Show no progress."""


class Verified(Result):
    """What was found: the first of `n_problems`, and notes, which are no faults. `head` is the hash of the last event.

    A `head` that is kept elsewhere proves later, by `holds`, that nothing before it was removed. A changed bit in what
    is `not_covered` is not noticed.
    """

    store: str
    problems: list[Damage] = Field(default_factory=list)
    n_problems: int = 0
    notes: list[Note] = Field(default_factory=list)
    n_events: int = 0
    n_decisions: int = 0
    head: str = ""
    covered: tuple[str, ...] = COVERED
    not_covered: tuple[str, ...] = UNCOVERED


def verify_store(
    path: Path, holds: str | None = None, *, live: bool = True, advance: Advance = silent, mark: Mark | None = None
) -> Verified:
    """Whether a store is sound; with `holds`, whether its chain has that hash, too.

    `live` compares the skills' files with the last promotions; of a copy, `mark` is that of its source. Raises NotFound
    when there is no store, StoreError when it cannot be opened at all, and BadInput when `holds` is not a hash.
    """
    if holds and not _HASH.fullmatch(holds):
        raise BadInput(f"{quoted(holds)} is not a hash of an event: give the 64 digits that verify printed")
    check_store(path)
    mark = mark or read_mark(path)  # before the store, which may be ahead of it
    with Store(path) as store:
        integrity = store.table(Integrity)
        advance("checking the file", 0, 0)
        if problems := _list_damage(integrity.check_file):
            return _describe(path, problems, [Note(code="rows_unchecked")])
        problems, n_decisions = _check_rows(store, integrity, advance)
        problems += [*_list_damage(integrity.check_schema), *_list_damage(partial(integrity.check_mark, mark))]
        hashes = _hashes(store)
        if holds and holds not in hashes:
            problems.append(Damage(code="head", where=holds))
        verified = _describe(path, problems, list(_notes(store, live=live)))
    return verified.model_copy(
        update={"n_events": len(hashes), "n_decisions": n_decisions, "head": hashes[-1] if hashes else ""}
    )


def _describe(path: Path, problems: list[Damage], notes: list[Note]) -> Verified:
    return Verified(
        store=str(path),
        problems=problems[:MAX_SHOWN],
        n_problems=len(problems),
        notes=notes,
        next_step=RESTORE if problems else None,
    )


def _check_rows(store: Store, integrity: Integrity, advance: Advance) -> tuple[list[Damage], int]:
    """What is wrong with the rows, and how many decisions were recomputed.

    The reads are many: what seems wrong is checked again when others have changed the store meanwhile.
    """
    problems, verdicts = list[Damage](), list[str]()
    for _ in range(TRIES):
        head, verdicts = _hashes(store)[-1:], []
        checks: tuple[tuple[str, Callable[[], Iterable[Damage]]], ...] = (
            ("checking the rows", integrity.check_digests),
            ("checking the chain of events", partial(integrity.check_chain, store.events)),
            ("recomputing the decisions", partial(_check_decisions, store, verdicts)),
            ("checking the promotions", partial(_check_promotions, store)),
        )
        problems = []
        for what, check in checks:
            advance(what, 0, 0)
            problems += _list_damage(check)
        if not problems or _hashes(store)[-1:] == head:
            break
    return list(dict.fromkeys(problems)), len(verdicts)


def _hashes(store: Store) -> list[str]:
    """Return the hashes of all events; none where they cannot be read, which the check of the chain reports."""
    try:
        return [event.hash for event in store.events.walk()]
    except StoreError:
        return []


def _list_damage(check: Callable[[], Iterable[Damage]]) -> list[Damage]:
    """What a check finds; that it cannot be made is damage, too."""
    found: list[Damage] = []
    try:
        found.extend(check())
    except StoreError as error:
        found.append(Damage(code="unreadable", detail=str(error)))
    return found


def _check_decisions(store: Store, verdicts: list[str]) -> Iterator[Damage]:
    for number, decision in store.decisions.walk():
        verdicts.append(decision.verdict)
        verdict, detail = decision.verdict, ""
        try:
            if decision.gate != GATE:
                verdict = recomputed(decision.gate, decision.inputs)
            elif row := store.tests.find(decision.scope):
                again = decision_of(row, Reading(row.plan, store.tests.list_attempts(row.id)))
                verdict = again.verdict
                if again.inputs != decision.inputs:
                    detail = "the attempts of its test are not those that it was taken on"
                elif store.tests.count_strayed(row):
                    detail = "an attempt of its test has another score than its trial"
            else:
                detail = "its promotion test is not there"
        except (BadInput, ValueError) as error:
            detail = str(error).splitlines()[0]
        if verdict != decision.verdict and not detail:
            detail = f"it is {decision.verdict}, but {verdict} follows from its evidence"
        if detail:
            yield Damage(code="decision", where=f"{number} ({decision.gate})", detail=detail)


def _check_promotions(store: Store) -> Iterator[Damage]:
    for skill in store.skills.list_skills():
        changes = store.promotions.list_promotions(skill.id)
        if changes and changes[0].to_version != skill.best_version:
            yield Damage(code="best_version", where=f"'{skill.name}'")
        for change in changes:
            if change.kind != "promote" or change.verdict not in ACCEPTED:
                continue
            if not store.decisions.is_accepted(skill.id, GATE, change.from_version, change.to_version):
                yield Damage(code="promotion", where=f"{change.id} of '{skill.name}'")


def _notes(store: Store, *, live: bool) -> Iterator[Note]:
    try:
        if pending := store.promotions.list_pending():
            yield Note(code="promotion_unfinished", ids=[str(each.id) for each in pending])
        if not live:
            return
        left = {
            skill: changes[0].to_version
            for skill in store.skills.list_skills()
            if (changes := store.promotions.list_promotions(skill.id))
        }
    except StoreError:  # reported by the checks
        return
    unreadable, changed = list[str](), list[str]()
    for skill, version in left.items():
        try:
            is_changed = read_skill(Path(skill.path)).digest != version
        except BadSkill:
            unreadable.append(skill.name)
        else:
            changed += [skill.name] if is_changed else []
    if unreadable:
        yield Note(code="live_unreadable", ids=unreadable)
    if changed:
        yield Note(code="live_changed", ids=changed)
