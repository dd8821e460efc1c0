"""Returning: how many attempts that a person has erased a backup would bring back."""

from __future__ import annotations

import os
import secrets
import shlex
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pydantic import JsonValue

from skillopt_mcp.calls.owners import held_locks
from skillopt_mcp.documents.text import counted
from skillopt_mcp.errors import BadInput, Busy, NotFound, Refused, SkillOptError, UnsafeStore
from skillopt_mcp.maintenance.verify import RESTORE, WAY_ON, Tell, Verified, appear, hidden_beside, nobody, verify_store
from skillopt_mcp.records.next_step import NextStep
from skillopt_mcp.records.results import Result
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.skill_folders import is_gone
from skillopt_mcp.store import driver
from skillopt_mcp.store.copying import (
    copy_store,
    prepare_store,
    read_attempts,
    read_erased,
    read_tests,
    remove_store,
    replace_store,
)
from skillopt_mcp.store.opening import Store


def n_returning(store_path: Path, backup: Path) -> int:
    """Return how many attempts that are erased in a store a backup has in full; 0 where the store cannot be read."""
    if not store_path.exists():
        return 0
    try:
        erased = read_erased(store_path)
        return len(erased & read_attempts(backup)) if erased else 0
    except SkillOptError:
        return 0


def lost_tests(store_path: Path, backup: Path) -> tuple[str, ...]:
    """Return by skill what a store has of promotion tests that a backup has not; nothing of one that cannot be read."""
    if not store_path.exists():
        return ()
    try:
        tests, known = read_tests(store_path), {test for test, _, _ in read_tests(backup)}
    except SkillOptError:
        return ()
    lost: dict[str, list[float]] = defaultdict(list)
    for test, skill, alpha in tests:
        if test not in known:
            lost[skill].append(alpha)
    return tuple(
        f"{counted(len(of), 'promotion test')} of {skill}, which took {sum(of):.3f} of its error rate"
        for skill, of in lost.items()
    )


_MAGIC = b"SQLite format 3\0"


class BackedUp(Result):
    """A backup that was made and checked; `head` is the hash of the last event in it, `problems` what is wrong with it.

    There are none but where a backup was asked for whatever is wrong.
    """

    store: str
    file: str
    n_bytes: int
    n_events: int
    head: str
    problems: list[str]


class Backup(Result):
    """What a backup would bring back; `permits` are the standing permissions, commands and skill roots in it.

    `skills` are the names, with the path where two share one; `skill_paths` are their paths, in the same order.
    `missing` names the folders of its skills that are not on this machine, `lost_tests` the promotion tests that the
    store has and the backup has not. `n_returning` attempts that were erased since come back with it.
    """

    file: str
    skills: list[str]
    skill_paths: list[str]
    missing: list[str]
    permits: list[str]
    lost_tests: tuple[str, ...] = ()
    n_returning: int = 0
    n_events: int
    last_event_at: str
    problems: list[str]


class Restored(Backup):
    """A store that a backup was put in the place of; `kept` is where the one before is, empty when there was none."""

    store: str
    kept: str


def back_up(store_path: Path, file: Path, *, unsound: bool = False, tell: Tell = nobody) -> BackedUp:
    """Write the store to a new file while it is in use, and check the copy; the file appears whole or not at all.

    Raises BadInput when the file is there or cannot be made, Refused when the copy
    is not sound, unless `unsound` says that it is wanted as it is.
    """
    target = Path(os.path.abspath(file))
    hidden = hidden_beside(target)
    again = shlex.join(["skillopt-mcp", "store", "backup", "--unsound", str(file)])
    with _checked_copy(store_path, hidden, target, tell) as found:
        if found.problems and not unsound:
            raise _refused(store_path, found, f"{WAY_ON} A backup of it as it is, all the same: {again}")
        n_bytes = hidden.stat().st_size
        appear(hidden, target)
    arguments: dict[str, JsonValue] = {"file": str(target), "unsound": bool(found.problems)}
    put_back = NextStep(action="store restore", arguments=arguments, why=f"puts it back; {_soundness(found.problems)}")
    return BackedUp(
        store=str(store_path), file=str(target), n_bytes=n_bytes, n_events=found.n_events, head=found.head,
        problems=found.problems, next_step=put_back,
    )  # fmt: skip


def review_backup(store_path: Path, file: Path, *, unsound: bool = False, tell: Tell = nobody) -> Backup:
    """Return what a backup holds, once it is checked.

    Raises Refused when it is not sound, unless `unsound` says that it is wanted; StoreError.
    """
    with _restorable(store_path, file, tell, unsound=unsound) as (copy, found):
        return _described(copy, file, found).model_copy(update=_undone(store_path, copy))


