"""Recovery: finish or undo the promotions that a killed process left half done. Nothing here needs a person."""

from __future__ import annotations

from pathlib import Path

from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.errors import BadSkill
from skillopt_mcp.folders import read_skill
from skillopt_mcp.livefiles import replace_files, sweep
from skillopt_mcp.records.candidates import Promotion
from skillopt_mcp.records.skills import SkillFile, SkillFiles
from skillopt_mcp.store.opening import Store


def recover(store: Store) -> None:
    """Settle every pending promotion whose process is gone; one that another process is making is left to it."""
    for promotion in store.promotions.list_pending():
        lock = lock_run(store.locks_path, f"skill-{promotion.skill_id}")
        if lock is None:
            continue
        try:
            settle(store, promotion)
        finally:
            lock.release()


def settle(store: Store, promotion: Promotion) -> None:
    """Roll a half-done change forward when every file is still its old or new self; else note that it did not happen.

    A file that is neither was edited by a person meanwhile: nothing is written over it.
    """
    skill = store.skills.get_skill(promotion.skill_id)
    old = store.skills.get_files(skill.id, promotion.from_version)
    new = store.skills.get_files(skill.id, promotion.to_version)
    folder = Path(skill.path)
    sweep(folder, new)
    try:
        live = read_skill(folder)
    except BadSkill:
        store.promotions.undo(promotion)
        return
    if live == old:
        store.promotions.undo(promotion)
    elif live == new:
        store.promotions.finish(promotion)
    elif _is_mixture(live, old, new):
        replace_files(folder, live, new)
        store.promotions.finish(promotion)
    else:
        store.promotions.undo(promotion)


def _is_mixture(live: SkillFiles, old: SkillFiles, new: SkillFiles) -> bool:
    known: set[SkillFile] = {*old.files, *new.files}
    missing = [file.path for file in old.files if live.get(file.path) is None and new.get(file.path) is not None]
    return not missing and all(file in known for file in live.files)
