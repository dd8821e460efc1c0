"""Telling: how far a long look at a store, or a copy of it, has come."""

from __future__ import annotations

import functools
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from pydantic import Field

from skillopt_mcp.documents.text import quoted
from skillopt_mcp.errors import BadInput, BadSkill, StoreError
from skillopt_mcp.gates.recompute import ConfirmInputs, recomputed
from skillopt_mcp.live_files import move_new
from skillopt_mcp.records.candidates import Decision
from skillopt_mcp.records.evidence import Pair, Served
from skillopt_mcp.records.next_step import NextStep
from skillopt_mcp.records.results import Result
from skillopt_mcp.records.skills import Skill, short
from skillopt_mcp.skill_folders import read_skill
from skillopt_mcp.store.integrity import Integrity
from skillopt_mcp.store.locations import check_store
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.serving import Servings
from skillopt_mcp.training.confirmation import GATE

Tell = Callable[[str, int, int], None]
"""Is told what is done now, how much of it is through, and of how much: 0 where nobody knows."""


def nobody(_: str, _done: int, _total: int) -> None:
    """Tell nobody."""


SHOWN = 100
WAY_ON = "Restore the last sound backup: skillopt-mcp store restore FILE (what is there now is kept next to it)."
RESTORE = NextStep(action="store restore", why="a sound backup; what is there now is kept next to it")
TRIES = 5
_HASH = re.compile("[0-9a-f]{64}")


class Verified(Result):
    """What was found: `problems` are faults of the store, `notes` are not. `head` is the hash of the last event.

    Whoever keeps `head` elsewhere can tell later, by `holds`, that nothing before it was taken away.
    """

    store: str
    problems: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    n_events: int = 0
    n_decisions: int = 0
    head: str = ""


def verify_store(path: Path, holds: str | None = None, *, live: bool = True, tell: Tell = nobody) -> Verified:
    """Return whether a store is sound; with `holds`, whether its chain has that hash, too.

    `live` compares the skills' files with the last promotions. Raises NotFound when there is no store, StoreError when
    it cannot be opened at all, and BadInput when `holds` is no hash.
    """
    if holds and not _HASH.fullmatch(holds):
        raise BadInput(f"{quoted(holds)} is no hash of an event: give the 64 digits that verify printed")
    check_store(path)
    with Store(path) as store:
        tell("checking the file", 0, 0)
        problems = _told(store.room(Integrity).file_problems)
        if problems:  # what SQLite calls damaged is not worth a closer look
            return _verified(path, problems, ["the rows were not looked at: the file itself is damaged"])
        rows, n_decisions = _row_problems(store, tell)
        problems = [*_told(store.room(Integrity).shape_problems), *rows]
        hashes = _hashes(store)
        if holds and holds not in hashes:
            problems.append(f"the chain has no event with the hash '{holds}': what came after it was taken away")
        found = _verified(path, problems, _told(lambda: _notes(store, live=live)))
    return found.model_copy(
        update={"n_events": len(hashes), "n_decisions": n_decisions, "head": hashes[-1] if hashes else ""}
    )


def _row_problems(store: Store, tell: Tell) -> tuple[list[str], int]:
    """Return what is wrong with the rows, and how many decisions were recomputed.

    What seems wrong is looked at again when others have changed the store meanwhile, for the reads are many.
    """
    integrity = store.room(Integrity)
    for _ in range(TRIES):
        head, counted = _last_hash(store), list[str]()
        checks: tuple[tuple[str, Callable[[], Iterable[str]]], ...] = (
            ("checking the rows", integrity.row_problems),
            ("checking the chain of events", lambda: integrity.chain_problems(store.events)),
            ("recomputing the decisions", functools.partial(_decision_problems, store, counted)),
            ("checking the promotions", lambda: _promotion_problems(store)),
        )
        problems = []
        for what, check in checks:
            tell(what, 0, 0)
            problems += _told(check)
        if not problems or _last_hash(store) == head:
            break
    return list(dict.fromkeys(problems)), len(counted)


def _last_hash(store: Store) -> str:
    """Return the hash of the last event; "" where events cannot be read, as the check of their chain tells."""
    try:
        last = store.events.last()
    except StoreError:
        return ""
    return last.hash if last else ""


def _hashes(store: Store) -> list[str]:
    """Return the hashes of all events; none where they cannot be read."""
    try:
        return [event.hash for event in store.events.walk()]
    except StoreError:
        return []


def _told(check: Callable[[], Iterable[str]]) -> list[str]:
    """Return what a check finds; that it cannot be made is a finding, too."""
    found: list[str] = []
    try:
        found.extend(check())
    except StoreError as error:
        found.append(str(error))
    return found


