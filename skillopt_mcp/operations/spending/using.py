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
    sums = {name: _sum([getattr(used, name) for used in each], name) for name in Used.model_fields if name != "contest"}
    return Used.model_validate({"contest": "", **sums})


def _sum(values: Sequence[float | None], name: str) -> float | None:
    """Return what a field comes to; a price is known where all of them are."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return round(math.fsum(known), DIGITS) if name.startswith("usd") else sum(known)


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
