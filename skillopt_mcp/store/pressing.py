"""Pressing: which skills of a whole store have something to go on with, found without a walk through them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple, cast

from skillopt_mcp.store.decisions import IS_SIMULATED
from skillopt_mcp.store.leases import WAITED_FOR
from skillopt_mcp.store.pool import Pool

# Joined in this order, so that of candidates and runs from other versions no text is read.
# The verdict is that of `Decisions.latest`; a version that was live once is rolled back to, not promoted again.
_OPEN = (
    "select skill.id, coalesce((select verdict from decision where decision.skill_id = skill.id and gate = ?1"
    " and decision.base_version = made.base_version and decision.version_id = made.version_id"
    f" order by {IS_SIMULATED}, verdict = 'undecided', decision.id desc limit 1), 'undecided'),"
    " exists (select 1 from confirmation c join lease l on l.scope = c.id where c.skill_id = skill.id"
    f" and c.base_version = made.base_version and c.version_id = made.version_id and {WAITED_FOR})"
    " from skill cross join candidate made on made.skill_id = skill.id and made.base_version = skill.live_version"
    " where +made.origin in ('host', 'run') and skill.id not in (select skill_id from forgotten) and not exists"
    " (select 1 from promotion where promotion.skill_id = skill.id and state = 'done' and to_version = made.version_id)"
)
_PROPOSING = (
    "select skill.id from skill cross join run on run.skill_id = skill.id and run.base_version = skill.live_version"
    " where +run.kind = 'proposal' and run.status = 'running' and skill.id not in (select skill_id from forgotten)"
)


_BEGUN = (
    "select version_id, id, backend, (select count(*) from pair where confirmation_id = c.id) from confirmation c"
    " where skill_id = ? and base_version = ? and version_id in (select value from json_each(?)) and coalesce((select"
    " verdict from decision where scope = c.id order by id desc limit 1), 'undecided') = 'undecided' order by j"
)


# Where the newest run of a skill is a replay that has not finished, and began from what is live.
_STOPPED = (
    "select skill.id, run.id from skill join run on run.rowid = (select max(rowid) from run where skill_id = skill.id)"
    " where run.kind = 'replay' and run.status <> 'finished' and run.base_version = skill.live_version"
    " and skill.id not in (select skill_id from forgotten)"
)


class Begun(NamedTuple):
    """A promotion test that has not decided: of which version, its id, who answers in it, and how many pairs it has."""

    version_id: str
    id: str
    backend: str
    n_pairs: int


class Pressing:
    """Of all listed skills: what is made from the version that is live, or is being made."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def list_open(self, gate: str) -> list[tuple[int, str, bool]]:
        """Return (skill id, a gate's verdict, whether work of its test is out) of each candidate of a live version."""
        return [(cast(int, skill), str(verdict), bool(out)) for skill, verdict, out in self._pool.rows(_OPEN, [gate])]

    def list_begun(self, skill_id: int, base_version: str, versions: Sequence[str]) -> list[Begun]:
        """Return the promotion tests of versions against a base that have not decided, in their order."""
        values = [skill_id, base_version, json.dumps(versions)]
        return [Begun(*row) for row in self._pool.rows(_BEGUN, values)]  # type: ignore[arg-type]

    def list_stopped(self) -> set[int]:
        """Return the ids of the skills whose newest run is a replay that has not finished."""
        return {cast(int, row[0]) for row in self._pool.rows(_STOPPED)}

    def find_stopped(self, skill_id: int) -> str | None:
        """Return the id of the newest run of a skill where it is a replay that has not finished, else None."""
        row = self._pool.row(f"{_STOPPED} and skill.id = ?", [skill_id])
        return str(row[1]) if row else None

    def list_proposing(self) -> set[int]:
        """Return the ids of the skills for which a proposal has not come to an end."""
        return {cast(int, row[0]) for row in self._pool.rows(_PROPOSING)}
