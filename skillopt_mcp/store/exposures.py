"""Exposures at rest: which session of a host knows which task; what it answers there is evidence of a weaker kind."""

from __future__ import annotations

import string
from collections.abc import Iterable

from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.pool import Pool

_ASKED, _GIVEN = (f"trim({text}, char(9, 10, 11, 12, 13, 32))" for text in ("prompt", "?2"))
ASKS = (
    f"skill_id = ?1 and length({_ASKED}) = length({_GIVEN}) and substr({_ASKED}, -32) = substr({_GIVEN}, -32)"
    f" and {_ASKED} = {_GIVEN}"
)
"""Whether a row of task is one of skill ?1 that asks ?2, whatever blanks surround it; for the index task_by_prompt."""
# A session knows a task that it added, or recorded an attempt at. Attempts without a place in their session are in
# exposure alone: without it no index finds them, and a store may hold a million.
KNOWS = (
    "(exists (select 1 from exposure e where e.task_id = l.task_id and e.session = {who})"
    " or exists (select 1 from task k join trajectory t on t.skill_id = k.skill_id"
    " where k.id = l.task_id and t.session_id = {who} and t.session_id is not null and t.position is not null"
    " and trim(t.prompt, ?2) = trim(k.prompt, ?2)))"
)
"""Whether the session {who} knows the task of lease `l`; ?2 are all blanks."""
_EXPOSED = (
    f"select 1 from lease l where l.scope = ?1 and l.state = 'answered' and {KNOWS.format(who='l.session')} limit 1"
)
_NEWLY_KNOWN = (
    f"select id from task where {ASKS} and not exists (select 1 from exposure where task_id = task.id and session = ?3)"
)


class Exposures:
    """Table exposure."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def expose(self, skill_id: int, digests: Iterable[str], session: str) -> None:
        """Note that a session knows the tasks of a skill that have these digests."""
        with self._pool.write() as connection:
            connection.executemany(
                "insert into exposure(task_id, session) select id, ? from task where skill_id = ? and digest = ?"
                " on conflict do nothing",
                [(session, skill_id, digest) for digest in digests],
            )

    def exposed(self, scope: str) -> bool:
        """Return whether a session that answered for a scope knew a task that it was given there."""
        return self._pool.row(_EXPOSED, [scope, string.whitespace]) is not None


def expose_asked(connection: Connection, skill_id: int, prompt: str, session: str) -> None:
    """Note within the caller's transaction that a session knows the tasks of a skill that ask this."""
    asked = connection.execute(_NEWLY_KNOWN, [skill_id, prompt, session]).fetchall()
    for [task_id] in asked:
        connection.execute("insert into exposure(task_id, session) values (?, ?)", [task_id, session])
