"""Charging: what a run used, by itself and for its part of a promotion test that several runs may share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.calls.asking import HOST
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.results import Replayed
from skillopt_mcp.operations.spending.accounting import DIGITS, Accounted, accounted
from skillopt_mcp.records.budgets import FREE_STAGE, Spent
from skillopt_mcp.records.calls import Role
from skillopt_mcp.records.evidence import Confirmation
from skillopt_mcp.records.runs import Run
from skillopt_mcp.store.ledger import LedgerRow
from skillopt_mcp.store.opening import Store

_HALF_A_CENT = 0.005
# More pairs than any test draws.
_ENDLESS = 1 << 31


class Part(NamedTuple):
    """The pairs of a promotion test that a run drew: from `first` to before `end`, to the last where that is None."""

    test_id: str
    first: int
    end: int | None

    @property
    def is_empty(self) -> bool:
        """Return whether others drew all pairs."""
        return self.end is not None and self.end <= self.first

    def __str__(self) -> str:
        if self.is_empty:
            return "none of its pairs"
        if not self.first and self.end is None:
            return "all of its pairs"
        return f"pairs from {self.first + 1:,} on" if self.end is None else f"pairs {self.first + 1:,} to {self.end:,}"


class UsedRow(BaseModel):
    """What one role used in one stage of a run: in its own work, or in its part of the promotion test named in `test`.

    Of `n_calls` that came to an end, `n_missing` were given up; `n_failed` sends failed, `n_repeated` were sent again,
    `n_open` calls have no reply, and `n_again` were asked anew in place of a reply that could not be used. Tokens and
    prices are those of failed sends too, as far as they are known: `usd_known` is the price of all but `n_unpriced`
    sends, `usd` None where there are such. `seconds` is the sum of what answers took, many of them at the same time.
    """

    model_config = ConfigDict(frozen=True)
    role: Role
    stage: str
    test: str = ""
    n_calls: int
    n_missing: int
    n_failed: int
    n_repeated: int
    n_open: int
    n_again: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    usd: float | None
    usd_known: float
    n_unpriced: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Account:
    """What a run used: rows of its own, rows of its parts of promotion tests, and what its budget was charged.

    Of the open calls of its own, no host has taken `n_untaken` yet: they are charged, and were sent to nobody.
    """

    own: tuple[LedgerRow, ...]
    tests: tuple[tuple[Part, tuple[LedgerRow, ...]], ...]
    charged: Spent
    n_untaken: int = 0

    @property
    def rows(self) -> list[LedgerRow]:
        """Return all rows."""
        return [*self.own, *(row for _, rows in self.tests for row in rows)]

    @property
    def of_tests(self) -> LedgerRow:
        """Return the sum of what it used for promotion tests."""
        return together([row for _, rows in self.tests for row in rows])

    @property
    def told(self) -> Accounted:
        """Return what became of what was sent."""
        return accounted(together(self.rows), self.charged, self.n_untaken)

    @property
    def table(self) -> list[UsedRow]:
        """Return what each role used in each stage: in the run's own work, then in its parts of promotion tests."""
        parts = [("", self.own), *((part.test_id, rows) for part, rows in self.tests)]
        return [_used_row(row, test_id) for test_id, rows in parts for row in rows]


def _used_row(row: LedgerRow, test_id: str) -> UsedRow:
    told = {name: value for name, value in asdict(row).items() if name in UsedRow.model_fields}
    return UsedRow(**told, test=test_id, seconds=row.latency_ms / 1000)


def account(store: Store, run_id: str) -> Account:
    """Return what a run used so far; of a promotion test, the pairs alone that it drew."""
    parts = [shares(store, test_id)[run_id] for test_id, _ in store.runs.list_finishes(run_id)]
    return charged_with(store, run_id, parts)


def charged_with(store: Store, run_id: str, parts: Sequence[Part]) -> Account:
    """Return what a run used so far that drew these parts of promotion tests."""
    tests = tuple((part, tuple(rows_of(store, part))) for part in parts)
    own = tuple(store.ledger.list_rows(run_id))
    n_untaken = store.ledger.count_untaken(run_id, HOST) if any(row.n_open for row in own) else 0
    return Account(own, tests, store.budgets.get_spent(run_id), n_untaken)


def rows_of(store: Store, part: Part) -> list[LedgerRow]:
    """Return what a part of a promotion test used, one row per role and stage."""
    return [] if part.is_empty else store.ledger.list_rows(part.test_id, part.first, part.end)


def shares(store: Store, test_id: str) -> dict[str, Part]:
    """Return the part of a promotion test that each run drew which came to it, by run; no pair is in two of them.

    That of a run that has finished never changes.
    """
    came = store.runs.list_at(test_id)
    found = {run.id: _final(run, test_id, since) for run, since in came if run.result}
    # Who came last goes on with it.
    for since, _, run in sorted(((since, n, run) for n, (run, since) in enumerate(came)), reverse=True):
        if run.id not in found:
            first = _first(since, list(found.values()))
            end = min((part.first for part in found.values() if part.first > first), default=None)
            found[run.id] = Part(test_id, first, first if first == _ENDLESS else end)
    return found