def restore_store(store_path: Path, file: Path, *, unsound: bool = False, tell: Tell = nobody) -> Restored:
    """Put a checked backup in the place of the store, which stays beside it under a dated name.

    Raises Busy when another process has the store open or holds one of its locks, and as `review_backup` does; nothing
    was changed then.
    """
    if store_path.exists() and file.exists() and os.path.samefile(store_path, file):
        raise BadInput(f"'{file}' is the store itself: name a backup")
    with _restorable(store_path, file, tell, unsound=unsound) as (copy, found):
        described = _described(copy, file, found).model_copy(update=_undone(store_path, copy))
        held = held_locks(store_path.with_name(f"{store_path.name}.locks"))
        if held:
            raise Busy(
                f"another process works on the store '{store_path}' (it holds '{held[0]}'): let it end, then restore "
                "again; nothing was changed"
            )
        prepare_store(copy)
        kept = _dated(store_path)
        replace_store(store_path, copy, kept)
        is_kept = kept.exists()
    return Restored(
        **described.model_dump(exclude={"next_step"}),
        store=str(store_path),
        kept=str(kept) if is_kept else "",
        next_step=described.next_step or NextStep(action="store verify", why="compares the live files with it"),
    )


def _undone(store_path: Path, copy: Path) -> dict[str, object]:
    """Return what a backup takes back of what was done in the store since."""
    return {"lost_tests": lost_tests(store_path, copy), "n_returning": n_returning(store_path, copy)}


@contextmanager
def _restorable(store_path: Path, file: Path, tell: Tell, *, unsound: bool) -> Iterator[tuple[Path, Verified]]:
    """Lend a copy of a backup that may take the place of the store, and what was found of it. Raises Refused."""
    _check_backup(file)
    copy = _beside(store_path)
    with _checked_copy(file, copy, store_path, tell) as found:
        if found.problems and not unsound:
            raise _refused(
                file, found, "use another backup; where there is none, this one, as it is, is restored with --unsound"
            )
        yield copy, found


def _check_backup(file: Path) -> None:
    """Raise NotFound when no backup is there, BadInput when what is there is none at first sight."""
    if not file.exists():
        raise NotFound(f"there is no backup at '{file}': check the path")
    try:
        is_store = file.is_file() and _begins(file) == _MAGIC
    except OSError as error:
        raise BadInput(f"'{file}' cannot be read ({error.strerror}): check the path") from error
    if not is_store:
        raise BadInput(f"'{file}' is no backup: name a file that 'store backup' wrote; nothing was changed")


def _begins(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(len(_MAGIC))


@contextmanager
def _checked_copy(source: Path, copy: Path, named: Path, tell: Tell) -> Iterator[Verified]:
    """Lend a copy of a store; yield what was found of it.

    A copy that cannot be made is told of as `named`: nobody gave it its own name.
    """
    driver.refuse_network_file_system(copy)
    try:
        try:
            copy_store(source, copy, partial(tell, "copying"))
            found = _found(source, copy, tell)
        except SkillOptError as error:
            raise type(error)(str(error).replace(str(copy), str(named))) from error
        yield found
    finally:
        remove_store(copy)


def _found(source: Path, copy: Path, tell: Tell) -> Verified:
    """Return what is found of a copy of `source`, in whose words it is told."""
    try:
        found = verify_store(copy, live=False, tell=tell)
    except UnsafeStore as error:
        found = Verified(store="", problems=[str(error)], next_step=RESTORE)
    told = [problem.replace(str(copy), str(source)) for problem in found.problems]
    return found.model_copy(update={"store": str(source), "problems": told})


def _soundness(problems: list[str]) -> str:
    return "it is NOT sound" if problems else "it is sound"


def _refused(source: Path, found: Verified, advice: str) -> Refused:
    n = counted(len(found.problems), "problem")
    return Refused(f"'{source}' is not sound ({n}, the first: {found.problems[0]}), so it was not used: {advice}")


def _beside(store_path: Path) -> Path:
    """Return where a copy lies that may take the place of the store."""
    store_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return store_path.with_name(f".{store_path.name}.{secrets.token_hex(4)}")


def _described(copy: Path, file: Path, found: Verified) -> Backup:
    with Store(copy) as store:
        skills = store.skills.list_skills()
        named = _named(skills)
        permits = [f"skill root {root}" for root in store.permissions.list_roots()]
        permits += [
            f"promotions of {named[each.id]} without asking" for each in skills if _is_permitted(store, each.id)
        ]
        permits += [f"the command {command.name} as a judge" for command in store.commands.list_commands()]
        last = store.events.last()
        hidden = store.skills.list_forgotten()
        missing = [each.path for each in skills if each.id not in hidden and is_gone(each.path)]
    return Backup(
        file=str(file),
        skills=list(named.values()),
        skill_paths=[each.path for each in skills],
        missing=missing,
        permits=permits,
        n_events=found.n_events,
        problems=found.problems,
        last_event_at=last.told.at if last else "",
        next_step=NextStep(action="skills move", why="where a missing folder has moved") if missing else None,
    )


def _named(skills: Sequence[Skill]) -> dict[int, str]:
    """Return what each skill is called by its id: its name, and its path as well where another has that name, too."""
    n_of = Counter(skill.name for skill in skills)
    return {each.id: f"{each.name} ('{each.path}')" if n_of[each.name] > 1 else each.name for each in skills}


def _is_permitted(store: Store, skill_id: int) -> bool:
    return store.permissions.get(skill_id) is not None


def _dated(store_path: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    names = [f"{store_path.name}.replaced-{stamp}{end}" for end in ("", *(f"-{n}" for n in range(2, 100)))]
    return next(path for name in names if not (path := store_path.with_name(name)).exists())
