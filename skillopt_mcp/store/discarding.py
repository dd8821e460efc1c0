"""Discarding at rest: what had become of a skill's candidates when a run of it began, the same whenever it is asked."""

from __future__ import annotations

from typing import NamedTuple

from skillopt_mcp.store.decisions import IS_SIMULATED
from skillopt_mcp.store.pool import Pool

# What a simulation rejected says nothing to a run with a real target. The verdict is that of `Decisions.latest`, then.
_VERDICT = (
    "(select verdict from decision where decision.skill_id = made.skill_id and gate = ?2"
    " and decision.base_version = made.base_version and decision.version_id = made.version_id"
    f" and decision.created_at < run.created_at and (run.target glob 'simulated*' or not {IS_SIMULATED})"
    f" order by {IS_SIMULATED}, verdict = 'undecided', decision.id desc limit 1)"
)
_MADE = (
    f"select made.id, made.version_id, {_VERDICT} from run join candidate made on made.skill_id = run.skill_id"
    " where run.id = ?1 and made.origin in ('host', 'run') and made.created_at < run.created_at"
    " order by made.rowid desc"
)
_REJECTED = (
    "select made.id from candidate made where made.skill_id = ?1 and made.origin in ('host', 'run')"
    " and (select verdict from decision where decision.skill_id = made.skill_id and gate = ?2"
    " and decision.base_version = made.base_version and decision.version_id = made.version_id"
    f" and not {IS_SIMULATED} order by verdict = 'undecided', decision.id desc limit 1) = 'reject'"
    " order by made.rowid desc limit ?3"
)


class Standing(NamedTuple):
    """A candidate, and a gate's verdict on it when a run began; None where it had none that speaks to the run."""

    candidate_id: str
    version_id: str
    verdict: str | None


class Discarding:
    """Of the candidates of a skill: where they stood when a run of it began, and which a gate rejected."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def list_standing(self, run_id: str, gate: str) -> list[Standing]:
        """Return the candidates that were there when a run began, the newest first."""
        return [Standing(*row) for row in self._pool.rows(_MADE, [run_id, gate])]  # type: ignore[arg-type]

    def list_rejected(self, skill_id: int, gate: str, n: int) -> list[str]:
        """Return the `n` newest candidates of a skill that a gate rejected by what a real model did, newest first."""
        return [str(row[0]) for row in self._pool.rows(_REJECTED, [skill_id, gate, n])]

    def begun_at(self, run_id: str) -> str:
        """Return when a run began (UTC); empty for none."""
        row = self._pool.row("select created_at from run where id = ?", [run_id])
        return str(row[0]) if row else ""
