"""Decisions at rest: the verdicts of gates, and what people said no to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skillopt_mcp.core.candidates import PERSON, Approval, Decision, PromotionKind, candidate_id
from skillopt_mcp.core.evidence import ACCEPTED, Trial
from skillopt_mcp.gates.recompute import PersonInputs, PersonVerdict
from skillopt_mcp.store.candidates import insert_trials
from skillopt_mcp.store.events import append
from skillopt_mcp.store.pending import IS_SIMULATED
from skillopt_mcp.store.pool import Connection, Pool, Row

_DECISION = "select skill_id, gate, base_version, version_id, scope, verdict, reason, inputs from decision"
_ACCEPTED = f"({', '.join(repr(verdict) for verdict in ACCEPTED)})"


class Decisions:
    """Table decision."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add_decision(self, decision: Decision) -> None:
        """Store a verdict; the same verdict on the same inputs is stored once."""
        with self._pool.write() as connection:
            insert_decision(connection, decision)

    def add_evidence(self, decision: Decision, trials: Sequence[Trial]) -> None:
        """Store a verdict with the trials that it rests on."""
        with self._pool.write() as connection:
            insert_trials(connection, trials)
            insert_decision(connection, decision)

    def list_decisions(self, after: int = 0, limit: int = 500) -> list[tuple[int, Decision]]:
        """Return the decisions of all skills after one of them, by its id, as (id, decision), at most `limit`."""
        sql = _DECISION.replace("select ", "select id, ", 1)
        rows = self._pool.rows(f"{sql} where id > ? order by id limit ?", [after, limit])
        return [(row[0], _decision(row[1:])) for row in rows]

    def latest(self, skill_id: int, gate: str, base_version: str, version_id: str) -> Decision | None:
        """Return the decision of a gate on a version against a base that counts: the newest, but one that rests on real
        models before any simulated one.
        """
        row = self._pool.row(
            f"{_DECISION} where skill_id = ? and gate = ? and base_version = ? and version_id = ?"
            f" order by {IS_SIMULATED}, id desc limit 1",
            [skill_id, gate, base_version, version_id],
        )
        return _decision(row) if row else None

    def verdicts(self, skill_id: int, gate: str, base_version: str) -> dict[str, str]:
        """Return a gate's verdict on each version that it compared with a base: that of the `latest` decision."""
        rows = self._pool.rows(
            "select version_id, verdict from decision where skill_id = ? and gate = ? and base_version = ?"
            f" order by {IS_SIMULATED} desc, id",
            [skill_id, gate, base_version],
        )
        # The last one counts, in the order of `latest` the other way round.
        return {str(version): str(verdict) for version, verdict in rows}

    def is_accepted(self, skill_id: int, gate: str, base_version: str, version_id: str) -> bool:
        """Return whether any decision of a gate accepted a version against a base, whatever others decided later."""
        row = self._pool.row(
            "select 1 from decision where skill_id = ? and gate = ? and base_version = ? and version_id = ?"
            f" and verdict in {_ACCEPTED} limit 1",
            [skill_id, gate, base_version, version_id],
        )
        return row is not None

    def latest_in(self, scope: str) -> Decision | None:
        """Return the newest decision of a scope: one step of a run, or a promotion test."""
        row = self._pool.row(f"{_DECISION} where scope = ? order by id desc limit 1", [scope])
        return _decision(row) if row else None

    def reasons_in(self, run_id: str) -> dict[int, str]:
        """Return why the search gate of a run decided as it did, by step."""
        sql = "select scope, reason from decision where scope > ?1 || '/' and scope < ?1 || '0' order by id"
        return {int(str(scope).partition("/")[2]): str(reason) for scope, reason in self._pool.rows(sql, [run_id])}


def insert_decision(connection: Connection, decision: Decision) -> None:
    """Store a verdict within the caller's transaction."""
    cursor = connection.execute(
        "insert into decision(skill_id, gate, base_version, version_id, scope, verdict, reason, inputs)"
        " select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8"
        " where not exists (select 1 from decision where scope = ?5 and gate = ?2 and inputs = ?8)",
        [decision.skill_id, decision.gate, decision.base_version, decision.version_id, decision.scope,
         decision.verdict, decision.reason, decision.inputs],
    )  # fmt: skip
    if cursor.rowcount:
        append(connection, "decision_taken", int(cursor.lastrowid or 0))


