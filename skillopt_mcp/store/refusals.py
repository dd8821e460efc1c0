"""Refusals at rest: the changes that a person was asked about, and the no to them, as decisions of theirs."""

from __future__ import annotations

from typing import NamedTuple

from skillopt_mcp.gates.recompute import PERSON, PersonInputs, PersonVerdict
from skillopt_mcp.records.candidates import Approval, Decision, PromotionKind, candidate_id
from skillopt_mcp.store.decisions import insert_decision
from skillopt_mcp.store.pool import Pool

_OF_SKILL = (
    "select json_extract(inputs, '$.kind'), base_version, version_id, reason, created_at, verdict from decision"
    " where skill_id = ? and gate = ? order by id desc"
)
_N_OF_CHANGE = "select count(*) from decision where gate = ? and scope = ?"


class Refusal(NamedTuple):
    """A no to one change of a live file: who said it, when (UTC), and whether it was surely a person."""

    kind: PromotionKind
    from_version: str
    to_version: str
    said: str
    at: str
    verdict: PersonVerdict


class Refusals:
    """Of table decision, those of people."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add_refusal(self, asked: Approval, said: str, verdict: PersonVerdict) -> None:
        """Store a no to a change; each time is a decision of its own."""
        # Not the promotion test: its newest decision is its gate's.
        scope = f"{asked.kind} {candidate_id(asked.skill_id, asked.from_version, asked.to_version)}"
        with self._pool.write() as connection:
            [n] = connection.execute(_N_OF_CHANGE, [PERSON, scope]).fetchone()
            inputs = PersonInputs(kind=asked.kind, evidence=asked.evidence, n=n + 1, verdict=verdict)
            versions, kept = (asked.from_version, asked.to_version), inputs.model_dump_json()
            insert_decision(connection, Decision(asked.skill_id, PERSON, *versions, scope, verdict, said, kept))

    def list_refusals(self, skill_id: int) -> list[Refusal]:
        """Return each no to a change of a skill, the newest first."""
        return [Refusal(*row) for row in self._pool.rows(_OF_SKILL, [skill_id, PERSON])]  # type: ignore[arg-type]

    def last_refusal(self, asked: Approval, verdict: PersonVerdict = "declined") -> Refusal | None:
        """Return the newest no to a change, whatever it was shown with; None where nobody said no."""
        change = (asked.kind, asked.from_version, asked.to_version)
        found = (each for each in self.list_refusals(asked.skill_id) if each.verdict == verdict)
        return next((each for each in found if each[:3] == change), None)
