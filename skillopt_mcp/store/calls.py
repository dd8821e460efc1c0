"""Calls at rest: claims, replies, attempts that gave none, what they cost and took, and what hosts load of texts."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from skillopt_mcp.core.budgets import NO_CAPS, Caps, Cost, Spent
from skillopt_mcp.core.calls import (
    NOTHING,
    OF_THE_TARGET,
    Arrival,
    Call,
    Fault,
    Question,
    Reply,
    Role,
    Usage,
    messages_json,
    parse_messages,
)
from skillopt_mcp.core.errors import StoreError
from skillopt_mcp.store.events import append
from skillopt_mcp.store.pool import Connection, Pool, Row
from skillopt_mcp.store.promotion_tests import note_answer

_GET = "select calls, tokens, usd, seconds from budget where id = ?"
# Replacing the row would write its index again, too.
_PUT = (
    "insert into budget(id, calls, tokens, usd, seconds) values (?, ?, ?, ?, ?) on conflict do update set"
    " calls = excluded.calls, tokens = excluded.tokens, usd = excluded.usd, seconds = excluded.seconds"
)
_Values = tuple[int, int, float, float]


class Bill(NamedTuple):
    """What a settlement changes in a budget: `change` came to light since the last one, `costs` is asked for now."""

    budget: str
    caps: Caps
    change: Spent
    costs: Sequence[Cost]


class Budgets:
    """Table budget."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def get_spent(self, budget: str) -> Spent:
        """What a budget has been charged so far; nothing when there is none of that name."""
        row = self._pool.row(_GET, [budget])
        return _above_nothing(Spent(*row)) if row else Spent()

    def list_without_run(self) -> list[str]:
        """Return the budgets that are not a run's, in order: those of promotion tests, which a run may have reached."""
        rows = self._pool.rows("select id from budget where id not in (select id from run) order by id")
        return [str(row[0]) for row in rows]


def n_affordable(connection: Connection, bill: Bill) -> int:
    """How many of the costs that are asked for, from the first on, can be charged without going above a cap."""
    if bill.caps == NO_CAPS or not bill.costs:
        return len(bill.costs)
    row = connection.execute(_GET, [bill.budget]).fetchone()
    spent = (Spent(*row) if row else Spent()).plus(*bill.change)
    for n, cost in enumerate(bill.costs):
        spent = spent.plus(*cost)
        if bill.caps.exceeded(spent):
            return n
    return len(bill.costs)


def charge(connection: Connection, bill: Bill, costs: Sequence[Cost]) -> Spent:
    """What is spent once the bill's change and `costs` are charged. Raises StoreError if not finite."""
    change = bill.change.plus(
        sum(cost.calls for cost in costs), sum(cost.tokens for cost in costs), sum(cost.usd for cost in costs)
    )
    if not all(map(math.isfinite, change)):
        # Kept, it would end every cap: nothing is more than it.
        raise StoreError(
            f"the charge of '{bill.budget}' must be finite, got {change.tokens} tokens, ${change.usd} and "
            f"{change.seconds} s: have the backend report finite numbers; nothing was stored"
        )
    row = connection.execute(_GET, [bill.budget]).fetchone()
    spent = _above_nothing((Spent(*row) if row else Spent()).plus(*change))
    connection.execute(_PUT, (bill.budget, *spent))
    return spent


def _above_nothing(spent: Spent) -> Spent:
    """What is spent; sums of prices that go in and out again end a rounding error below nothing."""
    return spent._replace(usd=max(0.0, spent.usd))


_INTO_ATTEMPT = (
    "insert into attempt(call_id, fault, detail, tokens_in, tokens_out, tokens_cached, usd)"
    " values (?, ?, ?, ?, ?, ?, ?)"
)


class FailedSend(NamedTuple):
    """An attempt at a call that gave no reply, and what it used; its price is None where that is not known."""

    call_id: int
    fault: Fault
    detail: str
    usage: Usage = NOTHING