def _decision(row: Row) -> Decision:
    return Decision(*row)


# What a simulation rejected does not count for a run with a real target.
_VERDICT = (
    "(select verdict from decision where decision.skill_id = made.skill_id and gate = ?2"
    " and decision.base_version = made.base_version and decision.version_id = made.version_id"
    f" and decision.created_at < run.created_at and (run.target glob 'simulated*' or not {IS_SIMULATED})"
    f" order by {IS_SIMULATED}, decision.id desc limit 1)"
)
_MADE = (
    f"select made.id, made.version_id, {_VERDICT} from run join candidate made on made.skill_id = run.skill_id"
    " where run.id = ?1 and made.origin <> 'step' and made.created_at < run.created_at"
    " order by made.rowid desc"
)
_REJECTED = (
    "select made.id from candidate made where made.skill_id = ?1 and made.origin <> 'step'"
    " and (select verdict from decision where decision.skill_id = made.skill_id and gate = ?2"
    " and decision.base_version = made.base_version and decision.version_id = made.version_id"
    f" and not {IS_SIMULATED} order by decision.id desc limit 1) not in {_ACCEPTED}"
    " order by made.rowid desc limit ?3"
)


class EarlierVerdict(NamedTuple):
    """A candidate, and a gate's verdict on it when a run began; None where it had none that counts for the run."""

    candidate_id: str
    version_id: str
    verdict: str | None


class Discarding:
    """Of the candidates of a skill: where they stood when a run of it began, and which a gate did not accept."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def list_standing(self, run_id: str, gate: str) -> list[EarlierVerdict]:
        """Return the candidates that were there when a run began, the newest first."""
        return [EarlierVerdict(*row) for row in self._pool.rows(_MADE, [run_id, gate])]

    def list_rejected(self, skill_id: int, gate: str, n: int) -> list[str]:
        """Return the `n` newest candidates of a skill that a gate did not accept with a real model, newest first."""
        return [str(row[0]) for row in self._pool.rows(_REJECTED, [skill_id, gate, n])]

    def begun_at(self, run_id: str) -> str:
        """Return when a run began (UTC); empty for none."""
        return self._pool.text("select created_at from run where id = ?", [run_id])


_OF_SKILL = (
    "select json_extract(inputs, '$.kind'), base_version, version_id, reason, created_at, verdict from decision"
    " where skill_id = ? and gate = ? order by id desc"
)
_N_OF_CHANGE = "select count(*) from decision where gate = ? and scope = ?"


class Refusal(NamedTuple):
    """A refusal of one change of a live file: who refused, when (UTC), and whether it was surely a person."""

    kind: PromotionKind
    from_version: str
    to_version: str
    by: str
    at: str
    verdict: PersonVerdict


class Refusals:
    """Of table decision, those of people."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add_refusal(self, asked: Approval, by: str, verdict: PersonVerdict) -> None:
        """Store a refusal of a change; each is a decision of its own."""
        # Not the promotion test: its newest decision is its gate's.
        scope = f"{asked.kind} {candidate_id(asked.skill_id, asked.from_version, asked.to_version)}"
        with self._pool.write() as connection:
            [n] = connection.execute(_N_OF_CHANGE, [PERSON, scope]).fetchone()
            inputs = PersonInputs(kind=asked.kind, evidence=asked.evidence, n=n + 1, verdict=verdict)
            versions, kept = (asked.from_version, asked.to_version), inputs.model_dump_json()
            insert_decision(connection, Decision(asked.skill_id, PERSON, *versions, scope, verdict, by, kept))

    def list_refusals(self, skill_id: int) -> list[Refusal]:
        """Return the refusals of changes of a skill, the newest first."""
        return [Refusal(*row) for row in self._pool.rows(_OF_SKILL, [skill_id, PERSON])]

    def last_refusal(self, asked: Approval, verdict: PersonVerdict = "declined") -> Refusal | None:
        """Return the newest refusal of a change, whatever evidence it was shown with, or None."""
        change = (asked.kind, asked.from_version, asked.to_version)
        found = (each for each in self.list_refusals(asked.skill_id) if each.verdict == verdict)
        return next((each for each in found if each[:3] == change), None)
