"""Costs: which caps can hold, and what runs and promotion tests have used."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.backends.base import Backend, environment_name, worst_case
from skillopt_mcp.backends.registry import COMPANION, backend_name, is_spec
from skillopt_mcp.calls.asking import HOST
from skillopt_mcp.documents.text import counted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.kinds.text import Exact
from skillopt_mcp.records.budgets import FREE_STAGE, Caps, Spent, cost_of
from skillopt_mcp.records.calls import Call, Question, Role, Rollout
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.store.ledger import LedgerRow
from skillopt_mcp.store.opening import Store

# Of a dollar: what is left of a sum behind them is of the arithmetic, not of a price.
DIGITS = 9
_HALF_A_CENT = 0.005


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

    Of `n_calls` that came to an end, `n_missing` were given up; `n_failed` sends failed, `n_repeated` were sent again,
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
    """What a run used itself, and each promotion test that it came to, whole: its cost is the test's own."""

    own: tuple[LedgerRow, ...]
    tests: tuple[tuple[str, tuple[LedgerRow, ...]], ...]
    charged: Spent  # to the budget of the run, which pays for its tests, too
    n_untaken: int = 0  # open calls that no host has taken yet: charged, and sent to nobody

    @property
    def of_tests(self) -> LedgerRow:
        """Return the sum of what its tests used."""
        return together([row for _, rows in self.tests for row in rows])

    @property
    def told(self) -> Accounted:
        """Return what became of what the run sent itself."""
        tests = self.of_tests
        tokens, usd = tests.tokens_in + tests.tokens_out, tests.usd_known
        own = Spent(0, max(0, self.charged.tokens - tokens), max(0.0, self.charged.usd - usd), self.charged.seconds)
        return accounted(together(self.own), own, self.n_untaken)

    @property
    def table(self) -> list[UsedRow]:
        """Return what each role used in each stage: in the run's own work, then in its promotion tests."""
        return [_used_row(row, test_id) for test_id, rows in [("", self.own), *self.tests] for row in rows]


class Used(Accounted):
    """What a promotion test or calibration has used so far; `usd` is None where the price of a send is not known.

    Of `n_calls` that came to an end some may be missing: `n_answered` is without these. `tokens` and prices are those
    of failed sends, too.
    """

    contest: str
    n_calls: int
    tokens: int
    usd: float | None

    def __str__(self) -> str:
        told = f"{counted(self.n_calls, 'call')}{told_aside(self)}, {counted(self.tokens, 'token')}, {told_price(self)}"
        return "; ".join(filter(None, (told, told_repeats(self))))


def account(store: Store, run_id: str) -> Account:
    """Return what a run used so far, and the promotion tests that it came to."""
    tests = tuple((test, tuple(store.ledger.list_rows(test))) for test, _ in store.runs.list_finishes(run_id))
    own = tuple(store.ledger.list_rows(run_id))
    n_untaken = store.ledger.count_untaken(run_id, HOST) if any(row.n_open for row in own) else 0
    return Account(own, tests, store.budgets.get_spent(run_id), n_untaken)


def used_by(store: Store, name: str) -> Used:
    """Return what a promotion test or calibration has used so far, whoever asked for it."""
    row = together(store.ledger.list_rows(name))
    n_untaken = store.ledger.count_untaken(name, HOST) if row.n_open else 0
    return Used(
        **accounted(row, store.budgets.get_spent(name), n_untaken).model_dump(),
        contest=name,
        n_calls=row.n_calls,
        tokens=row.tokens_in + row.tokens_out,
        usd=row.usd,
    )


def used_of_candidate(store: Store, candidate_id: str) -> Used:
    """Return what the promotion tests of a candidate have used so far."""
    return in_all([used_by(store, name) for name in _tests_of(store, candidate_id)])


def in_all(each: Sequence[Used]) -> Used:
    """Return the sum of what several have used; a price is known where all of them are."""
    sums: dict[str, object] = {"contest": ""}
    for name in Used.model_fields.keys() - sums.keys():
        sums[name] = _summed([getattr(used, name) for used in each], name)
    return Used.model_validate(sums)


def together(rows: Sequence[LedgerRow]) -> LedgerRow:
    """Return the sum of ledger rows but those of checks by commands, which ask no model and are no calls.

    Its price is unknown where one of theirs is.
    """
    rows = [row for row in rows if row.stage != FREE_STAGE]
    sums = {
        name: _summed([getattr(row, name) for row in rows], name)
        for name in asdict(LedgerRow("", "", 0, 0, 0, 0, 0, None, 0.0))
        if name not in ("role", "stage")
    }
    return LedgerRow(role="", stage="", **sums)  # type: ignore[arg-type]


