"""Backup: a copy of a store that was checked, made while it is in use, and a backup put in the place of a store."""

from __future__ import annotations

import os
import secrets
import shlex
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from pydantic import BaseModel, JsonValue

from skillopt_mcp.calls.owners import held_locks
from skillopt_mcp.documents.text import counted
from skillopt_mcp.errors import BadInput, Busy, NotFound, Refused, SkillOptError, UnsafeStore
from skillopt_mcp.live_files import move_new
from skillopt_mcp.maintenance.verify import RESTORE, Advance, Verified, silent, verify_store
from skillopt_mcp.records.next_step import NextStep
from skillopt_mcp.records.results import Result
from skillopt_mcp.skill_folders import is_gone
from skillopt_mcp.store.copying import (
    copy_store,
    prepare_store,
    read_attempts,
    read_erased,
    read_tests,
    replace_store,
)
from skillopt_mcp.store.files import refuse_network_file_system, remove_store
from skillopt_mcp.store.integrity import Damage
from skillopt_mcp.store.marks import read_mark
from skillopt_mcp.store.opening import Store

_MAGIC = b"SQLite format 3\0"


class BackedUp(Result):
    """A backup that was made and checked; `head` is the hash of the last event in it.

    It has `problems` only where it was written though the store is not sound.
    """

    store: str
    file: str
    n_bytes: int
    n_events: int
    head: str
    problems: list[Damage]


class BackupSkill(BaseModel):
    """A skill in a backup; `is_missing`: its folder is not on this machine; `is_permitted`: promoted without asking."""

    name: str
    path: str
    is_missing: bool
    is_permitted: bool


class LostTests(BaseModel):
    """Promotion tests of a skill that the store has and a backup has not, and their share of its error rate."""

    skill: str
    n: int
    alpha: float


class Backup(Result):
    """What a backup would bring back, with the skill roots and judge programs that it allows.

    `n_returning` attempts that were erased since come back with it.
    """

    file: str
    skills: list[BackupSkill]
    roots: list[str]
    programs: list[str]
    lost_tests: list[LostTests]
    n_returning: int = 0
    n_events: int
    last_event_at: str
    problems: list[Damage]


class Restored(Backup):
    """A store that a backup was put in the place of; `kept` is where the one before is, empty when there was none."""

    store: str
    kept: str


def back_up(store_path: Path, file: Path, *, unsound: bool = False, advance: Advance = silent) -> BackedUp:
    """Write the store to a new file while it is in use, and check the copy; the file appears complete or not at all.

    Raises BadInput when the file is there or cannot be made, Refused when the copy is not sound and not `unsound`.
    """
    target = Path(os.path.abspath(file))
    hidden = _hidden_name(target)
    if os.path.lexists(target):
        raise _is_taken(target)
    again = shlex.join(["skillopt-mcp", "store", "backup", "--unsound", str(file)])
    with _checked_copy(store_path, hidden, target, advance) as found:
        if found.problems and not unsound:
            raise _refused(store_path, found, f"restore a backup, or copy it as it is: {again}")
        n_bytes = hidden.stat().st_size
        _rename_new(hidden, target)
    arguments: dict[str, JsonValue] = {"file": str(target), "unsound": bool(found.problems)}
    why = f"puts it back; it is {'NOT ' if found.problems else ''}sound"
    return BackedUp(
        store=str(store_path), file=str(target), n_bytes=n_bytes, n_events=found.n_events, head=found.head,
        problems=found.problems, next_step=NextStep(action="store restore", arguments=arguments, why=why),
    )  # fmt: skip


def review_backup(store_path: Path, file: Path, *, unsound: bool = False, advance: Advance = silent) -> Backup:
    """Return what a backup holds, once it is checked. Raises StoreError, Refused when it is not sound nor `unsound`."""
    with _restorable(store_path, file, advance, unsound=unsound) as (copy, found):
        return _describe(store_path, copy, file, found)


def restore_store(store_path: Path, file: Path, *, unsound: bool = False, advance: Advance = silent) -> Restored:
    """Put a checked backup in the place of the store, which stays next to it under a dated name.

    Raises Busy when another process has the store open or holds one of its locks, and as `review_backup` does; nothing
    was changed then.
    """
    if store_path.exists() and file.exists() and os.path.samefile(store_path, file):
        raise BadInput(f"'{file}' is the store itself: name a backup")
    with _restorable(store_path, file, advance, unsound=unsound) as (copy, found):
        described = _describe(store_path, copy, file, found)
        if held := held_locks(store_path.with_name(f"{store_path.name}.locks")):
            raise Busy(
                f"another process works on the store '{store_path}' (it holds '{held[0]}'): let it end, then restore "
                "again; nothing was changed"
            )
        prepare_store(copy)
        kept = _dated(store_path)
        replace_store(store_path, copy, kept)
        is_kept = kept.exists()
    step = described.next_step or NextStep(action="store verify", why="compares the live files with it")
    own = {"store": str(store_path), "kept": str(kept) if is_kept else "", "next_step": step}
    return Restored.model_validate(dict(described) | own)


def _lost_tests(store_path: Path, copy: Path) -> list[LostTests]:
    """Return what a store has of promotion tests that a backup has not; nothing where it cannot be read."""
    if not store_path.exists():
        return []
    try:
        tests, known = read_tests(store_path), {test for test, _, _ in read_tests(copy)}
    except SkillOptError:
        return []
    lost: dict[str, list[float]] = defaultdict(list)
    for test, skill, alpha in tests:
        if test not in known:
            lost[skill].append(alpha)
    return [LostTests(skill=skill, n=len(alphas), alpha=sum(alphas)) for skill, alphas in lost.items()]


