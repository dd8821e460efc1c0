"""Promotions at rest: the journal of a change while it happens, the history of the live file afterwards."""

from __future__ import annotations

from typing import cast

from skillopt_mcp.records.candidates import AgreedBy, AgreedOn, Promotion, PromotionKind, PromotionState, undone_by
from skillopt_mcp.store.approvals import close_versions, is_unused
from skillopt_mcp.store.events import append
from skillopt_mcp.store.permissions import Permission, is_granted
from skillopt_mcp.store.pool import Pool, Row

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
            if approval_id is not None and not is_unused(connection, approval_id):
                return None
            if permission is not None and not is_granted(connection, new.skill_id, permission):
                return None
            cursor = connection.execute(
                "insert into promotion(skill_id, kind, candidate_id, from_version, to_version, state, verdict,"
                " agreed_by, agreed_on, login, approval_id) values (?, ?, ?, ?, ?, 'pending', ?, ?, ?, ?, ?)",
                [new.skill_id, new.kind, new.candidate_id, new.from_version, new.to_version, new.verdict,
                 new.agreed_by, new.agreed_on, new.login, approval_id],
            )  # fmt: skip
            row = connection.execute(f"{_PROMOTION} where id = ?", [cursor.lastrowid]).fetchone()
            append(connection, "promotion_begun", row[0])
        return _promotion(row)

    def finish(self, promotion: Promotion) -> None:
        """Note that the files hold the new version, which is now live and best.

        Nobody's earlier agreement leads back to what a person has rolled back.
        """
        with self._pool.write() as connection:
            connection.execute("update promotion set state = 'done' where id = ?", [promotion.id])
            connection.execute(
                "update skill set live_version = ?, best_version = ? where id = ?",
                [promotion.to_version, promotion.to_version, promotion.skill_id],
            )
            if promotion.is_persons_rollback:
                changes = [_promotion(row) for row in connection.execute(_DONE, [promotion.skill_id]).fetchall()]
                close_versions(connection, promotion.skill_id, undone_by(changes))
            append(connection, "promotion_finished", promotion.id)

    def give_up(self, promotion: Promotion) -> None:
        """Note that the change has failed: from here on it is taken back, and never finished."""
        with self._pool.write() as connection:
            connection.execute("update promotion set state = 'undoing' where id = ?", [promotion.id])
            append(connection, "promotion_given_up", promotion.id)

    def undo(self, promotion: Promotion) -> None:
        """Note that the change did not happen; the approval that it rested on is unused again."""
        with self._pool.write() as connection:
            connection.execute("update promotion set state = 'undone', approval_id = null where id = ?", [promotion.id])
            append(connection, "promotion_taken_back", promotion.id)

    def list_pending(self) -> list[Promotion]:
        """Return the changes that were begun and neither finished nor undone."""
        return [_promotion(row) for row in self._pool.rows(f"{_PROMOTION} where state in ('pending', 'undoing') order by id")]

    def last_begun(self, path: str) -> Promotion | None:
        """Return the newest change of the skill at a path, whatever came of it, or None."""
        at = "skill_id = (select id from skill where path = ?)"
        row = self._pool.row(f"{_PROMOTION} where {at} order by id desc limit 1", [path])
        return _promotion(row) if row else None

    def list_promotions(self, skill_id: int) -> list[Promotion]:
        """Return the changes of a skill that happened, newest first."""
        return [_promotion(row) for row in self._pool.rows(_DONE, [skill_id])]


def _promotion(row: Row) -> Promotion:
    promotion_id, skill_id, kind, candidate, from_version, to_version, state, verdict, by, on, login, created = row
    return Promotion(
        id=cast(int, promotion_id),
        skill_id=cast(int, skill_id),
        kind=cast(PromotionKind, kind),
        candidate_id=cast(str | None, candidate),
        from_version=str(from_version),
        to_version=str(to_version),
        state=cast(PromotionState, state),
        verdict=str(verdict),
        agreed_by=cast(AgreedBy, by),
        agreed_on=cast(AgreedOn, on),
        login=str(login),
        created_at=str(created),
    )
