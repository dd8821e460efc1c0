"""Accounting: what became of all that was sent, by the rows of the calls and by what a budget was charged."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.documents.counts import counted
from skillopt_mcp.records.budgets import Spent
from skillopt_mcp.store.ledger import LedgerRow

# Of a dollar: what is left of a sum behind them is of the arithmetic, not of a price.
DIGITS = 9


class Accounted(BaseModel):
    """What became of what a run sent to models, its part of the promotion test with it.

    Of `n_sent` sends, `n_answered` were answered and `n_failed` failed; of `n_unanswered` nothing came back: they are
    under way, or were lost with a process that ended, and may be paid for all the same. `n_with_host` of them a host
    has, or never handed in: each may have taken an agent run, and no API was billed for it. Up to `n_repeated` calls
    were sent again for that: about `tokens_repeated` and `usd_repeated`, as the replies in their places; `n_host_again`
    of them were work that a host was given again. `usd_known` is the price of what was answered or failed, but for
    `n_unpriced` sends of unknown price: an answer came without one, or none came, and it may have been paid. All that
    was sent took up to `tokens_at_most` and `usd_at_most`, as far as the most that a call can take was asked for: under
    caps. `seconds` is how long it was worked on, over all calls and processes that went on with it. `n_again` calls
    were asked anew in place of a reply that could not be used.
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
    seconds: float = 0.0


def accounted(asked: LedgerRow, charged: Spent | None, n_untaken: int) -> Accounted:
    """Return what became of what was sent, which was `charged`; None where it was so to several budgets."""
    n_answered = asked.n_calls - asked.n_missing
    n_ended, n_others = n_answered + asked.n_failed, asked.n_under_way - n_untaken + asked.n_repeated
    charged = charged or Spent(n_ended + n_others + n_untaken)
    # Stores of old releases have no budgets.
    n_sent = max(charged.calls - n_untaken, n_ended)
    n_unanswered = min(n_sent - n_ended, n_others)
    return Accounted(
        n_sent=n_sent,
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
        seconds=charged.seconds,
    )


def told_sends(told: Accounted) -> str:
    """Return what became of what was sent, in words."""
    unanswered = f", {told.n_unanswered:,} without an answer ({_told_lost(told)})" if told.n_unanswered else ""
    failed = f", {told.n_failed:,} failed" if told.n_failed else ""
    return f"{told.n_sent:,} sent: {told.n_answered:,} answered{failed}{unanswered}"


def _told_lost(told: Accounted) -> str:
    with_host = "with a host, or never handed in: each may have taken an agent run, and no API was billed for it"
    lost = "under way, or lost with a process that ended: they may be paid for all the same"
    if told.n_unanswered == told.n_with_host:
        return with_host
    return f"{told.n_with_host:,} of them {with_host}; the others {lost}" if told.n_with_host else lost


def told_aside(told: Accounted) -> str:
    """Return in brackets what of the calls came to nothing: sends without an answer, and replies of no use."""
    again = f"{counted(told.n_again, 'call')} asked again for replies that could not be used" if told.n_again else ""
    aside = [told_sends(told) if told.n_unanswered or told.n_failed else "", again]
    return f" ({'; '.join(filter(None, aside))})" if any(aside) else ""


def told_repeats(told: Accounted | LedgerRow) -> str:
    """Return what is not in the sums, in words: what a host was given again, and what was lost with a process."""
    return "; ".join(filter(None, (_told_host_again(told.n_host_again), _told_lost_sends(told))))


def _told_host_again(n: int) -> str:
    return f"{counted(n, 'work item')} handed out again, as nobody had handed in an answer in time" if n else ""


def _told_lost_sends(told: Accounted | LedgerRow) -> str:
    n = told.n_repeated - told.n_host_again
    if not n:
        return ""
    usd = "at a price that is not known" if told.usd_repeated is None else f"${told.usd_repeated:.2f}"
    calls = "call was" if n == 1 else "calls were"
    return (
        f"up to {n:,} {calls} lost with a process that ended, and sent again; not in these sums: about "
        f"{counted(told.tokens_repeated, 'token')}, {usd}, if each took what the reply in its place did"
    )
