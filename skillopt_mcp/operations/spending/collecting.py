"""Collecting: what a batch that is over comes to: replies, attempts that failed, and what all of it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from skillopt_mcp.backends.base import FATAL, RETRYABLE, BackendFault
from skillopt_mcp.backends.batches import Result
from skillopt_mcp.backends.redacting import redacted
from skillopt_mcp.calls.pacing import OF_THE_CALL, Breaker
from skillopt_mcp.calls.retrying import POLICIES
from skillopt_mcp.calls.spending import usage_of
from skillopt_mcp.errors import Outage, Stopped, TurnedDown
from skillopt_mcp.records.budgets import Cost, Spent
from skillopt_mcp.records.calls import NOTHING, Call, Reply, Rollout, Usage, served_name, storable, storable_messages
from skillopt_mcp.redaction.redacting import Redactor
from skillopt_mcp.store.batches import Batch, Collected
from skillopt_mcp.store.failing import Attempt

_UNSAID = BackendFault("server", "the batch is over, and says nothing of this call")


@dataclass(frozen=True, slots=True)
class Ended:
    """A batch that is over: what each call was charged, how often it failed before, and what became of it by name."""

    batch: Batch
    charged: Mapping[int, Cost]
    n_failed: Mapping[int, int]
    results: Mapping[str, Result]
    was_cancelled: bool = False


@dataclass(slots=True)
class Outcome:
    """What is committed of a batch, and what ends the run after that, if anything does."""

    replies: list[Reply] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    change: Spent = field(default_factory=Spent)
    failure: Stopped | None = None
    given_up: list[Reply] = field(default_factory=list)

    @property
    def collected(self) -> Collected:
        """Return what the store is to keep."""
        return Collected(self.replies, self.attempts, self.change)


def name_of(batch_id: str, call_id: int) -> str:
    """Return the name of a call in a batch; it says which batch, too."""
    return f"{batch_id}-{call_id}"


def outcome_of(ended: Ended, calls: Mapping[int, Call], redactor: Redactor, breaker: Breaker) -> Outcome:
    """Return what a batch comes to. A call that failed, and may be asked again, is left open; others are missing.

    As with calls that are asked at once, an outage makes no call missing: it ends the run.
    """
    outcome = Outcome()
    for call_id, cost in ended.charged.items():
        result = ended.results.get(name_of(ended.batch.id, call_id), None if ended.was_cancelled else _UNSAID)
        if result is None:
            outcome.change = outcome.change.plus(-cost.calls, -cost.tokens, -cost.usd)
        elif isinstance(result, BackendFault):
            _fail(outcome, ended, call_id, result, redactor)
        else:
            breaker.note(None)
            outcome.replies.append(_kept(result, call_id, calls.get(call_id), redactor))
            outcome.change = outcome.change.plus(*_correction(cost, result.usage))
    for missing in outcome.given_up:
        breaker.note(None if missing.fault in OF_THE_CALL else missing.fault)
    if breaker.is_open:
        outcome.given_up = [missing for missing in outcome.given_up if missing.fault not in RETRYABLE]
        outcome.failure = outcome.failure or Outage(
            f"the batches of '{ended.batch.backend.partition(',')[0]}': {breaker}. Nothing that was answered is lost: "
            "mend that, and go on where it stopped"
        )
    outcome.replies += outcome.given_up
    return outcome


def _fail(outcome: Outcome, ended: Ended, call_id: int, fault: BackendFault, redactor: Redactor) -> None:
    policy, cost, usage = POLICIES[fault.fault], ended.charged[call_id], usage_of(fault)
    text = redactor.text(storable(str(fault)))
    outcome.attempts.append(Attempt(call_id, fault.fault, text, usage))
    if fault.usage is not None or not policy.may_be_paid:
        outcome.change = outcome.change.plus(*_correction(cost, usage))
    if fault.fault in FATAL:
        outcome.failure = TurnedDown(text)
    elif fault.fault not in RETRYABLE or ended.n_failed.get(call_id, 0) + 1 >= policy.attempts:
        outcome.given_up.append(Reply(text, usage=NOTHING, fault=fault.fault, id=call_id))


def _correction(charged: Cost, usage: Usage) -> Cost:
    """Return the change of a charge, now that it is known what was used; what is not known stays at its most."""
    if usage.estimated and charged.tokens:
        return Cost(0)
    usd = 0.0 if usage.usd is None else usage.usd - charged.usd
    return Cost(0, usage.tokens_in + usage.tokens_out - charged.tokens, usd)


def _kept(reply: Reply, call_id: int, call: Call | None, redactor: Redactor) -> Reply:
    """Return a reply as it is stored: fit to be encoded, and without secrets but those that its task says itself."""
    messages = storable_messages(reply.messages)
    task = call.request.task if call and isinstance(call.request, Rollout) else None
    kept = Reply(storable(reply.text), messages, reply.usage, None, call_id, served_name(reply.served))
    return redacted(redactor, kept, task)