def _summed(values: Sequence[float | None], name: str) -> float | None:
    """Return the sum of a field, None where a value is unknown."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if name.startswith("usd"):
        return round(math.fsum(known), DIGITS)
    return math.fsum(known) if name in ("seconds", "latency_ms") else sum(known)


def accounted(asked: LedgerRow, charged: Spent, n_untaken: int = 0) -> Accounted:
    """Return what became of what was sent; of the open calls, `n_untaken` no host has taken yet."""
    n_answered = asked.n_calls - asked.n_missing
    n_unanswered = asked.n_under_way - n_untaken + asked.n_repeated
    return Accounted(
        n_sent=n_answered + asked.n_failed + n_unanswered,
        n_answered=n_answered,
        n_failed=asked.n_failed,
        n_unanswered=n_unanswered,
        n_with_host=min(n_unanswered, asked.n_with_host - n_untaken + asked.n_host_again),
        n_again=asked.n_again,
        n_repeated=asked.n_repeated,
        n_host_again=asked.n_host_again,
        tokens_repeated=asked.tokens_repeated,
        usd_repeated=asked.usd_repeated,
        tokens_at_most=max(charged.tokens, asked.tokens_in + asked.tokens_out),
        usd_known=asked.usd_known,
        usd_at_most=max(round(charged.usd, DIGITS), asked.usd_known),
        n_unpriced=asked.n_unpriced,
        n_unbilled=asked.n_unbilled,
        seconds=charged.seconds,
    )


def told_sends(told: Accounted) -> str:
    """Return what became of what was sent, in words."""
    lost = told.n_unanswered - told.n_with_host
    unanswered = f", {told.n_with_host:,} with a host" if told.n_with_host else ""
    unanswered += f", {lost:,} without an answer (they may be paid for)" if lost else ""
    failed = f", {told.n_failed:,} failed" if told.n_failed else ""
    return f"{told.n_sent:,} sent: {told.n_answered:,} answered{failed}{unanswered}"


def told_aside(told: Accounted) -> str:
    """Return in brackets what of the calls came to nothing: sends without an answer, and replies of no use."""
    again = f"{counted(told.n_again, 'call')} asked again for replies that could not be used" if told.n_again else ""
    aside = [told_sends(told) if told.n_unanswered or told.n_failed else "", again]
    return f" ({'; '.join(filter(None, aside))})" if any(aside) else ""


def told_repeats(told: Accounted | LedgerRow) -> str:
    """Return what is not in the sums, in words: what a host was given again, and what was lost with a process."""
    parts = [f"{counted(told.n_host_again, 'work item')} handed out again"] if told.n_host_again else []
    if n := told.n_repeated - told.n_host_again:
        usd = "an unknown price" if told.usd_repeated is None else f"${told.usd_repeated:.2f}"
        parts.append(
            f"up to {counted(n, 'call')} lost with a process and sent again; not in these sums: about "
            f"{counted(told.tokens_repeated, 'token')}, {usd}"
        )
    return "; ".join(parts)


class Priced(Protocol):
    """What has a price, which may not be known in all."""

    @property
    def usd_known(self) -> float:
        """Return what is known of it."""
        ...

    @property
    def n_unpriced(self) -> int:
        """Return how many sends are of unknown price."""
        ...


def told_price(row: Priced, at_most: float | None = None) -> str:
    """Return what calls cost, in words: what is known, how many sends are of unknown price, and the most it may be."""
    n_unbilled = getattr(row, "n_unbilled", 0)
    n_unpriced = row.n_unpriced - n_unbilled
    most = getattr(row, "usd_at_most", 0.0) if at_most is None else at_most
    if not row.usd_known and n_unbilled and not n_unpriced:
        return "no price was billed (a host's own agents)"
    if not row.usd_known and n_unpriced and n_unpriced >= _n_ended(row):
        return "price unknown"
    unpriced = f" + {counted(n_unpriced, 'send')} of unknown price" if n_unpriced else ""
    upper = f", at most ${most:.2f}" if most - row.usd_known >= _HALF_A_CENT else ""
    return f"${row.usd_known:.2f}{unpriced}{upper}"


def _n_ended(row: Priced) -> int:
    calls: int = getattr(row, "n_calls", 0) or getattr(row, "n_answered", 0)
    return calls


def told_cell(row: Priced) -> str:
    """Return what calls cost as the cell of a table: what is known, "+?" where there is more, "?" where nothing is."""
    if not row.n_unpriced:
        return f"{row.usd_known:.2f}"
    return "?" if row.n_unpriced >= _n_ended(row) and not row.usd_known else f"{row.usd_known:.2f}+?"


def told_under_way(store: Store, run_id: str) -> str:
    """Return what the interruption of a run may have paid for in vain, in words; empty where nothing was under way."""
    return flying_in(store, [run_id, *(test for test, _ in store.runs.list_finishes(run_id))])


def flying_in(store: Store, scopes: Sequence[str]) -> str:
    """Return what the interruption of runs or tests may have paid for in vain, in words; empty for nothing."""
    n = together([row for scope in scopes for row in store.ledger.list_rows(scope)]).n_under_way
    calls = "1 call was" if n == 1 else f"{n:,} calls were"
    return f"up to {calls} under way: they are sent again when it goes on, and may be paid for twice" if n else ""


def flying_for(store: Store, candidate_id: str) -> str:
    """Return what the interruption of a candidate's promotion tests may have paid for in vain, in words."""
    return flying_in(store, _tests_of(store, candidate_id))