def end_claims(connection: Connection, call_ids: Sequence[int]) -> None:
    """Have the last attempt at each call end its claim, so that it does not count as lost when it is claimed again."""
    connection.execute(
        "update attempt set claim = (select n_claims from call where id = call_id) where id in ("
        "select max(id) from attempt where call_id in (select value from json_each(?)) group by call_id)",
        [json.dumps(call_ids)],
    )


CHUNK = 256
_MOST_ROWS = 128
_DETAIL_CHARACTERS = 300
_REPLY = (
    "select c.key, c.id, r.text, r.messages, r.tokens_in, r.tokens_out, r.usd, r.latency_ms, r.fault,"
    " r.tokens_cached, (select name from served where id = r.served)"
    " from call c join reply r on r.call_id = c.id"
)
_INTO_CALL = "insert into call(id, key, scope, role, stage, draw, refs, owner, n_claims)"
_INTO_REPLY = (
    "insert into reply(call_id, text, messages, tokens_in, tokens_out, usd, latency_ms, fault, tokens_cached, served)"
)


class Claim(NamedTuple):
    """A call's row: its id and the process that may send it."""

    id: int
    owner: str


class Failures(NamedTuple):
    """How many attempts gave no reply, and how the last of them ended."""

    n: int
    fault: str
    detail: str

    def __str__(self) -> str:
        if not self.n:
            return ""
        detail = self.detail.strip().rstrip(".")
        if len(detail) > _DETAIL_CHARACTERS:
            detail = f"{detail[:_DETAIL_CHARACTERS]}..."
        sends = "send" if self.n == 1 else "sends"
        return f"{self.n:,} {sends} failed, the last one so ({self.fault}): {detail}"


NO_FAILURES = Failures(0, "", "")


class Settlement(NamedTuple):
    """What came back, and what is to go out next: `n_again` calls that are claimed already, and `fresh` ones.

    The `id` of a reply is its call's. The costs of the bill are in this order, those of the calls to send again first.
    `unsent` are calls that were claimed before, and not sent; `failed` those that were sent, and are not
    under way any more.
    """

    replies: Sequence[Reply]
    attempts: Sequence[FailedSend]
    n_again: int
    fresh: Sequence[tuple[bytes, Call]]
    scope: str
    owner: str
    bill: Bill
    unsent: Sequence[int] = ()
    failed: Sequence[int] = ()


class Settled(NamedTuple):
    """What may go out: how many of those to send again, the rows of the fresh ones as far as caps allow, the spent."""

    n_again: int
    claims: Sequence[Claim]
    spent: Spent


