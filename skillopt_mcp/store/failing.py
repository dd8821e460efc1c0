"""Failing at rest: attempts at calls that gave no reply, and what they cost all the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from skillopt_mcp.records.calls import NOTHING, Fault, Usage
from skillopt_mcp.store.driver import Connection

_INSERT = (
    "insert into attempt(call_id, fault, detail, tokens_in, tokens_out, tokens_cached, usd)"
    " values (?, ?, ?, ?, ?, ?, ?)"
)


class Attempt(NamedTuple):
    """An attempt at a call that gave no reply, and what it used; its price is None where that is not known."""

    call_id: int
    fault: Fault
    detail: str
    usage: Usage = NOTHING


def insert_attempts(connection: Connection, attempts: Sequence[Attempt]) -> None:
    """Store attempts that gave no reply within the caller's transaction."""
    rows = [
        (call_id, fault, detail, usage.tokens_in, usage.tokens_out, usage.tokens_cached, usage.usd)
        for call_id, fault, detail, usage in attempts
    ]
    connection.executemany(_INSERT, rows)


def end_claims(connection: Connection, call_ids: Sequence[int]) -> None:
    """Have the last attempt at each call end its claim: nothing of it is lost when somebody claims it once more."""
    connection.execute(
        "update attempt set claim = (select n_claims from call where id = call_id) where id in ("
        "select max(id) from attempt where call_id in (select value from json_each(?)) group by call_id)",
        [json.dumps(call_ids)],
    )
