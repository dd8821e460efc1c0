"""Learned tasks at rest: which tasks another store's candidates may have been made from, kept with their import."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ValidationError

from skillopt_mcp.records.tasks import SPLITS, NewTask, Split, asked_digest
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.matching import asked_here
from skillopt_mcp.store.pool import Pool

_KIND = "tasks_learned"
_LINES = "select kind, content from archive where skill_id = ? and json_extract(content, '$.kind') = ? order by id"


class _Line(BaseModel):
    """A line of the archive: tasks as (digest, digest of what it asks, split)."""

    tasks: list[tuple[str, str, Split]]


class LearnedTasks:
    """Of table archive, the lines that tell which tasks were train or val where imported candidates were made."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def nearest(self, skill_id: int) -> dict[str, int]:
        """Return the split nearest to training (its place in SPLITS) of each such task, by both of its digests."""
        found: dict[str, int] = {}
        for _, content in self._pool.rows(_LINES, [skill_id, _KIND]):
            try:
                line = _Line.model_validate_json(str(content))
            except ValidationError:  # as a later release may tell it
                continue
            note_nearest(found, ((key, split) for *keys, split in line.tasks for key in keys))
        return found


def note_nearest(found: dict[str, int], told: Iterable[tuple[str, Split]]) -> None:
    """Keep for each key the split that is nearest to training, as its place in SPLITS."""
    for key, split in told:
        found[key] = min(found.get(key, len(SPLITS)), SPLITS.index(split))


def new_learned(connection: Connection, skill_id: int, tasks: Sequence[NewTask]) -> list[tuple[str, str]]:
    """Return the line of the archive, as (kind, json), that tells of train and val tasks of another store.

    None is needed where this store holds each of them in that split as well, and is none where it is archived already.
    """
    splits = {digest: SPLITS.index(split) for digest, split in connection.execute(_SPLITS, [skill_id])}
    furthest: dict[str, int] = {}
    for asked, split, _ in asked_here(connection, skill_id):
        furthest[asked] = max(furthest.get(asked, 0), SPLITS.index(split))
    told = []
    for task in tasks:
        split, asked = task.split or "train", asked_digest(task.prompt, task.files)
        at = SPLITS.index(split)
        if split != "test" and (splits.get(task.digest, len(SPLITS)) > at or furthest.get(asked, 0) > at):
            told.append([task.digest, asked, split])
    content = json.dumps({"kind": _KIND, "tasks": sorted(told)}, separators=(",", ":"))
    sha256 = hashlib.sha256(content.encode()).hexdigest()
    is_held = connection.execute(_HELD, [skill_id, sha256]).fetchone() is not None
    return [("event", content)] if told and not is_held else []


_SPLITS = "select digest, split from task where skill_id = ?"
_HELD = "select 1 from archive where skill_id = ? and kind = 'event' and sha256 = ?"
