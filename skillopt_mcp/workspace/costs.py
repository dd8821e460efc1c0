"""Costs: what runs and promotion tests have used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.core.budgets import FREE_STAGE, RUN_TOKENS, Spent
from skillopt_mcp.core.calls import HOST, Role
from skillopt_mcp.core.text import counted
from skillopt_mcp.store.calls import LedgerRow
from skillopt_mcp.store.opening import Store

# Of a dollar: what is left of a sum behind them is of the arithmetic, not of a price.
DIGITS = 9
_HALF_A_CENT = 0.005
_AS_ASKED = (
    "n_failed", "n_again", "n_repeated", "n_host_again", "tokens_repeated", "usd_repeated", "usd_known", "n_unpriced",
    "n_unbilled",
)  # fmt: skip
# What one run of an agent takes, until the store has such runs, most of it cached: of a program that the server starts
# without the person's own setup, and of a sub-agent of a session, which has all of that.
DEFAULTS_OF = "November 2026"
_DEFAULT_TOKENS = {"host": 35_000, "claude-code": RUN_TOKENS, "codex": RUN_TOKENS}


def default_tokens(backend: str) -> int:
    """How many tokens a call to an agent takes by default, 0 for a backend that is no agent."""
    return _DEFAULT_TOKENS.get(backend.partition(":")[0], 0)


class Accounted(BaseModel):
    """What became of what was sent to models.

    Of `n_sent` sends, `n_answered` were answered and `n_failed` failed; of `n_unanswered` nothing came back: they are
    under way, or were lost with a process that ended, and may be paid for all the same; `n_with_host` of them a host
    has. Up to `n_repeated` calls were sent again for that: about `tokens_repeated` and `usd_repeated`, as the replies
    in their places; `n_host_again` of them were work that a host was given again. `usd_known` is the price of what was
    answered or failed, but for `n_unpriced` sends of unknown price. `tokens_at_most` and `usd_at_most` is what was
    charged, under caps with the most that a call can take. `seconds` is how long it was worked on, over all calls and
    processes. `n_again` calls were asked again in place of a reply that could not be used.
    """

    model_config = ConfigDict(frozen=True)
    n_sent: int = 0
    n_answered: int = 0
    n_failed: int = 0
    n_unanswered: int = 0
    n_with_host: int = 0
    n_again: int = 0
    n_repeated: int = 0
    n_host_again: int = 0
    tokens_repeated: int = 0
    usd_repeated: float | None = 0.0
    tokens_at_most: int = 0
    usd_known: float = 0.0
    usd_at_most: float = 0.0
    n_unpriced: int = 0
    n_unbilled: int = 0
    seconds: float = 0.0


class UsedRow(BaseModel):
    """What one role used in one stage of a run, or of the promotion test named in `test`.

    Of `n_calls` that ended, `n_missing` were given up; `n_failed` sends failed, `n_repeated` were sent again,
    `n_open` calls have no reply, and `n_again` were asked again in place of a reply that could not be used. Tokens and
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
    """What a run used itself, and each of its promotion tests, whole: its cost is the test's own."""

    own: tuple[LedgerRow, ...]
    tests: tuple[tuple[str, tuple[LedgerRow, ...]], ...]
    charged: Spent  # to the budget of the run, which pays for its tests, too
    n_untaken: int = 0  # open calls that no host has taken yet: charged, and not sent

    @property
    def of_tests(self) -> LedgerRow:
        """Return the sum of what its tests used."""
        return add_up([row for _, rows in self.tests for row in rows])

    @property
    def charged_itself(self) -> Spent:
        """What the run was charged for its own calls, with all its seconds."""
        tests, charged = self.of_tests, self.charged
        tokens, usd = tests.tokens_in + tests.tokens_out, tests.usd_known
        return Spent(0, max(0, charged.tokens - tokens), max(0.0, charged.usd - usd), charged.seconds)

    @property
    def summary(self) -> Accounted:
        """What became of what the run sent itself."""
        return sum_sends(add_up(self.own), self.charged_itself, self.n_untaken)

    @property
    def table(self) -> list[UsedRow]:
        """What each role used in each stage: in the run's own work, then in its promotion tests."""
        return [
            UsedRow(
                **{name: value for name, value in asdict(row).items() if name in UsedRow.model_fields},
                test=test_id,
                seconds=row.latency_ms / 1000,
            )
            for test_id, rows in [("", self.own), *self.tests]
            for row in rows
        ]


class Used(Accounted):
    """What a promotion test has used so far; `usd` is None where the price of a send is not known.

    Of `n_calls` that ended some may be missing: `n_answered` is without these. `tokens` and prices are those
    of failed sends, too.
    """

    contest: str
    n_calls: int
    tokens: int
    usd: float | None

    def __str__(self) -> str:
        calls = f"{counted(self.n_calls, 'call')}{describe_failed(self)}"
        sums = f"{calls}, {counted(self.tokens, 'token')}, {describe_price(self)}"
        return "; ".join(filter(None, (sums, describe_repeats(self))))


def account(store: Store, run_id: str, *, is_sealed: bool = False) -> Account:
    """What a run used so far, and its promotion tests; of a sealed one no test, and no seconds."""
    tests = tuple((test, tuple(store.ledger.list_rows(test))) for test in store.runs.list_finishes(run_id))
    own = tuple(store.ledger.list_rows(run_id))
    n_untaken = store.ledger.count_untaken(run_id, HOST) if any(row.n_open for row in own) else 0
    found = Account(own, tests, store.budgets.get_spent(run_id), n_untaken)
    return replace(found, tests=(), charged=found.charged_itself._replace(seconds=0.0)) if is_sealed else found


