"""Erasing at rest: attempts whose texts a person took out, and the replies that were given to what showed them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from skillopt_mcp.store.pool import Pool, Value

_PAGE = 500
_DOOMED = (
    "select t.id, t.skill_id, t.session_id, t.created_at,"
    " length(t.prompt) + length(t.answer) + length(t.reason) + length(t.messages) from trajectory t"
    " where t.id in (select value from json_each(?)) and t.id not in (select trajectory_id from erased) order by t.id"
)
_CALLS = (
    "select c.id, c.scope, c.owner, c.refs, exists (select 1 from reply r where r.call_id = c.id) from call c"
    " where c.id > ? and c.refs like '%trajectory:%' order by c.id limit ?"
)
_WITH_TEXT = "call_id in (select value from json_each(?)) and (text <> '' or messages <> '[]')"
_EMPTY_REPLIES = f"update reply set text = '', messages = '[]' where {_WITH_TEXT}"
_WITHDRAW = (
    "update lease set state = 'withdrawn' where state in ('out', 'failed')"
    " and call_id in (select value from json_each(?))"
)
_LEASES = "select id from lease where call_id in (select value from json_each(?))"
_EMPTY = (
    "update trajectory set prompt = '', answer = '', reason = '', messages = '[]'"
    " where id in (select value from json_each(?)) and id not in (select trajectory_id from erased)"
)
_NOTE_ERASED = (
    "insert into erased(trajectory_id) select id from trajectory"
    " where id in (select value from json_each(?)) and id not in (select trajectory_id from erased) order by id"
)
_GOES_ON = "(run.status = 'running' or run.status = 'stopped' and run.kind = 'replay')"
# A proposal that was given up may yet be at work in the process that it was taken from.
_HOLDING = (
    f"select run.id, {_GOES_ON} from run, json_each(run.sessions) held"
    " where held.value in (select value from json_each(?)) and run.status <> 'finished'"
    " group by run.id order by run.rowid"
)


class Tombstone(NamedTuple):
    """What is left of an erased attempt: its skill, version and session, and when it was recorded and erased."""

    skill_id: int
    version_id: str
    session_id: str | None
    recorded_at: str
    erased_at: str


class Doomed(NamedTuple):
    """An attempt that is to be erased, and how long its texts are, in characters."""

    id: int
    skill_id: int
    session_id: str | None
    created_at: str
    n_chars: int


class Shown(NamedTuple):
    """A call whose evidence held some of the attempts, who sends it, and whether it was answered."""

    id: int
    scope: str
    owner: str
    is_answered: bool


@dataclass(frozen=True, slots=True)
class ErasureFilter:
    """Which attempts of a skill are meant: all of them that meet each of these."""

    session: str | None = None
    before: str | None = None


class Erasing:
    """Table erased; of trajectory, reply and lease, what an erasure takes out."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def get_tombstone(self, trajectory_id: int) -> Tombstone | None:
        """Return what is left of an attempt that was erased, None where none was."""
        row = self._pool.row(
            "select t.skill_id, t.version_id, t.session_id, t.created_at, e.created_at from erased e"
            " join trajectory t on t.id = e.trajectory_id where e.trajectory_id = ?",
            [trajectory_id],
        )
        return Tombstone(*row) if row else None

    def choose(self, skill_id: int, choice: ErasureFilter) -> list[int]:
        """Return the attempts of a skill that are meant, and not erased yet."""
        where = ["skill_id = ?", "id not in (select trajectory_id from erased)"]
        values: list[Value] = [skill_id]
        if choice.session is not None:
            where.append("session_id = ?")
            values.append(choice.session)
        if choice.before is not None:
            where.append("created_at < ?")
            values.append(choice.before)
        rows = self._pool.rows(f"select id from trajectory where {' and '.join(where)} order by id", values)
        return [row[0] for row in rows]

    def walk_doomed(self, ids: Sequence[int]) -> Iterator[Doomed]:
        """Yield those of the attempts that are there and not erased yet."""
        for start in range(0, len(ids), _PAGE):
            for row in self._pool.rows(_DOOMED, [json.dumps(ids[start : start + _PAGE])]):
                yield Doomed(*row)

    def list_erased(self) -> list[int]:
        """Return all attempts that were erased."""
        return [row[0] for row in self._pool.rows("select trajectory_id from erased")]

    def erased_of(self, ids: Collection[int]) -> frozenset[int]:
        """Return those of these attempts that were erased."""
        sql = "select trajectory_id from erased where trajectory_id in (select value from json_each(?))"
        return frozenset(row[0] for row in self._pool.rows(sql, [json.dumps(list(ids))]))

    def list_shown(self, ids: Collection[int]) -> list[Shown]:
        """Return the calls whose evidence held some of these attempts."""
        names = {f"trajectory:{each}" for each in ids}
        found, after = list[Shown](), 0
        while page := self._pool.rows(_CALLS, [after, _PAGE]):
            after = page[-1][0]
            for call_id, scope, owner, refs, is_answered in page:
                if not names.isdisjoint(str(refs).split()):
                    found.append(Shown(call_id, str(scope), str(owner), bool(is_answered)))
        return found

    def list_holding(self, ids: Sequence[int]) -> dict[str, bool]:
        """Return the unfinished runs that may see some of these attempts, the oldest first: whether each goes on."""
        return {str(run): bool(goes_on) for run, goes_on in self._pool.rows(_HOLDING, [json.dumps(ids)])}

    def list_made_of(self, ids: Collection[int]) -> list[str]:
        """Return the candidates with an edit that came from some of these attempts."""
        names = {f"trajectory:{each}" for each in ids}
        rows = self._pool.rows("select candidate_id, sources from edit where sources like '%trajectory:%'")
        made = [str(made) for made, sources in rows if not names.isdisjoint(json.loads(str(sources)))]
        return list(dict.fromkeys(made))

    def clear_calls(self, call_ids: Sequence[int]) -> tuple[int, list[str]]:
        """Empty the replies to calls, and end their leases, in one transaction.

        Returns how many replies had a text, and the ids of all leases. Tokens and cost stay.
        """
        chosen = json.dumps(call_ids)
        with self._pool.write() as connection:
            connection.execute(_WITHDRAW, [chosen])
            n_replies = connection.execute(_EMPTY_REPLIES, [chosen]).rowcount
            leases = [str(row[0]) for row in connection.execute(_LEASES, [chosen]).fetchall()]
        return n_replies, leases

    def count_answers(self, call_ids: Sequence[int]) -> int:
        """Return how many replies to these calls have a text."""
        return self._pool.number(f"select count(*) from reply where {_WITH_TEXT}", [json.dumps(call_ids)])

    def erase(self, ids: Sequence[int], held: Collection[str] = ()) -> int | None:
        """Take the texts of attempts out, in one transaction; return of how many: those that had been are none.

        None, and nothing is changed, where a run that is not among those `held` may see some of them. What a session is
        known to have seen stays known.
        """
        with self._pool.write() as connection:
            if any(run not in held for run, _ in connection.execute(_HOLDING, [json.dumps(ids)]).fetchall()):
                return None
            chosen = json.dumps(ids)
            n = connection.execute(_EMPTY, [chosen]).rowcount
            connection.execute(_NOTE_ERASED, [chosen])
            return n
