"""Trajectories at rest: the attempts of sessions, each stored once, and what learning looks back on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from skillopt_mcp.core.calls import parse_messages
from skillopt_mcp.core.evidence import Trajectory
from skillopt_mcp.store.events import now
from skillopt_mcp.store.pending import IS_THERE, LATELY, MOST_COUNTED, NOT_HELD_OUT
from skillopt_mcp.store.pool import Connection, Pool, Row

WHOLE = (
    "select skill_id, version_id, session_id, position, prompt, answer, hard, soft, reason, messages, created_at"
    f" from trajectory where id = ? and {IS_THERE}"
)


def trajectory_of(trajectory_id: int, row: Row) -> Trajectory:
    """Return the attempt that a row of WHOLE holds."""
    _, _, session, _, prompt, answer, hard, soft, reason, messages, *_ = row
    return Trajectory(
        id=f"trajectory:{trajectory_id}",
        prompt=str(prompt),
        answer=str(answer),
        messages=parse_messages(str(messages)),
        hard=None if hard is None else bool(hard),
        soft=soft,
        reason=str(reason),
        source="session",
        session=str(session or ""),
    )


@dataclass(frozen=True, slots=True)
class NewTrajectory:
    """A trajectory before it is stored; `messages` is json as `core.calls.messages_json` writes it.

    Where a stored task of the skill is called `task_name`, that task's prompt is what was asked, and not `prompt`.
    """

    prompt: str
    answer: str
    hard: bool | None
    soft: float | None
    reason: str
    messages: str
    session_id: str | None = None
    position: int | None = None
    task_name: str | None = None


Scoring = Literal["scored", "corrected", "same", "unexplained", "learned from", "erased"]
"""The outcome of a score: with the last four the attempt stays as it was."""


class _Counted(NamedTuple):
    """So many trajectories of a skill have ids above `n_seen` and up to `last_id`; `erasure` was the last by then."""

    n_seen: int
    last_id: int
    n: int
    erasure: int


class Trajectories:
    """Table trajectory; of trial, what was rolled out on train tasks."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._counted: dict[int, _Counted] = {}

    def add_trajectory(self, skill_id: int, version_id: str, new: NewTrajectory) -> tuple[int, bool, int]:
        """Store a trajectory once per (session_id, position).

        Returns its id, whether it is new, and the number of trajectories since the last proposal.
        """
        with self._pool.write(evidence=True) as connection:
            known, prompt = self._look_up(connection, skill_id, new.task_name)
            values = (
                skill_id, version_id, new.session_id, new.position, new.prompt if prompt is None else prompt,
                new.answer, None if new.hard is None else int(new.hard), new.soft, new.reason, new.messages, now(),
            )  # fmt: skip
            cursor = connection.execute(
                "insert into trajectory(skill_id, version_id, session_id, position, prompt, answer, hard, soft, reason,"
                " messages, created_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " on conflict(skill_id, session_id, position)"
                " where session_id is not null and position is not null do nothing",
                values,
            )
            added = bool(cursor.rowcount)
            if added:
                trajectory_id = int(cursor.lastrowid or 0)
            else:
                trajectory_id = connection.execute(
                    "select id from trajectory where skill_id = ? and session_id = ? and position = ?",
                    [skill_id, new.session_id, new.position],
                ).fetchone()[0]
        if added:
            known = known._replace(last_id=trajectory_id, n=min(known.n + 1, MOST_COUNTED))
            self._counted[skill_id] = known
        return trajectory_id, added, known.n

    def score_trajectory(
        self, skill_id: int, trajectory_id: int, score: tuple[bool | None, float | None], reason: str
    ) -> Scoring | None:
        """Set the (hard, soft) of an attempt, and add the reason to its reason.

        A score is only corrected with a reason, to which the score before is added, and while no run holds the attempt.
        Returns the outcome, None where there is no such attempt.
        """
        new = (None if score[0] is None else int(score[0]), score[1])
        with self._pool.write() as connection:
            row = _own(connection, skill_id, trajectory_id)
            if row is None:
                return "erased" if connection.execute(_IS_ERASED, [trajectory_id, skill_id]).fetchone() else None
            was_scored = row[6] is not None
            if was_scored and tuple(row[6:8]) == new:
                return "same"
            if was_scored and not reason:
                return "unexplained"
            if was_scored and connection.execute(_IN_A_RUN, [skill_id, trajectory_id]).fetchone():
                return "learned from"
            why = f"(corrected; before: hard {row[6]!s}, soft {row[7]!s}) {reason}" if was_scored else reason
            connection.execute(
                "update trajectory set hard = ?, soft = ?, reason = ? where id = ?",
                [*new, "\n".join(filter(None, [str(row[8]), why])), trajectory_id],
            )
        return "corrected" if was_scored else "scored"

    def attach_transcript(self, skill_id: int, trajectory_id: int, new: NewTrajectory) -> None:
        """Put the messages of an attempt to it, and its answer and its place in the session where it has none.

        An attempt that has messages, or that a run holds, stays as it is.
        """
        with self._pool.write() as connection:
            row = _own(connection, skill_id, trajectory_id)
            if row is None or parse_messages(str(row[9])):
                return
            if connection.execute(_IN_A_RUN, [skill_id, trajectory_id]).fetchone():
                return
            placed = row[2:4] if row[3] is not None else (new.session_id, new.position)
            connection.execute(
                "update or ignore trajectory set session_id = ?, position = ?, answer = ?, messages = ? where id = ?",
                [*placed, row[5] or new.answer, new.messages, trajectory_id],
            )

    def get_trajectory(self, trajectory_id: int) -> tuple[int, Trajectory] | None:
        """Return the skill's id and the trajectory, or None: also of one that was erased."""
        row = self._pool.row(WHOLE, [trajectory_id])
        return (row[0], trajectory_of(trajectory_id, row)) if row else None

    def is_held_out(self, skill_id: int, trajectory_id: int) -> bool:
        """Whether an attempt tried a held-out task of a skill, or one was drafted from it."""
        sql = f"select 1 from trajectory t where skill_id = ?1 and id = ?2 and not ({_NOT_HELD_OUT})"
        return self._pool.row(sql, [skill_id, trajectory_id]) is not None

    def is_erased(self, skill_id: int, trajectory_id: int) -> bool:
        """Whether an attempt of a skill was erased."""
        return self._pool.row(_IS_ERASED, [trajectory_id, skill_id]) is not None

    def version_of(self, trajectory_id: int) -> str:
        """Return the version of the skill that an attempt was made with; empty where there is no such attempt."""
        return self._pool.text("select version_id from trajectory where id = ?", [trajectory_id])

    def count_trajectories(self, skill_id: int) -> tuple[int, int]:
        """How many trajectories a skill has, and how many of them came since its last proposal."""
        total = self._pool.number("select count(*) from trajectory where skill_id = ?", [skill_id])
        return total, self._pool.number(_N_NEW, [skill_id, MOST_COUNTED])

    def count_new_scored(self, skill_id: int, n: int) -> int:
        """How many of the last thousand trajectories are new since a proposal, and scored; `n` at most."""
        return self._pool.number(_N_NEW_SCORED, [skill_id, n])

    def mark_seen(self, skill_id: int, before: int | None = None) -> None:
        """Note that a proposal has seen every trajectory so far, or failed: those from `before` on are new again."""
        newest = "coalesce((select max(id) from trajectory where skill_id = ?1), 0)"
        with self._pool.write() as connection:
            connection.execute(
                f"update skill set n_seen = iif(?2 is null, {newest}, min(n_seen, ?2 - 1)) where id = ?1",
                [skill_id, before],
            )

    def recent_trajectories(self, skill_id: int, n: int, *, is_scored: bool = True) -> list[int]:
        """The ids of the `n` newest attempts with a score, or without one among the last thousand; oldest first.

        None tried a held-out task, or is what one was drafted from: nothing is learned from those.
        """
        unscored = f"{LATELY.format('?1')} where n.hard is null"
        of_these = "trajectory t where hard is not null" if is_scored else unscored
        rows = self._pool.rows(
            f"select id from {of_these} and skill_id = ?1 and {IS_THERE} and {_NOT_HELD_OUT} order by id desc limit ?2",
            [skill_id, n],
        )
        return [row[0] for row in reversed(rows)]

    def _look_up(self, connection: Connection, skill_id: int, task_name: str | None) -> tuple[_Counted, str | None]:
        """How many came since the last proposal of a skill, and the prompt of its task so named.

        They are counted on from the last record of this process, as long as there was no other proposal or erasure.
        """
        # Four statements: a single one would be planned again each time, which takes ten times as long.
        [n_seen] = connection.execute("select n_seen from skill where id = ?", [skill_id]).fetchone()
        [erasure] = connection.execute("select coalesce(max(id), 0) from erased").fetchone()
        known = self._counted.get(skill_id)
        if known is None or (known.n_seen, known.erasure) != (n_seen, erasure):
            known = _Counted(n_seen, n_seen, 0, erasure)
            [n_more] = connection.execute(_N_NEW, [skill_id, MOST_COUNTED]).fetchone()
        else:  # few: what others recorded since this process did last
            [n_more] = connection.execute(_N_AFTER, [skill_id, known.last_id]).fetchone()
        named = connection.execute("select prompt from task where skill_id = ? and name = ?", [skill_id, task_name])
        [prompt] = named.fetchone() or [None]
        return known._replace(n=min(known.n + n_more, MOST_COUNTED)), prompt


_NOT_HELD_OUT = NOT_HELD_OUT.format("?1")
_IS_ERASED = f"select 1 from trajectory where id = ? and skill_id = ? and not {IS_THERE}"
_IN_A_RUN = "select 1 from run, json_each(run.sessions) held where run.skill_id = ? and held.value = ? limit 1"
_N_NEW = (
    "select count(*) from (select id from trajectory where skill_id = ?1"
    " and id > (select n_seen from skill where id = ?1) order by id desc limit ?2)"
    f" where {IS_THERE}"
)
_N_NEW_SCORED = (
    "select count(*) from (select 1 from (select id, hard from trajectory where skill_id = ?1"
    " and id > (select n_seen from skill where id = ?1) order by id desc limit 1000)"
    f" where hard is not null and {IS_THERE} limit ?2)"
)
_N_AFTER = f"select count(*) from trajectory where skill_id = ? and id > ? and {IS_THERE}"


def _own(connection: Connection, skill_id: int, trajectory_id: int) -> Row | None:
    """Return a row of WHOLE, None where the skill has no such attempt, or it was erased."""
    row: Row | None = connection.execute(WHOLE, [trajectory_id]).fetchone()
    return row if row and row[0] == skill_id else None
