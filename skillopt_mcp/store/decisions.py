"""Decisions at rest: the verdicts of gates, and what people said no to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from skillopt_mcp.core.candidates import PERSON, Approval, Decision, PromotionKind, candidate_id
from skillopt_mcp.core.evidence import ACCEPTED
from skillopt_mcp.gates.recompute import PersonInputs, PersonVerdict
from skillopt_mcp.store.events import append
from skillopt_mcp.store.pending import IS_SIMULATED
from skillopt_mcp.store.pool import Connection, Pool

_DECISION = "select skill_id, gate, base_version, version_id, scope, verdict, reason, inputs from decision"
_PAGE = 500
_ACCEPTED = f"({', '.join(repr(verdict) for verdict in ACCEPTED)})"


class Decisions:
    """Table decision."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add_decision(self, decision: Decision) -> None:
        """Store a verdict; the same verdict on the same inputs is stored once."""
        with self._pool.write() as connection:
            insert_decision(connection, decision)

    def walk(self) -> Iterator[tuple[int, Decision]]:
        """Yield the decisions of all skills in order, as (id, decision)."""
        after, sql = 0, _DECISION.replace("select ", "select id, ", 1)
        while page := self._pool.rows(f"{sql} where id > ? order by id limit ?", [after, _PAGE]):
            yield from ((row[0], Decision(*row[1:])) for row in page)
            after = page[-1][0]

    def latest(self, skill_id: int, gate: str, base_version: str, version_id: str) -> Decision | None:
        """Return the decision of a gate on a version against a base that counts: the newest, but one that rests on real
        models before any simulated one.
        """
        row = self._pool.row(
            f"{_DECISION} where skill_id = ? and gate = ? and base_version = ? and version_id = ?"
            f" order by {IS_SIMULATED}, id desc limit 1",
            [skill_id, gate, base_version, version_id],
        )
        return Decision(*row) if row else None

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
        """Whether any decision of a gate accepted a version against a base, whatever others decided later."""
        row = self._pool.row(
            "select 1 from decision where skill_id = ? and gate = ? and base_version = ? and version_id = ?"
            f" and verdict in {_ACCEPTED} limit 1",
            [skill_id, gate, base_version, version_id],
        )
        return row is not None

    def latest_in(self, scope: str) -> Decision | None:
        """Return the newest decision of a scope: one step of a run, or a promotion test."""
        row = self._pool.row(f"{_DECISION} where scope = ? order by id desc limit 1", [scope])
        return Decision(*row) if row else None


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


_IS_ABOUT_MADE = (
    "decision.skill_id = made.skill_id and gate = ?2 and decision.base_version = made.base_version"
    " and decision.version_id = made.version_id"
)


class Discarding:
    """Of the candidates of a skill: where they stood when a run of it began, and which a gate did not accept."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def list_standing(self, run_id: str, gate: str) -> list[tuple[str, str, str | None]]:
        """The candidates that were there when a run began, the newest first: id, version, and the gate's verdict then.

        None is one without a verdict that counts: what a simulation rejected does not for a run with a real target.
        """
        verdict = (
            f"select verdict from decision where {_IS_ABOUT_MADE} and decision.created_at < run.created_at"
            f" and (run.target glob 'simulated*' or not {IS_SIMULATED})"
            f" order by {IS_SIMULATED}, decision.id desc limit 1"
        )
        return self._pool.rows(
            f"select made.id, made.version_id, ({verdict}) from run join candidate made on made.skill_id = run.skill_id"
            " where run.id = ?1 and made.origin <> 'step' and made.created_at < run.created_at"
            " order by made.rowid desc",
            [run_id, gate],
        )

    def list_rejected(self, skill_id: int, gate: str, n: int) -> list[str]:
        """Return the `n` newest candidates of a skill that a gate did not accept with a real model, newest first."""
        verdict = f"{_IS_ABOUT_MADE} and not {IS_SIMULATED} order by decision.id desc limit 1"
        rows = self._pool.rows(
            "select made.id from candidate made where made.skill_id = ?1 and made.origin <> 'step'"
            f" and (select verdict from decision where {verdict}) not in {_ACCEPTED} order by made.rowid desc limit ?3",
            [skill_id, gate, n],
        )
        return [str(row[0]) for row in rows]

    def get_start(self, run_id: str) -> str:
        """Return when a run began (UTC); empty for none."""
        return self._pool.text("select created_at from run where id = ?", [run_id])


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
            sql = "select count(*) from decision where gate = ? and scope = ?"
            [n] = connection.execute(sql, [PERSON, scope]).fetchone()
            inputs = PersonInputs(kind=asked.kind, evidence=asked.evidence, n=n + 1, verdict=verdict)
            versions, kept = (asked.from_version, asked.to_version), inputs.model_dump_json()
            insert_decision(connection, Decision(asked.skill_id, PERSON, *versions, scope, verdict, by, kept))

    def list_refusals(self, skill_id: int) -> list[Refusal]:
        """Return the refusals of changes of a skill, the newest first."""
        sql = (
            "select json_extract(inputs, '$.kind'), base_version, version_id, reason, created_at, verdict from decision"
            " where skill_id = ? and gate = ? order by id desc"
        )
        return [Refusal(*row) for row in self._pool.rows(sql, [skill_id, PERSON])]

    def last_refusal(self, asked: Approval, verdict: PersonVerdict = "declined") -> Refusal | None:
        """Return the newest refusal of a change, whatever evidence it was shown with, or None."""
        change = (asked.kind, asked.from_version, asked.to_version)
        found = (each for each in self.list_refusals(asked.skill_id) if each.verdict == verdict)
        return next((each for each in found if each[:3] == change), None)