def _tests_of(store: Store, candidate_id: str) -> list[str]:
    candidate = store.candidates.get_candidate(candidate_id)
    return [row.id for row in store.decisions.list_tests(candidate.skill_id) if row.version_id == candidate.version_id]


def _used_row(row: LedgerRow, test_id: str) -> UsedRow:
    told = {name: value for name, value in asdict(row).items() if name in UsedRow.model_fields}
    return UsedRow(**told, test=test_id, seconds=row.latency_ms / 1000)


_TASK = Task(0, 0, "any", "any", Exact(expected="any"), "train", "any")
_SAMPLES: dict[Role, Call] = {
    "target": Call("target", "rollout", Rollout(SkillFiles(()), _TASK), "any"),
    "optimizer": Call("optimizer", "reflect", Question("any", "any", "patch"), "any"),
    "judge": Call("judge", "judge", Question("any", "any", "rubric"), "any"),
}


# What a store can count to.
_MOST = 1 << 63
_AT = re.compile(r",base_url=\w+://([^/,]+)")
_NO_CAP = "no cap on tokens or money can hold: "
_ADVICE = {
    "claude-code": "write max_usd=N in its spec for a cap on money, or cap the calls (--max-calls)",
    "scripted": "cap the calls (--max-calls)",
    "codex": "cap the calls (--max-calls) or the minutes (--max-minutes)",
}


def _is_own(backend: Backend) -> bool:
    """Return whether a backend is a program's or a package's own, which its spelling tells nothing."""
    return not is_spec(backend.name) or backend_name(backend.name)[0] == "plugin"


def _price(backend: Backend) -> str:
    if _is_own(backend) or environment_name(backend):
        return "have its 'worst_case' give the usd of its Usage, too, or use --max-tokens"
    return (
        "name it with price_in= and price_out= (dollars per million tokens) in its spec, or in SKILLOPT_PRICES"
        f"{_entry(backend)}, or use --max-tokens"
    )


def _entry(backend: Backend) -> str:
    """Return where a table of prices names the model of a backend over HTTP, whose host is in its spec."""
    kind, _, spec = backend.name.partition(COMPANION)[0].partition(":")
    at = _AT.search(spec)
    host = at[1].lower() if at else f"api.{kind}.com"
    return f' as "{spec.partition(",")[0]}" under ["{host}"]' if kind in ("openai", "anthropic") else ""


def _advice(backend: Backend) -> str:
    kind = backend.name.partition(":")[0]
    if environment_name(backend):
        return f"{_NO_CAP}give the environment a method 'worst_case() -> Usage', or cap the calls (--max-calls)"
    if _is_own(backend):
        cap = "--max-calls" if is_spec(backend.name) else "calls=N"
        return f"{_NO_CAP}give it a method 'worst_case(call) -> Usage', or cap the calls ({cap})"
    return _NO_CAP + _ADVICE.get(kind, "write max_tokens=N in its spec, or cap the calls (--max-calls)")


def check_caps(caps: Caps, backends: Mapping[Role, Backend]) -> None:
    """Raise BadInput for a cap that cannot be used, or that cannot hold because a backend's calls have no limit."""
    for name, cap in (("calls", caps.calls), ("tokens", caps.tokens), ("usd", caps.usd), ("minutes", caps.minutes)):
        given: object = cap
        if isinstance(given, bool) or not isinstance(given, int | float | None):
            raise BadInput(f"--max-{name} {given!r} is of type {type(given).__name__}: give a number above 0")
        if cap is not None and not cap > 0:
            raise BadInput(f"--max-{name} {cap} lets nothing happen: use more than 0")
        if isinstance(cap, float) and not cap.is_integer() and name in ("calls", "tokens"):
            raise BadInput(f"--max-{name} {cap} is of type float: give a whole number")
        if isinstance(cap, int) and cap >= _MOST:
            raise BadInput(f"--max-{name} {cap} lets everything happen: leave it out")
    if not caps.bound_each_call:
        return
    for role, backend in backends.items():
        usage = worst_case(backend, _SAMPLES[role])
        if usage is None:
            raise BadInput(f"'{backend.name}' sets no limit to an answer, so {_advice(backend)}")
        if caps.tokens is not None and usage.usd != 0.0 and not usage.tokens_in + usage.tokens_out:
            raise BadInput(
                f"'{backend.name}' limits money and not tokens, so no cap on tokens can hold: cap the money (--max-usd)"
            )
        if caps.usd is not None and usage.usd is None:
            raise BadInput(
                f"the price of '{backend.name}' is not known, so no cap on money can hold: {_price(backend)}"
            )


def is_used_up(caps: Caps, spent: Spent, backends: Mapping[Role, Backend]) -> bool:
    """Return whether not even a small call to any of these backends can be sent any more."""
    usages = {
        role: worst_case(backend, _SAMPLES[role]) if caps.bound_each_call else None
        for role, backend in backends.items()
    }
    return all(caps.exceeded(spent.plus(*cost_of(_SAMPLES[role], usage))) for role, usage in usages.items())
