"""Erasing at rest: attempts whose texts a person took out, and the replies that were given to what showed them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from skillopt_mcp.store.pool import Pool

_PAGE = 500
_DOOMED = "id in (select value from json_each(?)) and id not in (select trajectory_id from erased)"
_GOES_ON = "(run.status = 'running' or run.status = 'stopped' and run.kind = 'replay')"
# A proposal that was given up may yet be at work in the process that it was taken from.
_HOLDING = (
    f"select run.id, {_GOES_ON} from run, json_each(run.sessions) held"
    " where held.value in (select value from json_each(?)) and run.status <> 'finished'"
    " group by run.id order by run.rowid"
)


class Doomed(NamedTuple):
    """An attempt that is to be erased, and how long its texts are, in characters."""

    id: int
    skill_id: int
    session_id: str | None
    created_at: str
    n_chars: int


class Shown(NamedTuple):
    """A call whose evidence held some of the attempts, who sends it, and whether its reply is there, and has a text."""

    id: int
    scope: str
    owner: str
    is_answered: bool
    has_text: bool


class Erasing:
    """Table erased; of trajectory, reply and lease, what an erasure takes out."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def find_erased(self, ids: Collection[int] | None = None) -> dict[int, tuple[int, str, str | None, str, str]]:
        """What is left of those of these attempts that were erased, or of all that were, by their ids.

        Each is (skill, version, session, time of its record, time of its erasure).
        """
        among = "" if ids is None else "where e.trajectory_id in (select value from json_each(?))"
        rows = self._pool.rows(
            "select t.id, t.skill_id, t.version_id, t.session_id, t.created_at, e.created_at from erased e"
            f" join trajectory t on t.id = e.trajectory_id {among}",
            [] if ids is None else [json.dumps(list(ids))],
        )
        return {row[0]: row[1:] for row in rows}

    def choose(self, skill_id: int, session: str | None = None, before: str | None = None) -> list[int]:
        """The attempts of a skill, where these are given of a session and before a time, that are not erased yet."""
        rows = self._pool.rows(
            "select id from trajectory where skill_id = ?1 and (?2 is null or session_id = ?2)"
            " and (?3 is null or created_at < ?3) and id not in (select trajectory_id from erased) order by id",
            [skill_id, session, before],
        )
        return [row[0] for row in rows]

    def walk_doomed(self, ids: Sequence[int]) -> Iterator[Doomed]:
        """Yield those of the attempts that are there and not erased yet."""
        sql = (
            "select id, skill_id, session_id, created_at,"
            f" length(prompt) + length(answer) + length(reason) + length(messages) from trajectory where {_DOOMED}"
        )
        for start in range(0, len(ids), _PAGE):
            for row in self._pool.rows(f"{sql} order by id", [json.dumps(ids[start : start + _PAGE])]):
                yield Doomed(*row)

    def list_shown(self, ids: Collection[int]) -> list[Shown]:
        """The calls whose evidence held some of these attempts."""
        names = {f"trajectory:{each}" for each in ids}
        found, after = list[Shown](), 0
        sql = (
            "select c.id, c.refs, c.scope, c.owner, r.call_id is not null, r.text <> '' or r.messages <> '[]'"
            " from call c left join reply r on r.call_id = c.id"
            " where c.id > ? and c.refs like '%trajectory:%' order by c.id limit ?"
        )
        while names and (page := self._pool.rows(sql, [after, _PAGE])):
            after = page[-1][0]
            for call_id, refs, scope, owner, is_answered, has_text in page:
                if not names.isdisjoint(str(refs).split()):
                    found.append(Shown(call_id, str(scope), str(owner), bool(is_answered), bool(has_text)))
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
            of_these = "call_id in (select value from json_each(?))"
            connection.execute(
                f"update lease set state = 'withdrawn' where state in ('out', 'failed') and {of_these}", [chosen]
            )
            with_text = f"{of_these} and (text <> '' or messages <> '[]')"
            n_replies = connection.execute(
                f"update reply set text = '', messages = '[]' where {with_text}", [chosen]
            ).rowcount
            leases = connection.execute(f"select id from lease where {of_these}", [chosen]).fetchall()
        return n_replies, [str(row[0]) for row in leases]

    def erase(self, ids: Sequence[int], held: Collection[str] = ()) -> int | None:
        """Take the texts of attempts out, in one transaction; return of how many: those that had been are none.

        None, and nothing is changed, where a run that is not among those `held` may see some of them. What a session is
        known to have seen stays known.
        """
        with self._pool.write() as connection:
            if any(run not in held for run, _ in connection.execute(_HOLDING, [json.dumps(ids)]).fetchall()):
                return None
            chosen = json.dumps(ids)
            empty = "prompt = '', answer = '', reason = '', messages = '[]'"
            n = connection.execute(f"update trajectory set {empty} where {_DOOMED}", [chosen]).rowcount
            connection.execute(
                "insert into erased(trajectory_id, at) select id, coalesce((select e.at from episode e where"
                " e.skill_id = t.skill_id and e.session = t.session_id"
                " and t.position between e.position and e.last_position), '') from trajectory t"
                f" where {_DOOMED} order by id",
                [chosen],
            )
            return n