def used_by(store: Store, name: str) -> Used:
    """What a promotion test has used so far, over all that asked for it."""
    row = add_up(store.ledger.list_rows(name))
    n_untaken = store.ledger.count_untaken(name, HOST) if row.n_open else 0
    return Used(
        **sum_sends(row, store.budgets.get_spent(name), n_untaken).model_dump(),
        contest=name,
        n_calls=row.n_calls,
        tokens=row.tokens_in + row.tokens_out,
        usd=row.usd,
    )


def used_of_candidate(store: Store, candidate_id: str) -> Used:
    """Return the sum of what the promotion tests of a candidate have used so far; a price is known where all are."""
    candidate = store.candidates.get_candidate(candidate_id)
    tests = [row.id for row in store.tests.list_of_skill(candidate.skill_id) if row.version_id == candidate.version_id]
    each = [used_by(store, test_id) for test_id in tests]
    names = Used.model_fields.keys() - {"contest"}
    sums = {name: _sum_field([getattr(used, name) for used in each], name) for name in names}
    return Used.model_validate({"contest": "", **sums})


def add_up(rows: Sequence[LedgerRow]) -> LedgerRow:
    """Return the sum of ledger rows but those of checks by commands, which ask no model.

    Its price is unknown where one of theirs is.
    """
    rows = [row for row in rows if row.stage != FREE_STAGE]
    sums = {
        name: _sum_field([getattr(row, name) for row in rows], name)
        for name in asdict(LedgerRow("", "", 0, 0, 0, 0, 0, None, 0.0))
        if name not in ("role", "stage")
    }
    return LedgerRow(role="", stage="", **sums)  # type: ignore[arg-type]


def _sum_field(values: Sequence[float | None], name: str) -> float | None:
    """Return the sum of a field, None where a value is unknown."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if name.startswith("usd"):
        return round(math.fsum(known), DIGITS)
    return math.fsum(known) if name in ("seconds", "latency_ms") else sum(known)


def sum_sends(asked: LedgerRow, charged: Spent, n_untaken: int = 0) -> Accounted:
    """What became of what was sent; of the open calls, `n_untaken` no host has taken yet."""
    n_answered = asked.n_calls - asked.n_missing
    n_unanswered = asked.n_under_way - n_untaken + asked.n_repeated
    return Accounted(
        n_sent=n_answered + asked.n_failed + n_unanswered,
        n_answered=n_answered,
        n_unanswered=n_unanswered,
        n_with_host=min(n_unanswered, asked.n_with_host - n_untaken + asked.n_host_again),
        tokens_at_most=max(charged.tokens, asked.tokens_in + asked.tokens_out),
        usd_at_most=max(round(charged.usd, DIGITS), asked.usd_known),
        seconds=charged.seconds,
        **{name: getattr(asked, name) for name in _AS_ASKED},
    )


def describe_sends(used: Accounted) -> str:
    """What became of what was sent."""
    lost = used.n_unanswered - used.n_with_host
    parts = [
        (used.n_answered, "answered"),
        (used.n_failed, "failed"),
        (used.n_with_host, "with a host"),
        (lost, "without an answer (they may be paid for)"),
    ]
    shown = ", ".join(f"{n:,} {what}" for n, what in parts if n or what == "answered")
    return f"{used.n_sent:,} sent: {shown}"


def describe_failed(used: Accounted) -> str:
    """Return in brackets how many sends failed and how many replies were unusable; "" for none."""
    again = f"{counted(used.n_again, 'call')} retried after unusable replies" if used.n_again else ""
    parts = [describe_sends(used) if used.n_unanswered or used.n_failed else "", again]
    return f" ({'; '.join(filter(None, parts))})" if any(parts) else ""


def describe_repeats(used: Accounted) -> str:
    """What is not in the sums: what a host was given again, and what was lost with a process."""
    parts = [f"{counted(used.n_host_again, 'work item')} handed out again"] if used.n_host_again else []
    if n := used.n_repeated - used.n_host_again:
        usd = "an unknown price" if used.usd_repeated is None else f"${used.usd_repeated:.2f}"
        parts.append(
            f"up to {counted(n, 'call')} lost with a process and sent again; not in these sums: about "
            f"{counted(used.tokens_repeated, 'token')}, {usd}"
        )
    return "; ".join(parts)


def describe_price(used: Accounted) -> str:
    """What calls cost: what is known, how many sends are of unknown price, and the most that it may be."""
    n_unpriced = used.n_unpriced - used.n_unbilled
    if not used.usd_known and used.n_unbilled and not n_unpriced:
        return "no price was billed (a host's own agents)"
    if not used.usd_known and n_unpriced >= max(1, used.n_answered):
        return "price unknown"
    unpriced = f" + {counted(n_unpriced, 'send')} of unknown price" if n_unpriced else ""
    most = f", at most ${used.usd_at_most:.2f}" if used.usd_at_most - used.usd_known >= _HALF_A_CENT else ""
    return f"${used.usd_known:.2f}{unpriced}{most}"


def price_cell(row: Accounted | LedgerRow) -> str:
    """What calls cost as the cell of a table: what is known, "+?" where there is more, "?" where nothing is."""
    if not row.n_unpriced:
        return f"{row.usd_known:.2f}"
    return f"{row.usd_known:.2f}+?" if row.usd_known else "?"


def describe_in_flight(store: Store, scopes: Sequence[str]) -> str:
    """What the interruption of runs or tests may have paid for in vain; "" for nothing."""
    n = add_up([row for scope in scopes for row in store.ledger.list_rows(scope)]).n_under_way
    calls = "1 call was" if n == 1 else f"{n:,} calls were"
    return f"up to {calls} in flight: they are sent again on resume, and may be paid for twice" if n else ""
