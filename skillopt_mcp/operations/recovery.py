"""Recovery: finish or undo the promotions that a killed process left half done. Nothing here needs a person."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.errors import BadSkill, Refused, StoreError
from skillopt_mcp.folders import files_folder, read_skill
from skillopt_mcp.livefiles import find_file, replace_files, sweep
from skillopt_mcp.records.candidates import Promotion
from skillopt_mcp.records.skills import SkillFile, SkillFiles
from skillopt_mcp.store.opening import Store


def lock_name(skill_id: int) -> str:
    """Return the name of the lock under which a skill's live files are changed."""
    return f"skill-{skill_id}"


def recover(store: Store) -> None:
    """Settle every pending promotion whose process is gone; one that another process is making is left to it.

    One that cannot be settled now, because its files cannot be read or written, stays pending until it can.
    """
    for skill_id in {promotion.skill_id for promotion in store.promotions.list_pending()}:
        lock = lock_run(store.locks_path, lock_name(skill_id))
        if lock is None:
            continue
        try:
            with suppress(Refused):
                settle(store, skill_id)
        finally:
            lock.release()


def settle(store: Store, skill_id: int) -> None:
    """Settle a skill's pending promotions, under the skill's lock.

    Raises Refused when a file cannot be read or written; they stay pending.
    A half-done one is rolled forward when every file is still its old or new self, unless it had failed: then it is
    taken back. A file that is neither was edited by a person meanwhile: nothing is written any more. Files that cannot
    be read may come back (a disk that is not there looks like a skill that is gone), so nothing is concluded from that.
    """
    for promotion in store.promotions.list_pending():
        if promotion.skill_id != skill_id:
            continue
        if promotion.state == "undoing":
            _write_back(store, promotion)
            continue
        place, old, new = _sides(store, promotion)
        live = _read(place, old, new)
        if live != old and _is_mixture(live, old, new):
            replace_files(files_folder(place), live, new)
            live = new
        if live == new:
            store.promotions.finish(promotion)
        else:
            store.promotions.undo(promotion)


def take_back(store: Store, promotion: Promotion) -> None:
    """Undo what a change that failed half-way has written, and nothing else.

    Raises Refused when that fails, too, and is left to `settle`; StoreError when not even that could be noted.
    """
    unnoted: StoreError | None = None
    try:
        store.promotions.give_up(promotion)
    except StoreError as error:
        unnoted = error
    try:
        _write_back(store, promotion)
    except Refused as error:
        if unnoted:
            raise StoreError(f"{error}; and {unnoted}: the change is finished or taken back later") from error
        raise Refused(f"{error}; what is written already is taken back when the store is used next") from error


def _write_back(store: Store, promotion: Promotion) -> None:
    place, old, new = _sides(store, promotion)
    live = _read(place, old, new)
    written = {file.path: file for file in _written(files_folder(place), old, new)}
    removed = {file.path for file in old.files if live.get(file.path) is None and new.get(file.path) is None}
    kept = [file for file in live.files if file.path not in written]
    back = [file for file in old.files if file.path in {*written, *removed}]
    replace_files(files_folder(place), SkillFiles((*kept, *written.values())), SkillFiles((*kept, *back)))
    store.promotions.undo(promotion)


def _written(folder: Path, old: SkillFiles, new: SkillFiles) -> Iterator[SkillFile]:
    """Yield what a change has written, as it is now: its disk may keep other run bits, and list it by another name."""
    for file in new.files:
        was = old.get(file.path)
        found = find_file(folder, file.path) if file != was else None
        if found and found.content == file.content and found != was:
            yield found


def _read(place: Path, old: SkillFiles, new: SkillFiles) -> SkillFiles:
    """Return the live files, with nothing of a killed process beside them. Raises Refused when they cannot be read."""
    sweep(files_folder(place), (old, new))
    try:
        return read_skill(place)
    except BadSkill as error:
        later = "a change of it was cut short, and is settled once its files can be read"
        raise Refused(f"{error}; {later}") from error


def _sides(store: Store, promotion: Promotion) -> tuple[Path, SkillFiles, SkillFiles]:
    skill = store.skills.get_skill(promotion.skill_id)
    old = store.skills.get_files(skill.id, promotion.from_version)
    new = store.skills.get_files(skill.id, promotion.to_version)
    return Path(skill.path), old, new


def _is_mixture(live: SkillFiles, old: SkillFiles, new: SkillFiles) -> bool:
    known: set[SkillFile] = {*old.files, *new.files}
    missing = [file.path for file in old.files if live.get(file.path) is None and new.get(file.path) is not None]
    return not missing and all(file in known for file in live.files)
