"""Approvals at rest: what a person agreed to, once, and whether it has been used since."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from skillopt_mcp.records.candidates import Approval, PromotionKind
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.events import append
from skillopt_mcp.store.pool import Pool, Value

_CHANGE = "skill_id = ? and kind = ? and from_version = ? and to_version = ?"
_UNUSED = "not exists (select 1 from promotion where approval_id = approval.id)"


@dataclass(frozen=True, slots=True)
class UnusedApproval:
    """An approval that no change has used up: of which change, by whose login, and when."""

    kind: PromotionKind
    from_version: str
    to_version: str
    login: str
    at: str


class Approvals:
    """Table approval."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add_approval(self, new: Approval) -> int:
        """Store that a person agreed to a change; return the id of that."""
        with self._pool.write() as connection:
            cursor = connection.execute(
                "insert into approval(skill_id, kind, from_version, to_version, findings, evidence, login)"
                " values (?, ?, ?, ?, ?, ?, ?)",
                [*_change(new), _shown(new), new.evidence, new.login],
            )
            approval_id = int(cursor.lastrowid or 0)
            append(connection, "approval_given", approval_id)
        return approval_id

    def find_unused(self, wanted: Approval) -> tuple[int, str] | None:
        """Return the id and the login of an unused approval of this change, or None.

        It may have been shown with more findings, as what is known to be a secret differs by process; never with fewer.
        """
        rows = self._pool.rows(
            f"select id, login, findings from approval where {_CHANGE} and evidence = ? and {_UNUSED} order by id",
            [*_change(wanted), wanted.evidence],
        )
        return next(((cast(int, id), str(by)) for id, by, shown in rows if _covers(str(shown), wanted)), None)

    def list_unused(self, skill_id: int) -> list[UnusedApproval]:
        """Return the unused approvals of a skill, the oldest first."""
        rows = self._pool.rows(
            "select kind, from_version, to_version, login, created_at from approval"
            f" where skill_id = ? and {_UNUSED} order by id",
            [skill_id],
        )
        return [
            UnusedApproval(cast(PromotionKind, kind), str(old), str(new), str(by), str(at))
            for kind, old, new, by, at in rows
        ]

    def drop(self, skill_id: int, approval_id: int) -> None:
        """Take back one approval, unless a change has used it up."""
        with self._pool.write() as connection:
            _remove_unused(connection, skill_id, "skill_id = ? and id = ?", [skill_id, approval_id])


def is_unused(connection: Connection, approval_id: int) -> bool:
    """Return, within the caller's transaction, whether an approval is there and no change has used it up."""
    found = connection.execute(f"select 1 from approval where id = ? and {_UNUSED}", [approval_id]).fetchone()
    return found is not None


def close_versions(connection: Connection, skill_id: int, versions: Collection[str]) -> None:
    """Take back, within the caller's transaction, every unused approval of a change that leads to these versions."""
    for version in versions:
        _remove_unused(connection, skill_id, "skill_id = ? and to_version = ?", [skill_id, version])


def _remove_unused(connection: Connection, skill_id: int, condition: str, values: Sequence[Value]) -> int:
    where = f"where {condition} and {_UNUSED}"
    taken = connection.execute(f"select id from approval {where}", values).fetchall()
    connection.execute(f"delete from approval {where}", values)
    for [approval_id] in taken:
        append(connection, "approval_withdrawn", approval_id)
    return len(taken)


def _shown(approval: Approval) -> str:
    """Return the digest of all findings together, which is what older releases kept alone, and of each."""
    return " ".join(dict.fromkeys([approval.findings_digest, *sorted(approval.finding_digests)]))


def _covers(shown: str, wanted: Approval) -> bool:
    digests = set(shown.split())
    return wanted.findings_digest in digests or wanted.finding_digests <= digests


def _change(approval: Approval) -> list[Value]:
    return [approval.skill_id, approval.kind, approval.from_version, approval.to_version]