class Calls:
    """Tables call, reply, attempt."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def get_replies(self, keys: Sequence[bytes]) -> dict[bytes, Reply]:
        """Return the stored replies of those calls that have one."""
        found: dict[bytes, Reply] = {}
        for start in range(0, len(keys), CHUNK):
            marks, chunk = pad_marks(keys[start : start + CHUNK])
            for row in self._pool.rows(f"{_REPLY} where c.key in ({marks})", chunk):
                found[row[0]] = _reply(row)
        return found

    def settle(self, work: Settlement) -> Settled:
        """Commit what came back and claim what goes out next, within the caps of the budget, in one transaction.

        A claim that another process holds comes back with that owner's name, and is not charged; a first reply is
        never overwritten.
        """
        bill = work.bill
        with self._pool.write(evidence=True) as connection:
            if work.replies:
                _insert_replies(connection, work.replies)
            if work.attempts:
                rows = [
                    (call_id, fault, detail, usage.tokens_in, usage.tokens_out, usage.tokens_cached, usage.usd)
                    for call_id, fault, detail, usage in work.attempts
                ]
                connection.executemany(_INTO_ATTEMPT, rows)
            if work.unsent:  # one that was never sent is deleted, of others the claim is taken back
                given = [json.dumps(work.unsent), work.owner]
                connection.execute(f"delete from call where {_UNSENT} and n_claims = 1 and {_UNTRIED}", given)
                _claim_again(connection, work.owner, f"{_UNSENT} and n_claims > 1", given, -1)
            if work.failed:
                end_claims(connection, work.failed)
            n = n_affordable(connection, bill)
            n_again = min(n, work.n_again)
            claims = _claim(connection, work.fresh[: n - n_again], work.scope, work.owner)
            own = [cost for cost, claim in zip(bill.costs[n_again:n], claims, strict=True) if claim.owner == work.owner]
            spent = charge(connection, bill, [*bill.costs[:n_again], *own])
        return Settled(n_again, claims, spent)

    def take_over(self, key: bytes, dead: str, owner: str) -> bool:
        """Take a claim from a process that died with it; False when another process did, or it was answered."""
        with self._pool.write() as connection:
            return _claim_again(connection, owner, f"key = ? and owner = ? and {_UNANSWERED}", [key, dead]) == 1

    def forget(self, scope: str, call_ids: Collection[int], draws: Collection[str]) -> None:
        """Forget that some calls of a scope failed, and what judges made of such draws since: both are open.

        The attempts stay recorded, and what they cost stays charged.
        """
        with self._pool.write() as connection:
            given = [scope, json.dumps(list(call_ids)), json.dumps(list(draws))]
            forgotten = connection.execute(_FORGET, given).fetchall()
            end_claims(connection, [call_id for [call_id] in forgotten])

    def n_lost(self, call_ids: Sequence[int]) -> dict[int, int]:
        """How often calls were lost while they were under way, by their ids, where they were.

        Their process died, or a host let its lease run out: nobody saw what became of them.
        """
        rows = self._pool.rows(
            "select id, n_claims - 1 - (select count(*) from attempt a where a.call_id = call.id"
            " and a.claim < n_claims) as n from call where id in (select value from json_each(?)) and n > 0",
            [json.dumps(list(call_ids))],
        )
        return dict(rows)

    def latest_stage(self, scope: str) -> str:
        """Return the stage of the newest call of a run or test; "" before the first."""
        return self._pool.text("select stage from call where scope = ? order by id desc limit 1", [scope])

    def count_faults(self, scope: str) -> dict[str, tuple[int, str]]:
        """How the attempts of a scope ended, by fault ("": an answer): their number, and the words on one of them."""
        rows = self._pool.rows(
            "select coalesce(r.fault, ''), count(*), max(iif(r.fault is null, '', r.text)) from call c join reply r"
            " on r.call_id = c.id where c.scope = ? and c.stage = 'rollout' group by 1 order by 2 desc, 1",
            [scope],
        )
        return {fault: (n, text) for fault, n, text in rows}

    def failures(self, scopes: Sequence[str]) -> Failures:
        """How many attempts within some scopes gave no reply, and how the last of them ended."""
        # With max(), SQLite takes the other columns from the row that holds the maximum.
        row = self._pool.row(
            "select count(*), coalesce(a.fault, ''), coalesce(a.detail, ''), max(a.id)"
            " from call c join attempt a on a.call_id = c.id where c.scope in (select value from json_each(?))",
            [json.dumps(scopes)],
        )
        return Failures(*row[:3]) if row else NO_FAILURES


# Judges are asked after what they judge, on its draw or one below it.
_FORGET = """
delete from reply where fault is not null and call_id in (
    select c.id from json_each(?2) join call c on c.id = value where c.scope = ?1
) or call_id in (
    select c.id from call c join json_each(?3) on c.draw = value or substr(c.draw, 1, length(value) + 1) = value || '/'
    where c.scope = ?1 and c.role = 'judge' and c.id > (select min(value) from json_each(?2))
) returning call_id
"""
_UNANSWERED = "not exists (select 1 from reply where call_id = call.id)"
_UNTRIED = "not exists (select 1 from attempt where call_id = call.id)"
_UNSENT = f"id in (select value from json_each(?)) and owner = ? and {_UNANSWERED}"


def insert_reply(connection: Connection, reply: Reply) -> bool:
    """Store the reply to a call within the caller's transaction; return whether it is the first."""
    return _insert_replies(connection, [reply]) == 1