def _verified(path: Path, problems: list[str], notes: list[str]) -> Verified:
    return Verified(store=str(path), problems=_shown(problems), notes=notes, next_step=RESTORE if problems else None)


def _shown(told: list[str]) -> list[str]:
    return [*told[:SHOWN], f"and {len(told) - SHOWN} more"] if len(told) > SHOWN else told


def _decision_problems(store: Store, counted: list[str]) -> Iterator[str]:
    after = 0
    while page := store.decisions.list_decisions(after):
        for number, decision in page:
            counted.append(decision.verdict)
            try:
                verdict = _recomputed(store, decision)
            except (BadInput, ValueError) as error:
                yield f"decision {number} ({decision.gate}) does not recompute: {str(error).splitlines()[0]}"
                continue
            if verdict != decision.verdict:
                yield (
                    f"decision {number} ({decision.gate}) says {decision.verdict}, but {verdict} follows from its "
                    "evidence"
                )
        after = page[-1][0]


def _recomputed(store: Store, decision: Decision) -> str:
    pairs: list[Pair] = []
    if decision.gate == GATE:
        inputs = ConfirmInputs.model_validate_json(decision.inputs)
        pairs = store.decisions.list_pairs(inputs.confirmation)
        if inputs.n_pairs > len(pairs):
            raise BadInput(f"it rests on {inputs.n_pairs} pairs, the store has {len(pairs)}")
        row = store.decisions.find_confirmation(inputs.confirmation)
        if row and store.room(Servings).serving(row).before(inputs.n_pairs) != (inputs.served or Served()):
            raise BadInput("other models answered in its pairs than it says")
    return recomputed(decision.gate, decision.inputs, pairs)


def _promotion_problems(store: Store) -> Iterator[str]:
    for skill in store.skills.list_skills():
        changes = store.promotions.list_promotions(skill.id)
        if changes and changes[0].to_version != skill.best_version:
            yield f"skill '{skill.name}': its best version is not the one that was promoted last"
        for change in changes:
            if change.kind != "promote" or change.verdict != "accept":
                continue
            if not store.decisions.is_accepted(skill.id, GATE, change.from_version, change.to_version):
                yield f"promotion {change.id} of '{skill.name}' rests on no accepting decision"


def _notes(store: Store, *, live: bool) -> Iterator[str]:
    for pending in store.promotions.list_pending():
        yield (
            f"promotion {pending.id} was cut short: it is finished or undone when the store is used next, once its "
            "files can be read and written"
        )
    if live:
        yield from chain.from_iterable(_live_notes(store, skill) for skill in store.skills.list_skills())


def _live_notes(store: Store, skill: Skill) -> Iterator[str]:
    changes = store.promotions.list_promotions(skill.id)
    if not changes:
        return
    try:
        found = read_skill(Path(skill.path)).digest
    except BadSkill as error:
        yield f"skill '{skill.name}' cannot be compared with its last promotion: {error}"
        return
    left = changes[0].to_version
    if found != left:
        yield (
            f"the live files of '{skill.name}' are version {short(found)}, the last {changes[0].kind} left "
            f"{short(left)}: somebody has edited them since, or the store is a backup from before a later change"
        )


def write_new(target: Path, content: bytes) -> None:
    """Write a new file, whole or not at all. Raises BadInput when it is there already or cannot be written."""
    hidden = hidden_beside(target)
    try:
        with hidden.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        appear(hidden, target)
    except OSError as error:
        raise BadInput(f"'{target}' cannot be written ({error.strerror}): check the path") from error
    finally:
        with suppress(OSError):
            hidden.unlink()


def write_over(target: Path, content: bytes) -> None:
    """Write a file, whole or not at all, in the place of one that is there. Raises BadInput when it cannot be."""
    place = Path(os.path.realpath(target))
    if not place.exists():
        write_new(place, content)
        return
    hidden = _hidden(place)
    write_new(hidden, content)
    try:
        os.replace(hidden, place)
    except OSError as error:
        raise BadInput(f"'{target}' cannot be written ({error.strerror}): check the path") from error
    finally:
        with suppress(OSError):
            hidden.unlink()


def hidden_beside(target: Path) -> Path:
    """Return where a file may be written until it appears as `target`. Raises BadInput when that is taken."""
    if os.path.lexists(target):
        raise _taken(target)
    return _hidden(target)


def appear(written: Path, target: Path) -> None:
    """Give a written file its name, and make that last. Raises BadInput when somebody has taken the name."""
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        if not move_new(folder, written.name, target.name):
            os.link(written, target)
        os.fsync(folder)
    except FileExistsError:
        raise _taken(target) from None
    finally:
        os.close(folder)


def _hidden(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}")


def _taken(target: Path) -> BadInput:
    return BadInput(f"'{target}' is there already, and is not overwritten: name another file")
