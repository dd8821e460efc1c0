"""Using: what contests and promotion tests have used, each in all, and what of it is no run's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from skillopt_mcp.calls.asking import HOST
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.spending.accounting import DIGITS, Accounted, accounted, told_aside, told_repeats
from skillopt_mcp.operations.spending.charging import Part, rows_of, shares, together, told_flying, told_price
from skillopt_mcp.records.budgets import Spent
from skillopt_mcp.store.ledger import LedgerRow
from skillopt_mcp.store.opening import Store


class Used(Accounted):
    """What a contest or a promotion test has used so far, in all; `usd` is None where the price of a send is not known.

    Of `n_calls` that came to an end some may be missing: `n_answered` is without these. `tokens` and prices are those
    of failed sends, too.
    """

    contest: str
    n_calls: int
    tokens: int
    usd: float | None

    def __str__(self) -> str:
        n_unpriced = self.n_calls if self.usd is None and not self.n_unpriced else self.n_unpriced
        price = told_price(self.usd_known, n_unpriced, self.n_calls, self.usd_at_most)
        told = f"{counted(self.n_calls, 'call')}{told_aside(self)}, {counted(self.tokens, 'token')}, {price}"
        return "; ".join(filter(None, (told, told_repeats(self))))


def used_by(store: Store, name: str) -> Used:
    """Return what the contest (or promotion test) of this name has used so far, whoever asked for it."""
    # What runs asked for of a test is charged to these.
    charged = None if shares(store, name) else store.budgets.get_spent(name)
    return _used(store, name, store.ledger.list_rows(name), charged)


def used_beside(store: Store, name: str) -> Used:
    """Return what of a contest (or promotion test) no run is charged with."""
    rows = [row for part in _gaps(name, list(shares(store, name).values())) for row in rows_of(store, part)]
    return _used(store, name, rows, store.budgets.get_spent(name))


def used_of_candidate(store: Store, candidate_id: str) -> Used:
    """Return what the promotion tests of a candidate have used so far, whoever asked for them."""
    return in_all([used_by(store, name) for name in _tests_of(store, candidate_id)])


def in_all(each: Sequence[Used]) -> Used:
    """Return the sum of what several have used."""
    known = [used.usd for used in each if used.usd is not None]
    repeated = [used.usd_repeated for used in each if used.usd_repeated is not None]
    return Used(
        contest="",
        n_calls=sum(used.n_calls for used in each),
        tokens=sum(used.tokens for used in each),
        usd=_dollars(known) if len(known) == len(each) else None,
        n_sent=sum(used.n_sent for used in each),
        n_answered=sum(used.n_answered for used in each),
        n_failed=sum(used.n_failed for used in each),
        n_unanswered=sum(used.n_unanswered for used in each),
        n_with_host=sum(used.n_with_host for used in each),
        n_again=sum(used.n_again for used in each),
        n_repeated=sum(used.n_repeated for used in each),
        n_host_again=sum(used.n_host_again for used in each),
        tokens_repeated=sum(used.tokens_repeated for used in each),
        usd_repeated=_dollars(repeated) if len(repeated) == len(each) else None,
        tokens_at_most=sum(used.tokens_at_most for used in each),
        usd_known=_dollars([used.usd_known for used in each]),
        usd_at_most=_dollars([used.usd_at_most for used in each]),
        n_unpriced=sum(used.n_unpriced for used in each),
        seconds=math.fsum(used.seconds for used in each),
    )


def flying_in(store: Store, names: Sequence[str]) -> str:
    """Return what the interruption of contests or tests may have paid for in vain, in words; empty for nothing."""
    rows = [row for name in names for row in store.ledger.list_rows(name)]
    return told_flying(together(rows).n_under_way)


def flying_for(store: Store, candidate_id: str) -> str:
    """Return what the interruption of a candidate's promotion tests may have paid for in vain, in words."""
    return flying_in(store, _tests_of(store, candidate_id))


def _tests_of(store: Store, candidate_id: str) -> list[str]:
    candidate = store.candidates.get_candidate(candidate_id)
    return [row.id for row in store.decisions.list_tests(candidate.skill_id) if row.version_id == candidate.version_id]


def _gaps(test_id: str, parts: Sequence[Part]) -> Iterator[Part]:
    """Yield the pairs of a test that are in no part: parts do not overlap."""
    at = 0
    for part in sorted((part for part in parts if not part.is_empty), key=lambda part: part.first):
        if part.first > at:
            yield Part(test_id, at, part.first)
        if part.end is None:
            return
        at = part.end
    yield Part(test_id, at, None)


def _used(store: Store, name: str, rows: Sequence[LedgerRow], charged: Spent | None) -> Used:
    row = together(rows)
    n_untaken = store.ledger.count_untaken(name, HOST) if row.n_open else 0
    return Used(
        **accounted(row, charged, n_untaken).model_dump(),
        contest=name,
        n_calls=row.n_calls,
        tokens=row.tokens_in + row.tokens_out,
        usd=row.usd,
    )


def _dollars(prices: Sequence[float]) -> float:
    return round(math.fsum(prices), DIGITS)