def _claim(connection: Connection, fresh: Sequence[tuple[bytes, Call]], scope: str, owner: str) -> list[Claim]:
    """Return the rows of calls, in order: those that are new, or were this owner's already, are its to send."""
    if not fresh:
        return []
    [newest] = connection.execute("select coalesce(max(id), 0) from call").fetchone()
    rows = []
    for call_id, (key, call) in enumerate(fresh, newest + 1):
        refs = " ".join(call.request.refs) if isinstance(call.request, Question) else ""
        rows.append((call_id, key, scope, call.role, call.stage, call.draw, refs, owner, 1))
    if _insert(connection, _INTO_CALL, rows) == len(rows):
        return [Claim(call_id, owner) for call_id, *_ in rows]
    # An owner that claims again sends again: its last attempt was cut short.
    for key, _ in fresh:
        _claim_again(connection, owner, "key = ? and owner = ? and id <= ?", [key, owner, newest])
    held = [connection.execute("select id, owner from call where key = ?", [key]).fetchone() for key, _ in fresh]
    return [Claim(*row) for row in held]


def _claim_again(connection: Connection, owner: str, where: str, values: Sequence[object], n: int = 1) -> int:
    """Claim calls `n` times more, for `owner`; return how many calls."""
    sql = f"update call set owner = ?, n_claims = n_claims + ? where {where}"
    return connection.execute(sql, [owner, n, *values]).rowcount


def pad_marks(values: Sequence[bytes]) -> tuple[str, list[bytes]]:
    """Return values for an "in" and its marks, of few lengths: a connection keeps every statement that it was given."""
    n = 1 << (len(values) - 1).bit_length()
    return ",".join("?" * n), [*values, *[values[-1]] * (n - len(values))]


def _insert(connection: Connection, into: str, rows: Sequence[Sequence[object]]) -> int:
    """How many rows were added; those that are there already stay as they are."""
    # One statement for many: a statement for each costs as much again as the rows themselves. Of few sizes:
    # a connection keeps every statement, with the values that it was last given.
    n_added = at = 0
    while at < len(rows):
        n = min(_MOST_ROWS, 1 << ((len(rows) - at).bit_length() - 1))
        marks = ",".join([f"({','.join('?' * len(rows[0]))})"] * n)
        values = list(chain.from_iterable(rows[at : at + n]))
        n_added += connection.execute(f"{into} values {marks} on conflict do nothing", values).rowcount
        at += n
    return n_added


def _insert_replies(connection: Connection, replies: Sequence[Reply]) -> int:
    """How many replies of one scope were added, with the names that their models were served by."""
    answers = [reply.id for reply in replies if reply.fault is None or reply.fault in OF_THE_TARGET]
    if answers:  # from here on they can be read, whatever ends the test
        note_answer(connection, *connection.execute("select scope from call where id = ?", answers[:1]).fetchone())
    ids = dict[str, int]()
    for name in {reply.served for reply in replies} - {""}:
        sql = "select id from served where name = ?"
        if connection.execute(sql, [name]).fetchone() is None:
            connection.execute("insert into served(name) values (?)", [name])
        [ids[name]] = connection.execute(sql, [name]).fetchone()
    rows = []
    for reply in replies:
        messages, usage = messages_json(reply.messages), reply.usage
        rows.append((
            reply.id, reply.text, messages, usage.tokens_in, usage.tokens_out, usage.usd, usage.latency_ms, reply.fault,
            usage.tokens_cached, ids.get(reply.served),
        ))  # fmt: skip
    return _insert(connection, _INTO_REPLY, rows)


def _reply(row: Row) -> Reply:
    _, call_id, text, messages, tokens_in, tokens_out, usd, latency_ms, fault, tokens_cached, served = row
    usage = Usage(tokens_in, tokens_out, usd, latency_ms, tokens_cached)
    return Reply(text, parse_messages(messages), usage, fault, call_id, served or "")


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


@dataclass(frozen=True, slots=True)
class ServedRow:
    """A model as its vendor names it (`gpt-5-2026-08-01/fp_abc`), and in which role it answered `n` times."""

    role: str
    name: str
    n: int


