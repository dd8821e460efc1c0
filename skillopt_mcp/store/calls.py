"""Calls at rest: claims, replies, attempts that gave none, and the ledger over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from skillopt_mcp.records.calls import Call, Fault, Question, Reply, Usage, messages_json, parse_messages
from skillopt_mcp.store.pool import Pool, Row

_CHUNK = 400
_REPLY = (
    "select c.key, c.id, r.text, r.messages, r.tokens_in, r.tokens_out, r.usd, r.latency_ms, r.fault"
    " from call c join reply r on r.call_id = c.id"
)


@dataclass(frozen=True, slots=True)
class Claim:
    """A call's row: its id and the process that may send it."""

    id: int
    owner: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a call that gave no reply."""

    call_id: int
    fault: Fault
    detail: str


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What one role and stage used within a scope. `n_repeated` counts sends that were lost when a process died."""

    role: str
    stage: str
    n_calls: int
    n_missing: int
    n_repeated: int
    tokens_in: int
    tokens_out: int
    usd: float | None
    latency_ms: float


class Calls:
    """Tables call, reply, attempt."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def get_replies(self, keys: Sequence[bytes]) -> dict[bytes, Reply]:
        """Return the stored replies of those calls that have one."""
        found: dict[bytes, Reply] = {}
        for start in range(0, len(keys), _CHUNK):
            chunk = keys[start : start + _CHUNK]
            marks = ",".join("?" * len(chunk))
            for row in self._pool.rows(f"{_REPLY} where c.key in ({marks})", chunk):
                found[cast(bytes, row[0])] = _reply(row)
        return found

    def settle(
        self,
        replies: Sequence[Reply],
        attempts: Sequence[Attempt],
        claims: Sequence[tuple[bytes, Call]],
        scope: str,
        owner: str,
    ) -> list[Claim]:
        """Commit what came back and claim what goes out next, in one transaction; return the claims' rows in order.

        The `id` of a reply is its call's. A claim that another process holds comes back with that owner's name; a first
        reply is never overwritten.
        """
        with self._pool.write() as connection:
            if replies:
                connection.executemany(
                    "insert into reply(call_id, text, messages, tokens_in, tokens_out, usd, latency_ms, fault)"
                    " values (?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing",
                    [_reply_values(reply) for reply in replies],
                )
            if attempts:
                connection.executemany(
                    "insert into attempt(call_id, fault, detail) values (?, ?, ?)",
                    [(attempt.call_id, attempt.fault, attempt.detail) for attempt in attempts],
                )
            if not claims:
                return []
            connection.executemany(
                "insert into call(key, scope, role, stage, draw, refs, owner) values (?, ?, ?, ?, ?, ?, ?)"
                # An owner that claims again sends again: its last attempt was cut short.
                " on conflict(key) do update set n_claims = n_claims + 1 where owner = excluded.owner",
                [(key, scope, call.role, call.stage, call.draw, _refs(call), owner) for key, call in claims],
            )
            marks = ",".join("?" * len(claims))
            rows = connection.execute(
                f"select key, id, owner from call where key in ({marks})", [key for key, _ in claims]
            ).fetchall()
        by_key = {key: Claim(call_id, holder) for key, call_id, holder in rows}
        return [by_key[key] for key, _ in claims]

    def take_over(self, call_id: int, dead: str, owner: str) -> bool:
        """Take a claim from a process that died with it; False when somebody else did, or it was answered."""
        with self._pool.write() as connection:
            cursor = connection.execute(
                "update call set owner = ?, n_claims = n_claims + 1 where id = ? and owner = ?"
                " and not exists (select 1 from reply where call_id = call.id)",
                [owner, call_id, dead],
            )
            return bool(cursor.rowcount)

    def ledger(self, scope: str) -> list[LedgerRow]:
        """Return what a scope used, one row per role and stage."""
        rows = self._pool.rows(
            "select c.role, c.stage, count(r.call_id), count(r.fault), sum(c.n_claims - 1),"
            " coalesce(sum(r.tokens_in), 0), coalesce(sum(r.tokens_out), 0),"
            " case when count(r.usd) = count(r.call_id) then total(r.usd) end, total(r.latency_ms)"
            " from call c left join reply r on r.call_id = c.id where c.scope = ? group by c.role, c.stage"
            " order by c.role, c.stage",
            [scope],
        )
        return [LedgerRow(*cast(tuple[str, str, int, int, int, int, int, float | None, float], row)) for row in rows]


def _reply_values(reply: Reply) -> tuple[object, ...]:
    usage = reply.usage
    messages = messages_json(reply.messages)
    return (
        reply.id, reply.text, messages, usage.tokens_in, usage.tokens_out, usage.usd, usage.latency_ms, reply.fault,
    )  # fmt: skip


def _reply(row: Row) -> Reply:
    _, call_id, text, messages, tokens_in, tokens_out, usd, latency_ms, fault = row
    return Reply(
        text=str(text),
        messages=parse_messages(str(messages)),
        usage=Usage(cast(int, tokens_in), cast(int, tokens_out), cast(float | None, usd), cast(float, latency_ms)),
        fault=cast(Fault | None, fault),
        id=cast(int, call_id),
    )


def _refs(call: Call) -> str:
    return " ".join(call.request.refs) if isinstance(call.request, Question) else ""
