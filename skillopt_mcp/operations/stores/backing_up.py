"""Backing up: the whole store as one file that was checked, and put back in its place."""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from skillopt_mcp.calls.owners import held_locks
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import BadInput, Busy, Refused, SkillOptError
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.skills.moving_folders import missing_folders
from skillopt_mcp.operations.stores.appearing import appear, hidden_beside
from skillopt_mcp.operations.stores.verifying import Verified, verify_store
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.store import driver
from skillopt_mcp.store.copying import copy_store, prepare_store, remove_store, replace_store
from skillopt_mcp.store.opening import Store


class BackedUp(Result):
    """A backup that was made and checked; `head` is the hash of the last event in it."""

    store: str
    file: str
    n_bytes: int
    n_events: int
    head: str


class Backup(Result):
    """What a backup would bring back; `permits` are the standing permissions, commands and skill roots in it.

    `skills` are the names, with the path where two share one; `skill_paths` are their paths, in the same order.
    `missing` names the folders of its skills that are not on this machine.
    """

    file: str
    skills: list[str]
    skill_paths: list[str]
    missing: list[str]
    permits: list[str]
    n_events: int
    last_event_at: str


class Restored(Backup):
    """A store that a backup was put in the place of; `kept` is where the one before is, empty when there was none."""

    store: str
    kept: str


def back_up(store_path: Path, file: Path) -> BackedUp:
    """Write the store to a new file while it is in use, and check the copy; the file appears whole or not at all.

    Raises BadInput when the file is there or cannot be made, Refused when the copy is not sound.
    """
    target = Path(os.path.abspath(file))
    hidden = hidden_beside(target)
    try:
        with _checked_copy(store_path, hidden) as (copy, found):
            n_bytes = copy.stat().st_size
            appear(copy, target)
    except SkillOptError as error:
        # What was written beside the file is gone, and nobody gave it that name.
        raise type(error)(str(error).replace(str(hidden), str(target))) from error
    return BackedUp(
        store=str(store_path), file=str(target), n_bytes=n_bytes, n_events=found.n_events, head=found.head,
        next_step=f"It is sound. To put it back: skillopt-mcp restore {target}",
    )  # fmt: skip


def review_backup(store_path: Path, file: Path) -> Backup:
    """Return what a backup holds, once it is checked. Raises Refused when it is not sound, NewerStore, StoreError."""
    with _checked_copy(file, _beside(store_path)) as (copy, found):
        return _described(copy, file, found)


def restore_store(store_path: Path, file: Path) -> Restored:
    """Put a checked backup in the place of the store, which stays beside it under a dated name.

    Raises Busy when another process has the store open or holds one of its locks, and as `review_backup` does; nothing
    was changed then.
    """
    if store_path.exists() and file.exists() and os.path.samefile(store_path, file):
        raise BadInput(f"'{file}' is the store itself: name a backup")
    with _checked_copy(file, _beside(store_path)) as (copy, found):
        described = _described(copy, file, found)
        held = held_locks(store_path.with_name(f"{store_path.name}.locks"))
        if held:
            raise Busy(
                f"another process works on the store '{store_path}' (it holds '{held[0]}'): let it end, then restore "
                "again; nothing was changed"
            )
        prepare_store(copy)
        kept = _dated(store_path) if store_path.exists() else None
        replace_store(store_path, copy, kept or store_path)
    told = f" What was there is kept as {kept}." if kept else ""
    step = described.next_step or "Compare the live files with it: skillopt-mcp verify"
    return Restored(
        **described.model_dump(exclude={"next_step"}),
        store=str(store_path),
        kept=str(kept or ""),
        next_step=f"It is in place.{told} {step}",
    )


@contextmanager
def _checked_copy(source: Path, copy: Path) -> Iterator[tuple[Path, Verified]]:
    """Lend a sound copy of a store, brought to this release's schema. Raises Refused when the source is not sound."""
    driver.refuse_network_file_system(copy)
    copy_store(source, copy)
    try:
        found = verify_store(copy, live=False)
        if found.problems:
            raise Refused(
                f"'{source}' is not sound, so it was not used ({counted(len(found.problems), 'problem')}, the first: "
                f"{found.problems[0]}): use another backup"
            )
        yield copy, found
    finally:
        remove_store(copy)


def _beside(store_path: Path) -> Path:
    """Return where a copy lies that may take the place of the store."""
    store_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return store_path.with_name(f".{store_path.name}.{secrets.token_hex(4)}")


def _described(copy: Path, file: Path, found: Verified) -> Backup:
    with Store(copy) as store:
        skills = store.skills.list_skills()
        named = _named(skills)
        permits = [f"skill root {root}" for root in store.skills.list_roots()]
        permits += [
            f"promotions of {named[each.id]} without asking" for each in skills if _is_permitted(store, each.id)
        ]
        permits += [f"the command {command.name} as a judge" for command in store.commands.list_commands()]
        last = store.events.last()
        hidden = store.skills.list_forgotten()
        missing, move = missing_folders([each for each in skills if each.id not in hidden])
    return Backup(
        file=str(file),
        skills=list(named.values()),
        skill_paths=[each.path for each in skills],
        missing=missing,
        permits=permits,
        n_events=found.n_events,
        last_event_at=last.told.at if last else "",
        next_step=f"Where the missing folders are elsewhere on this machine: {move}" if move else "",
    )


def _named(skills: Sequence[Skill]) -> dict[int, str]:
    """Return what each skill is called by its id: its name, and its path as well where another has that name, too."""
    n_of = Counter(skill.name for skill in skills)
    return {each.id: f"{each.name} ('{each.path}')" if n_of[each.name] > 1 else each.name for each in skills}


def _is_permitted(store: Store, skill_id: int) -> bool:
    return store.skills.get_permission(skill_id) is not None


def _dated(store_path: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    names = [f"{store_path.name}.replaced-{stamp}{end}" for end in ("", *(f"-{n}" for n in range(2, 100)))]
    return next(path for name in names if not (path := store_path.with_name(name)).exists())
