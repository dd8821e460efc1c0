"""Backup: a copy of a store that was checked, made while it is in use, and a backup put in the place of a store."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from skillopt_mcp.admin.verify import Advance, Verified, silent, verify_store
from skillopt_mcp.core.errors import BadInput, Busy, NotFound, Refused, SkillOptError, UnsafeStore
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import Result
from skillopt_mcp.core.text import counted
from skillopt_mcp.documents.live_files import move_new
from skillopt_mcp.store.copying import copy_store, is_database, read_lost, replace_store
from skillopt_mcp.store.files import SIDE_FILES, list_held_locks, read_mark, refuse_network_file_system, remove_store
from skillopt_mcp.store.opening import Store
from skillopt_mcp.workspace.skill_folders import is_gone


class BackedUp(Result):
    """A backup that was made and checked; `head` is the hash of the last event in it."""

    store: str
    file: str
    n_bytes: int
    n_events: int
    head: str


class BackupGap(BaseModel):
    """What the store has and a backup lacks; `alpha` is the error rate that a promotion test has spent."""

    kind: Literal["promotion test", "promote", "rollback", "erasure"]
    which: str
    skill: str
    alpha: float


class Restored(Result):
    """What a backup brings back into the place of a store, and what of that it lacks (None: it cannot be read).

    `missing` are folders of skills that are not on this machine; `allows` what a person agreed to before. `kept` is
    where the files of the store before are, "" where there was none.
    """

    file: str
    store: str
    kept: str
    skills: list[str]
    missing: list[str]
    allows: list[str]
    lost: list[BackupGap] | None
    n_events: int
    last_event_at: str


def back_up(store_path: Path, file: Path, *, advance: Advance = silent) -> BackedUp:
    """Write the store to a new file while it is in use, and check the copy; the file appears complete or not at all.

    Raises BadInput when the file is there or cannot be made, Refused when the copy is not sound.
    """
    target = Path(os.path.abspath(file))
    hidden = _hidden_name(target)
    if os.path.lexists(target):
        raise _is_taken(target)
    advice = "restore a backup, or end all that uses it and copy its files as they are"
    with _checked_copy(store_path, hidden, target, advice, advance) as found:
        n_bytes = hidden.stat().st_size
        _rename_new(hidden, target)
    step = NextStep(action="store restore", arguments={"file": str(target)}, why="puts it back; it is sound")
    return BackedUp(
        store=str(store_path), file=str(target), n_bytes=n_bytes, n_events=found.n_events, head=found.head,
        next_step=step,
    )  # fmt: skip


def restore_store(
    store_path: Path, file: Path, agree: Callable[[Restored], None] = lambda _: None, *, advance: Advance = silent
) -> Restored:
    """Put a checked backup in the place of the store, whose files stay next to it under a dated name.

    `agree` is called before anything is changed, and raises where a person declines. Raises Busy when another process
    has the store open or holds one of its locks, Refused or StoreError when the backup is not sound; killed at any
    moment, the store is the old one or the backup.
    """
    if store_path.exists() and file.exists() and os.path.samefile(store_path, file):
        raise BadInput(f"'{file}' is the store itself: name a backup")
    if not file.exists():
        raise NotFound(f"there is no backup at '{file}': check the path")
    try:
        is_store = is_database(file)
    except OSError as error:
        raise BadInput(f"'{file}' cannot be read ({error.strerror}): check the path") from error
    if not is_store:
        raise BadInput(f"'{file}' is not a backup: name a file that 'store backup' wrote; nothing was changed")
    store_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy = _hidden_name(store_path)
    with _checked_copy(file, copy, store_path, "use another backup", advance) as found:
        described = _describe(store_path, copy, file, found)
        agree(described)
        if held := list_held_locks(store_path.with_name(f"{store_path.name}.locks")):
            raise Busy(
                f"another process works on the store '{store_path}' (it holds '{held[0]}'): let it end, then restore "
                "again; nothing was changed"
            )
        replace_store(store_path, copy, Path(described.kept or _choose_kept_path(store_path)))
    return described


def _describe(store_path: Path, copy: Path, file: Path, found: Verified) -> Restored:
    with Store(copy) as store:
        hidden, skills = store.skills.list_forgotten(), store.skills.list_skills()
        allows = [
            *(f"promotions of {each.name} without asking" for each in skills if store.permissions.get(each.id)),
            *(f"the skill root {root}" for root in store.permissions.list_roots()),
            *(f"the judge program {each.name}" for each in store.commands.list_commands()),
        ]
        last = store.events.last()
    lost: list[BackupGap] | None = [] if not store_path.exists() else None
    with suppress(SkillOptError):
        if is_database(store_path):
            rows = read_lost(store_path, copy)
            lost = [BackupGap(kind=kind, which=which, skill=skill, alpha=alpha) for kind, which, skill, alpha in rows]  # type: ignore[arg-type]
    there = any(os.path.exists(f"{store_path}{end}") for end in ("", *SIDE_FILES))
    kept = str(_choose_kept_path(store_path)) if there else ""
    missing = [each.path for each in skills if each.id not in hidden and is_gone(each.path)]
    step = NextStep(action="store verify", why="compares the live files with it")
    if missing:
        step = NextStep(action="skills move", arguments={"old": missing[0]}, why="its folder is not on this machine")
    return Restored(
        file=str(file), store=str(store_path), kept=kept,
        skills=[each.name for each in skills], missing=missing, allows=allows, lost=lost, n_events=found.n_events,
        last_event_at=last.at if last else "", next_step=step,
    )  # fmt: skip


@contextmanager
def _checked_copy(source: Path, copy: Path, named: Path, advice: str, advance: Advance) -> Iterator[Verified]:
    """Lend a copy of a store, once it is checked; errors name `named` in its place. Raises Refused with this advice."""
    refuse_network_file_system(copy)
    try:
        try:
            mark = read_mark(source)
            copy_store(source, copy, partial(advance, "copying"))
            found = verify_store(copy, live=False, advance=advance, mark=mark)
        except UnsafeStore as error:
            raise Refused(f"'{source}' is not sound ({error}): {advice}".replace(str(copy), str(source))) from error
        except SkillOptError as error:
            raise type(error)(str(error).replace(str(copy), str(named))) from error
        if found.problems:
            problems = counted(found.n_problems, "problem")
            first = str(found.problems[0]).replace(str(copy), str(source))
            raise Refused(f"'{source}' is not sound ({problems}, the first: {first}): {advice}")
        yield found
    finally:
        remove_store(copy)


def _choose_kept_path(store_path: Path) -> Path:
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