def _n_returning(store_path: Path, copy: Path) -> int:
    """Return how many attempts that are erased in a store a backup has in full; 0 where it cannot be read."""
    if not store_path.exists():
        return 0
    try:
        return len(read_erased(store_path) & read_attempts(copy))
    except SkillOptError:
        return 0


@contextmanager
def _restorable(store_path: Path, file: Path, advance: Advance, *, unsound: bool) -> Iterator[tuple[Path, Verified]]:
    """Lend a copy of a backup that may take the place of the store, and what was found of it. Raises Refused."""
    _check_backup(file)
    store_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy = _hidden_name(store_path)
    with _checked_copy(file, copy, store_path, advance) as found:
        if found.problems and not unsound:
            raise _refused(file, found, "use another backup, or restore it as it is with --unsound")
        yield copy, found


def _check_backup(file: Path) -> None:
    """Raise NotFound when no backup is there, BadInput when what is there is not one."""
    if not file.exists():
        raise NotFound(f"there is no backup at '{file}': check the path")
    try:
        is_store = file.is_file()
        if is_store:
            with file.open("rb") as opened:
                is_store = opened.read(len(_MAGIC)) == _MAGIC
    except OSError as error:
        raise BadInput(f"'{file}' cannot be read ({error.strerror}): check the path") from error
    if not is_store:
        raise BadInput(f"'{file}' is not a backup: name a file that 'store backup' wrote; nothing was changed")


@contextmanager
def _checked_copy(source: Path, copy: Path, named: Path, advance: Advance) -> Iterator[Verified]:
    """Lend a copy of a store, checked; errors name `named` in its place, a path that the user knows."""
    refuse_network_file_system(copy)
    try:
        try:
            mark = read_mark(source)
            copy_store(source, copy, partial(advance, "copying"))
            try:
                found = verify_store(copy, live=False, advance=advance, mark=mark)
            except UnsafeStore as error:
                found = Verified(store="", problems=[Damage(code="unreadable", detail=str(error))], next_step=RESTORE)
        except SkillOptError as error:
            raise type(error)(str(error).replace(str(copy), str(named))) from error
        problems = [
            each.model_copy(update={"detail": each.detail.replace(str(copy), str(source))}) for each in found.problems
        ]
        yield found.model_copy(update={"store": str(source), "problems": problems})
    finally:
        remove_store(copy)


def _refused(source: Path, found: Verified, advice: str) -> Refused:
    n = counted(found.n_problems or len(found.problems), "problem")
    return Refused(f"'{source}' is not sound ({n}, the first: {found.problems[0]}): {advice}")


def _describe(store_path: Path, copy: Path, file: Path, found: Verified) -> Backup:
    with Store(copy) as store:
        hidden = store.skills.list_forgotten()
        skills = [
            BackupSkill(
                name=each.name,
                path=each.path,
                is_missing=each.id not in hidden and is_gone(each.path),
                is_permitted=store.permissions.get(each.id) is not None,
            )
            for each in store.skills.list_skills()
        ]
        roots, programs = store.permissions.list_roots(), [each.name for each in store.commands.list_commands()]
        last = store.events.last()
    missing = [each.path for each in skills if each.is_missing]
    return Backup(
        file=str(file),
        skills=skills,
        roots=roots,
        programs=programs,
        lost_tests=_lost_tests(store_path, copy),
        n_returning=_n_returning(store_path, copy),
        n_events=found.n_events,
        problems=found.problems,
        last_event_at=last.at if last else "",
        next_step=NextStep(action="skills move", arguments={"old": missing[0]}, why="its folder is not on this machine")
        if missing
        else None,
    )


def _dated(store_path: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    names = [f"{store_path.name}.replaced-{stamp}{end}" for end in ("", *(f"-{n}" for n in range(2, 100)))]
    return next(path for name in names if not (path := store_path.with_name(name)).exists())


def write_new(target: Path, content: bytes) -> None:
    """Write a new file, complete or not at all. Raises BadInput when it is there already or cannot be written."""
    if os.path.lexists(target):
        raise _is_taken(target)
    hidden = _hidden_name(target)
    try:
        with hidden.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _rename_new(hidden, target)
    except OSError as error:
        raise BadInput(f"'{target}' cannot be written ({error.strerror}): check the path") from error
    finally:
        with suppress(OSError):
            hidden.unlink()


def write_over(target: Path, content: bytes) -> None:
    """Write a file, complete or not at all, in the place of one that is there. Raises BadInput when it cannot be."""
    place = Path(os.path.realpath(target))
    if not place.exists():
        write_new(place, content)
        return
    hidden = _hidden_name(place)
    write_new(hidden, content)
    try:
        os.replace(hidden, place)
    except OSError as error:
        raise BadInput(f"'{target}' cannot be written ({error.strerror}): check the path") from error
    finally:
        with suppress(OSError):
            hidden.unlink()


def _rename_new(written: Path, target: Path) -> None:
    """Give a written file its name, durably. Raises BadInput when the name is taken."""
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        if not move_new(folder, written.name, target.name):
            os.link(written, target)
        os.fsync(folder)
    except FileExistsError:
        raise _is_taken(target) from None
    finally:
        os.close(folder)


def _hidden_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}")


def _is_taken(target: Path) -> BadInput:
    return BadInput(f"'{target}' is there already, and is not overwritten: name another file")
