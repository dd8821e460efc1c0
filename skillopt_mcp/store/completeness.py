"""Completeness: whether rows of evidence are gone, each problem in words.

What an event records is told by its digest, and what another row refers to by the foreign keys. Of the rest, ids and
numbers are given out one after the other, and some rows are never without others. The last row of a table, or of a run
or a test within it, leaves no hole: only what rests on it may tell.
"""

from __future__ import annotations

from collections.abc import Iterator

from skillopt_mcp.store.pool import Pool

NUMBERED = ("trajectory", "trial", "attempt", "archive", "meta_note", "lease", "batch", "budget", "served")
"""The tables of which no row is ever deleted, and each new one gets the number after the highest.

An insert that is rolled back, or meets a row that is there, takes no number. Calls are numbered before it is known
which of them are new, and those of another process leave holes.
"""

# In one statement each: what is written together is read together.
_LACKING = (
    "select 'table pair: ' || (max(n) + 1 - count(*)) || ' of the ' || (max(n) + 1) || ' pairs of promotion test '"
    " || confirmation_id || ' are gone' from pair group by confirmation_id having count(*) <= max(n)",
    "select 'table step: ' || (max(n) - count(*)) || ' of the ' || max(n) || ' steps of run ' || run_id || ' are gone'"
    " from step group by run_id having count(*) < max(n)",
    "select 'table step: run ' || id || ' has ' || n || ' steps, it finished with ' || told from (select id,"
    " (select count(*) from step where run_id = run.id) n, json_array_length(result, '$.steps') told"
    " from run where status = 'finished' and json_valid(result)) where n < told",
    "select 'table finish: the row of the promotion test that run ' || id || ' came to is gone' from run"
    " where status = 'finished' and json_valid(result) and json_extract(result, '$.pairs_before') is not null"
    " and not exists (select 1 from finish where run_id = run.id)",
    "select 'table trajectory: row ' || held.value || ' is gone, which run ' || min(run.id) || ' saw' from run,"
    " json_each(run.sessions) held where held.value not in (select id from trajectory) group by held.value",
    "select 'table reply: the reply to call ' || call_id || ' is gone, on which trial ' || min(id) || ' rests'"
    " from trial where hard is not null and call_id not in (select call_id from reply) group by call_id",
    # What a judge said may be forgotten, and then be asked anew.
    "select 'table reply: the reply to call ' || call_id || ' is gone, which answered lease ' || min(l.id) from lease l"
    " join call on call.id = call_id and role <> 'judge' where state = 'answered'"
    " and call_id not in (select call_id from reply) group by call_id",
    # Calls have a sum since after there were budgets. A test may be charged to the runs that came to it.
    "select 'table budget: what ' || scope || ' has used is gone' from (select distinct scope from call) asked"
    " where scope not in (select id from budget)"
    " and not exists (select 1 from finish join budget on budget.id = run_id where confirmation_id = asked.scope)"
    " and exists (select 1 from call where call.scope = asked.scope and sum is not null)",
)


class Completeness:
    """All tables, as they are looked over for what is gone. StoreError where nobody can tell."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def problems(self) -> Iterator[str]:
        """Yield which rows are gone."""
        for table in NUMBERED:
            yield from self._holes(table)
        for sql in _LACKING:
            for [told] in self._pool.rows(sql):
                yield str(told)

    def _holes(self, table: str) -> Iterator[str]:
        [[n, highest]] = self._pool.rows(f"select count(*), coalesce(max(rowid), 0) from {table}")
        if n == highest:
            return
        holes = self._pool.rows(
            f"select coalesce((select max(rowid) from {table} below where below.rowid < after.rowid), 0) + 1,"
            f" after.rowid - 1 from {table} after where after.rowid > 1"
            f" and not exists (select 1 from {table} before where before.rowid = after.rowid - 1)"
        )
        for first, last in holes:
            which = f"row {first!s} is" if first == last else f"rows {first!s} to {last!s} are"
            yield f"table {table}: {which} gone"
