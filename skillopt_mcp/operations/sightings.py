"""Sightings: skills as they are on disk, each version stored when it is first seen."""

from __future__ import annotations

import time
from pathlib import Path

from skillopt_mcp.errors import BadSkill
from skillopt_mcp.folders import read_skill, skill_name, stamp_of
from skillopt_mcp.operations.finding import advice, kept_files
from skillopt_mcp.operations.predecessors import gone_skills, predecessor
from skillopt_mcp.operations.recovery import recover
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.store.opening import Store

# A file changed twice within a tick of the disk's clock looks unchanged: so young a folder is read again each time.
TICK_NS = 50_000_000


class Sightings:
    """What was seen of folders last: one that has not changed since is not read again."""

    def __init__(self) -> None:
        self._seen: dict[str, object] = {}

    def look(self, store: Store, folder: Path) -> Skill:
        """Return the skill in a folder as it is now, tracked. Raises BadSkill, which says what to do about it."""
        try:
            return self._look(store, folder)
        except BadSkill as error:
            raise BadSkill(_told_of(store, str(folder), error)) from None

    def forget(self, path: str) -> None:
        """Read the folder again the next time."""
        self._seen.pop(path, None)

    def _look(self, store: Store, folder: Path) -> Skill:
        key, now = str(folder), stamp_of(folder)
        seen = self._seen.get(key)
        # Another process may have moved a skill to this path, or hidden the one that is here.
        if seen == now and (listed := store.skills.find_listed(key)):
            return listed
        recover(store)
        begun = store.promotions.last_begun(key)
        clock_ns = time.time_ns()
        now = stamp_of(folder)
        files = read_skill(folder)
        is_new = begun is None and store.skills.find_at(key) is None
        was = predecessor(gone_skills(store), files) if is_new else None
        before = was.live_version if was else None
        skill = store.skills.track(skill_name(folder), key, files, begun.id if begun else 0, before)
        # While a change is made, or cannot be settled, what was read may be half of it: the store knows better.
        is_whole = skill.live_version == files.digest
        if is_whole and all(changed_ns < clock_ns - TICK_NS for _, _, _, changed_ns, *_ in now):
            self._seen[key] = now
        return skill


def _told_of(store: Store, path: str, error: BadSkill) -> str:
    """Return what to do about a skill that cannot be read, and whether a change of it waits for that."""
    last = store.promotions.last_begun(path)
    waits = "; a change of it was cut short, and is settled once its files can be read"
    told = advice(store, path) or f"{error}{kept_files(store, path)}"
    return f"{told}{waits if last and last.is_open else ''}"
