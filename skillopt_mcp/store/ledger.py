"""Ledger: what calls took, summed over the tables of calls, and which models answered them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, cast

from skillopt_mcp.core.calls import Role
from skillopt_mcp.store.pool import Pool

_LedgerValues = tuple[
    str, str, int, int, int, int, int, float | None, float, int, int, int, float | None, float, int, int, int, int,
    int, int, int,
]  # fmt: skip


class Usual(NamedTuple):
    """What an answered call took on average; `usd` is None where a price was not known."""

    tokens: float
    usd: float | None
    latency_ms: float


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What one role and stage used within a scope.

    `n_failed` counts sends that failed, whose tokens and price are counted with those of the answers; `n_repeated`
    those that may have been lost when a process died. What these cost is unknown, and in no other field:
    `tokens_repeated` and `usd_repeated` are what the replies took that came in their places, None without a price.
    `usd` is None where the price of one send is not known, failed or answered: `usd_known` is that of the others,
    `n_unpriced` counts those without. `n_open` calls have no reply; `n_under_way` of them are sent or lost, and not
    known to have failed; `n_again` were asked again in place of a reply that could not be used. A host's own are
    `n_with_host` of those under way, taken or not, `n_host_again` of those that may have been lost, and `n_unbilled`
    of those without a price: no API was billed for them.
    """

    role: str
    stage: str
    n_calls: int
    n_missing: int
    n_repeated: int
    tokens_in: int
    tokens_out: int
    usd: float | None
    latency_ms: float
    tokens_cached: int = 0
    n_failed: int = 0
    tokens_repeated: int = 0
    usd_repeated: float | None = 0.0
    usd_known: float = 0.0
    n_unpriced: int = 0
    n_open: int = 0
    n_again: int = 0
    n_under_way: int = 0
    n_with_host: int = 0
    n_host_again: int = 0
    n_unbilled: int = 0


class Ledger:
    """Reads tables call, reply and attempt."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def list_rows(self, scope: str) -> list[LedgerRow]:
        """Return what a scope used, one row per role and stage."""
        rows = self._pool.rows(_ROWS, [scope])
        return [LedgerRow(*cast(_LedgerValues, row)) for row in rows]

    def count_untaken(self, scope: str, owner: str) -> int:
        """Return how many calls that `owner` is to answer were never leased; a replay leaves none to a host."""
        return self._pool.number(
            "select count(*) from call c where c.scope = ?1 and c.owner = ?2"
            " and not exists (select 1 from reply r where r.call_id = c.id)"
            " and not exists (select 1 from lease l where l.call_id = c.id)"
            " and not exists (select 1 from run where id = ?1 and kind = 'replay')",
            [scope, owner],
        )

    def usual(self, role: Role, backend: str, fingerprint: str) -> Usual | None:
        """Return what a call to a backend took on average in its last runs and tests; None when it had none."""
        row = self._pool.row(_USUAL, [role, backend, fingerprint])
        if row is None or not row[4]:
            return None
        tokens, usd, is_priced, latency_ms, _ = cast(tuple[float, float | None, int, float, int], row)
        return Usual(tokens, usd if is_priced else None, latency_ms)


# A claim was lost unless it is the last one, or an
# attempt that failed has ended it.
_ROWS = """
with failed as (
    select a.call_id, count(*) as n, sum(a.tokens_in) as tokens_in, sum(a.tokens_out) as tokens_out,
        sum(a.tokens_cached) as tokens_cached, total(a.usd) as usd, count(*) - count(a.usd) as n_unpriced,
        count(case when a.claim < c.n_claims then 1 end) as n_ended, max(a.claim) as last_ended
    from call c join attempt a on a.call_id = c.id where c.scope = ?1 group by a.call_id
), asked as (
    select c.role, c.stage, c.owner = 'host' as is_hosts, c.draw glob '*/again[0-9]' as is_again,
        c.n_claims - 1 - coalesce(f.n_ended, 0) as n_lost,
        r.call_id, r.fault, r.latency_ms, r.tokens_in, r.tokens_out, r.tokens_cached, r.usd,
        r.call_id is not null and r.usd is null as is_unpriced, coalesce(f.n, 0) as n_failed,
        coalesce(f.tokens_in, 0) as failed_in, coalesce(f.tokens_out, 0) as failed_out,
        coalesce(f.tokens_cached, 0) as failed_cached, coalesce(f.usd, 0.0) as failed_usd,
        coalesce(f.n_unpriced, 0) as failed_unpriced,
        r.call_id is null and coalesce(f.last_ended, 0) < c.n_claims as is_under_way
    from call c left join reply r on r.call_id = c.id left join failed f on f.call_id = c.id where c.scope = ?1
)
select role, stage, count(call_id), count(fault), sum(n_lost),
    coalesce(sum(tokens_in), 0) + sum(failed_in), coalesce(sum(tokens_out), 0) + sum(failed_out),
    case when not sum(is_unpriced + failed_unpriced) then total(usd) + total(failed_usd) end, total(latency_ms),
    coalesce(sum(tokens_cached), 0) + sum(failed_cached), sum(n_failed),
    coalesce(sum(n_lost * (tokens_in + tokens_out)), 0),
    case when not sum(n_lost > 0 and usd is null) then total(n_lost * usd) end,
    total(usd) + total(failed_usd), sum(is_unpriced + failed_unpriced), count(*) - count(call_id), sum(is_again),
    sum(is_under_way), sum(is_hosts and is_under_way), sum(case when is_hosts then n_lost else 0 end),
    sum(case when is_hosts then is_unpriced + failed_unpriced else 0 end)
from asked group by role, stage order by role, stage
"""
_USUAL = """
select avg(r.tokens_in + r.tokens_out), avg(r.usd), count(*) = count(r.usd), avg(r.latency_ms), count(*)
from call c join reply r on r.call_id = c.id
where c.role = ?1 and c.stage <> 'check' and r.fault is null and c.scope in (
    select * from (
        select id from run where case ?1 when 'target' then target when 'optimizer' then optimizer else judge end = ?2
        order by rowid desc limit 3
    )
    union all select * from (
        select id from promotion_test where case ?1
            when 'target' then backend = ?3 or instr(backend, ?3 || ' judged by ') = 1
            when 'judge' then instr(backend, ' judged by ' || ?3) end
        order by rowid desc limit 3
    )
)
"""


_OF_SCOPE = (
    "select c.role, s.name, count(*) from call c join reply r on r.call_id = c.id join served s on s.id = r.served"
    " where c.scope = ? group by c.role, s.name order by min(c.id)"
)


class ServedBy(NamedTuple):
    """A name that answers of a role were served by, and how many."""

    role: str
    name: str
    n: int


class Servings:
    """Tables served and reply."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def list_of_scope(self, scope: str) -> list[ServedBy]:
        """Return by which names the calls of a run or a test were served, of each role."""
        rows = self._pool.rows(_OF_SCOPE, [scope])
        return [ServedBy(str(role), str(name), cast(int, n)) for role, name, n in rows]
