"""Promotions at rest: what a person agreed to, the journal of a change while it happens, and the history afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skillopt_mcp.core.candidates import (
    Approval,
    Promotion,
    PromotionKind,
    find_undone,
)
from skillopt_mcp.store.events import append
from skillopt_mcp.store.permissions import Permission
from skillopt_mcp.store.pool import Connection, Pool, Value

_UNUSED = "not exists (select 1 from promotion where approval_id = approval.id)"


class UnusedApproval(NamedTuple):
    """An approval that no change has used up; `shown` are the digests of the findings that the person saw."""

    id: int
    kind: PromotionKind
    from_version: str
    to_version: str
    evidence: str
    login: str
    at: str
    shown: str


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
                [new.skill_id, new.kind, new.from_version, new.to_version, " ".join(sorted(new.finding_digests)),
                 new.evidence, new.login],
            )  # fmt: skip
            approval_id = int(cursor.lastrowid or 0)
            append(connection, "approval_given", approval_id)
        return approval_id

    def find_unused(self, wanted: Approval) -> tuple[int, str] | None:
        """Return the id and the login of an unused approval of this change, or None.

        It may have been shown with more findings, as what is known to be a secret differs by process; never with fewer.
        """
        change = (wanted.kind, wanted.from_version, wanted.to_version, wanted.evidence)
        for each in self.list_unused(wanted.skill_id):
            if each[1:5] == change and wanted.finding_digests <= set(each.shown.split()):
                return each.id, each.login
        return None

    def list_unused(self, skill_id: int) -> list[UnusedApproval]:
        """The unused approvals of a skill, the oldest first."""
        rows = self._pool.rows(
            "select id, kind, from_version, to_version, evidence, login, created_at, findings from approval"
            f" where skill_id = ? and {_UNUSED} order by id",
            [skill_id],
        )
        return [UnusedApproval(*row) for row in rows]

    def drop(self, skill_id: int, approval_id: int) -> None:
        """Take back one approval, unless a change has used it up."""
        with self._pool.write() as connection:
            _withdraw_unused(connection, "skill_id = ? and id = ?", [skill_id, approval_id])


def _withdraw_unused(connection: Connection, condition: str, values: Sequence[Value]) -> None:
    where = f"where {condition} and {_UNUSED}"
    taken = connection.execute(f"select id from approval {where}", values).fetchall()
    connection.execute(f"delete from approval {where}", values)
    for [approval_id] in taken:
        append(connection, "approval_withdrawn", approval_id)


_PROMOTION = (
    "select id, skill_id, kind, candidate_id, from_version, to_version, state, verdict, agreed_by, agreed_on, login,"
    " created_at from promotion"
)
_DONE = f"{_PROMOTION} where skill_id = ? and state = 'done' order by id desc"


class Promotions:
    """Table promotion."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def begin(
        self, new: Promotion, approval_id: int | None = None, permission: Permission | None = None
    ) -> Promotion | None:
        """Write the journal row of a change that is about to happen; `id`, `state` and time of `new` are ignored.

        It uses up the approval that it rests on. Returns None when that, or the standing permission, is gone by now.
        """
        with self._pool.write() as connection:
            unused = f"select 1 from approval where id = ? and {_UNUSED}"
            if approval_id is not None and not connection.execute(unused, [approval_id]).fetchone():
                return None
            if permission is not None:
                sql = "select 1 from permission where skill_id = ? and granted_by = ? and simulated = ?"
                given = [new.skill_id, permission.granted_by, int(permission.simulated)]
                if not connection.execute(sql, given).fetchone():
                    return None
            cursor = connection.execute(
                "insert into promotion(skill_id, kind, candidate_id, from_version, to_version, state, verdict,"
                " agreed_by, agreed_on, login, approval_id) values (?, ?, ?, ?, ?, 'pending', ?, ?, ?, ?, ?)",
                [new.skill_id, new.kind, new.candidate_id, new.from_version, new.to_version, new.verdict,
                 new.agreed_by, new.agreed_on, new.login, approval_id],
            )  # fmt: skip
            row = connection.execute(f"{_PROMOTION} where id = ?", [cursor.lastrowid]).fetchone()
            append(connection, "promotion_begun", row[0])
        return Promotion(*row)

    def finish(self, promotion: Promotion) -> None:
        """Note that the files hold the new version, which is now live and best.

        A person's rollback withdraws the unused approvals of what it undid.
        """
        with self._pool.write() as connection:
            connection.execute("update promotion set state = 'done' where id = ?", [promotion.id])
            connection.execute(
                "update skill set live_version = ?, best_version = ? where id = ?",
                [promotion.to_version, promotion.to_version, promotion.skill_id],
            )
            if promotion.is_persons_rollback:
                changes = [Promotion(*row) for row in connection.execute(_DONE, [promotion.skill_id]).fetchall()]
                for version in find_undone(changes):
                    where = "skill_id = ? and to_version = ?"
                    _withdraw_unused(connection, where, [promotion.skill_id, version])
            append(connection, "promotion_finished", promotion.id)

    def undo(self, promotion: Promotion, *, is_done: bool = True) -> None:
        """Note that the change did not happen, and the approval that it rested on is unused again.

        Before that `is_done`, that it has failed: from here on it is taken back, and never finished.
        """
        change = "state = 'undone', approval_id = null" if is_done else "state = 'undoing'"
        with self._pool.write() as connection:
            connection.execute(f"update promotion set {change} where id = ?", [promotion.id])
            append(connection, "promotion_taken_back" if is_done else "promotion_given_up", promotion.id)

    def list_pending(self) -> list[Promotion]:
        """Return the changes that were begun and neither finished nor undone."""
        rows = self._pool.rows(f"{_PROMOTION} where state in ('pending', 'undoing') order by id")
        return [Promotion(*row) for row in rows]

    def last_begun(self, path: str) -> Promotion | None:
        """Return the newest change of the skill at a path, whatever came of it, or None."""
        at = "skill_id = (select id from skill where path = ?)"
        row = self._pool.row(f"{_PROMOTION} where {at} order by id desc limit 1", [path])
        return Promotion(*row) if row else None

    def list_unseen(self) -> dict[int, list[Promotion]]:
        """Return by skill what a permission alone changed since a person last looked or agreed, newest first."""
        since = (
            "select coalesce(max(id), 0) from promotion p where p.skill_id = promotion.skill_id and state = 'done'"
            " and (agreed_by = 'person' or seen_at is not null)"
        )
        found = dict[int, list[Promotion]]()
        unseen = f"state = 'done' and agreed_by = 'permission' and id > ({since})"
        for row in self._pool.rows(f"{_PROMOTION} where {unseen} order by id desc"):
            found.setdefault(row[1], []).append(Promotion(*row))
        return found

    def note_seen(self, skill_id: int) -> None:
        """Note that a person has looked at what is live of a skill."""
        if changes := self.list_unseen().get(skill_id):
            now = "strftime('%Y-%m-%dT%H:%M:%fZ')"
            with self._pool.write() as connection:
                connection.execute(f"update promotion set seen_at = {now} where id = ?", [changes[0].id])

    def list_promotions(self, skill_id: int) -> list[Promotion]:
        """Return the changes of a skill that happened, newest first."""
        return [Promotion(*row) for row in self._pool.rows(_DONE, [skill_id])]