def finishing(store: Store, run_id: str, test_id: str, found: Confirmation) -> Part:
    """Return the part of a promotion test that a run drew which is finishing now with what was found."""
    came = store.runs.list_at(test_id)
    finals = [_final(run, test_id, since) for run, since in came if run.result and run.id != run_id]
    [since] = [since for run, since in came if run.id == run_id]
    return _part(test_id, _first(since, finals), found.verdict, found.n_pairs)


def leaving(store: Store, run_id: str, test_id: str) -> Part:
    """Return the part of a promotion test that a run drew which is finishing now, and does not end in that test."""
    part = shares(store, test_id)[run_id]
    asked = store.ledger.n_pairs_asked(test_id)
    return part._replace(end=max(part.first, asked if part.end is None else min(part.end, asked)))


def _first(since: int, others: Sequence[Part]) -> int:
    """Return the first pair that is not of others which began before."""
    ends = [part.end for part in others if part.first <= since and not part.is_empty]
    return max([since, *(_ENDLESS if end is None else end for end in ends)])


def _final(run: Run, test_id: str, since: int) -> Part:
    result = Replayed.model_validate_json(run.result or "")
    if test_id in result.tests_left:
        return Part(test_id, *result.tests_left[test_id])
    first = since if result.pairs_before is None else result.pairs_before
    return _part(test_id, first, result.verdict or "", result.n_pairs)


def _part(test_id: str, first: int, verdict: str, n_pairs: int) -> Part:
    """Return the part of a run that has finished; once it is decided, nobody draws a pair after those asked ahead."""
    if n_pairs <= first:
        return Part(test_id, n_pairs, n_pairs)
    return Part(test_id, first, n_pairs if verdict == "undecided" else None)


def together(rows: Sequence[LedgerRow]) -> LedgerRow:
    """Return the sum of ledger rows but those of checks by commands, which ask no model and are no calls.

    Its price is unknown where one of theirs is.
    """
    rows = [row for row in rows if row.stage != FREE_STAGE]
    return LedgerRow(
        role="",
        stage="",
        n_calls=sum(row.n_calls for row in rows),
        n_missing=sum(row.n_missing for row in rows),
        n_repeated=sum(row.n_repeated for row in rows),
        tokens_in=sum(row.tokens_in for row in rows),
        tokens_out=sum(row.tokens_out for row in rows),
        usd=_summed([row.usd for row in rows]),
        latency_ms=math.fsum(row.latency_ms for row in rows),
        tokens_cached=sum(row.tokens_cached for row in rows),
        n_failed=sum(row.n_failed for row in rows),
        tokens_repeated=sum(row.tokens_repeated for row in rows),
        usd_repeated=_summed([row.usd_repeated for row in rows]),
        usd_known=round(math.fsum(row.usd_known for row in rows), DIGITS),
        n_unpriced=sum(row.n_unpriced for row in rows),
        n_open=sum(row.n_open for row in rows),
        n_again=sum(row.n_again for row in rows),
        n_under_way=sum(row.n_under_way for row in rows),
        n_with_host=sum(row.n_with_host for row in rows),
        n_host_again=sum(row.n_host_again for row in rows),
    )


def _summed(prices: Sequence[float | None]) -> float | None:
    known = [price for price in prices if price is not None]
    return round(math.fsum(known), DIGITS) if len(known) == len(prices) else None


def told_price(known: float, n_unpriced: int, n_calls: int, at_most: float = 0.0) -> str:
    """Return what calls cost, in words: what is known, how many sends are of unknown price, and the most it may be."""
    if n_unpriced and n_unpriced >= n_calls and not known:
        return "price unknown"
    unpriced = f" + {counted(n_unpriced, 'send')} of unknown price" if n_unpriced else ""
    most = f", at most ${at_most:.2f}" if at_most - known >= _HALF_A_CENT else ""
    return f"${known:.2f}{unpriced}{most}"


class Priced(Protocol):
    """What has a price that may not be known in all."""

    @property
    def usd_known(self) -> float:
        """Return what is known of it."""
        ...

    @property
    def n_unpriced(self) -> int:
        """Return how many sends are of unknown price."""
        ...

    @property
    def n_calls(self) -> int:
        """Return how many calls there are."""
        ...


def told_cell(row: Priced) -> str:
    """Return what calls cost as the cell of a table: what is known, "+?" where there is more, "?" where nothing is."""
    if not row.n_unpriced:
        return f"{row.usd_known:.2f}"
    return "?" if row.n_unpriced >= row.n_calls and not row.usd_known else f"{row.usd_known:.2f}+?"


def told_under_way(store: Store, run_id: str) -> str:
    """Return what the interruption of a run may have paid for in vain, in words; empty where nothing was under way."""
    return told_flying(together(account(store, run_id).rows).n_under_way)


def told_flying(n: int) -> str:
    """Return what the interruption of `n` calls may have paid for in vain, in words; empty where there are none."""
    if not n:
        return ""
    calls = "1 call was" if n == 1 else f"{n:,} calls were"
    return f"up to {calls} under way: what they cost may be paid again, as they are sent again when it goes on"