class Ledger:
    """Reads tables call, reply, attempt and served."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def list_rows(self, scope: str) -> list[LedgerRow]:
        """What a scope used, one row per role and stage."""
        rows = self._pool.rows(_ROWS, [scope])
        return [LedgerRow(*row) for row in rows]

    def list_answered(self, scope: str) -> list[tuple[str, str, int, int, int]]:
        """The (draw, stage, tokens in, tokens out, second of the answer) of each answered call, in the order asked."""
        rows = self._pool.rows(
            "select c.draw, c.stage, r.tokens_in, r.tokens_out, r.answered_at from call c join reply r"
            " on r.call_id = c.id where c.scope = ? order by c.id",
            [scope],
        )
        return [(str(row[0]), str(row[1]), int(row[2]), int(row[3]), int(row[4])) for row in rows]

    def list_served(self, scope: str) -> list[ServedRow]:
        """The models that answered the calls of a run or a promotion test, by the names that they were served by."""
        rows = self._pool.rows(
            "select c.role, s.name, count(*) from call c join reply r on r.call_id = c.id join served s"
            " on s.id = r.served where c.scope = ? group by c.role, s.name order by min(c.id)",
            [scope],
        )
        return [ServedRow(*row) for row in rows]

    def count_untaken(self, scope: str, owner: str) -> int:
        """How many calls that `owner` is to answer were never leased; a replay leaves none to a host."""
        return self._pool.number(
            "select count(*) from call c where c.scope = ?1 and c.owner = ?2"
            " and not exists (select 1 from reply r where r.call_id = c.id)"
            " and not exists (select 1 from lease l where l.call_id = c.id)"
            " and not exists (select 1 from run where id = ?1 and kind = 'replay')",
            [scope, owner],
        )

    def usual(self, role: Role, backend: str, fingerprint: str) -> Usual | None:
        """What a call to a backend took on average in its last runs and tests; None when it had none."""
        row = self._pool.row(_USUAL, [role, backend, fingerprint])
        if row is None or not row[4]:
            return None
        tokens, usd, is_priced, latency_ms, _ = row
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


class Load(NamedTuple):
    """One text in one host: the fingerprint, the digest of the files, the folder ("/" before it: by prompt)."""

    backend: str
    version: str
    folder: str


class Arrivals:
    """Tables arrival and seen_command."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._checked = set[Load]()

    def get(self, load: Load) -> Arrival | None:
        """What came of a load; what could not be checked is asked once a process."""
        row = self._pool.row(
            "select state, words from arrival where backend = ? and version = ? and folder = ?", [*load]
        )
        found = Arrival(*row) if row else None
        return None if found and found.state == "unchecked" and load not in self._checked else found

    def add(self, load: Load, found: Arrival) -> None:
        """Keep what came of a load."""
        self._checked.add(load)
        with self._pool.write() as connection:
            connection.execute(
                "insert or replace into arrival(backend, version, folder, state, words) values (?, ?, ?, ?, ?)",
                [*load, *found],
            )

    def list_of(self, backend: str, version: str) -> list[Arrival]:
        """What came of a text in a backend, by whatever way it was opened."""
        sql = "select state, words from arrival where backend = ? and version = ? order by folder"
        return [Arrival(*row) for row in self._pool.rows(sql, [backend, version])]

    def add_seen(self, skill_id: int, commands: Iterable[str], login: str) -> None:
        """Keep that a person has seen commands, and lets a host run them while it loads the skill."""
        with self._pool.write() as connection:
            for command in commands:
                key = hashlib.sha256(f"{skill_id}/{command}".encode()).hexdigest()
                sql = (
                    "insert into seen_command(key, skill_id, command, login) values (?, ?, ?, ?) on conflict do nothing"
                )
                if connection.execute(sql, [key, skill_id, command, login]).rowcount:
                    append(connection, "command_seen", key)

    def list_seen(self, skill_id: int) -> set[str]:
        """The commands of a skill that a person has seen."""
        return {
            str(row[0]) for row in self._pool.rows("select command from seen_command where skill_id = ?", [skill_id])
        }
