"""Dispatch: how the calls of a run or a test are asked, at once or by the batch API of a vendor."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from skillopt_mcp import tracing
from skillopt_mcp.backends.base import FATAL, RETRYABLE, Backend, BackendFault
from skillopt_mcp.backends.batches import Batching, BatchStatus, Item, Patience, Result, Tag, batching
from skillopt_mcp.backends.wrappers import redacted
from skillopt_mcp.calls.asking import HOST, Asker, Outstanding, run_or_wait
from skillopt_mcp.calls.rounds import OF_THE_CALL, REJECTIONS, Breaker, OnReply
from skillopt_mcp.calls.spending import POLICIES, Budget, Pause, usage_of
from skillopt_mcp.documents.text import counted
from skillopt_mcp.errors import BackendError, BadInput, Outage, Refused, Stopped, TurnedDown
from skillopt_mcp.records.budgets import Cost, Spent
from skillopt_mcp.records.calls import (
    NOTHING,
    Call,
    Reply,
    Role,
    Rollout,
    Usage,
    served_name,
    storable,
    storable_messages,
)
from skillopt_mcp.redaction.redacting import Redactor
from skillopt_mcp.store.batches import Batch, Collected, NewBatch
from skillopt_mcp.store.calls import Attempt, Settlement
from skillopt_mcp.training.progress import WAIT, Notify, Progress, silent
from skillopt_mcp.workspace import Workspace

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
    """Return the outcome of a batch. A call that failed, and may be asked again, is left open; others are missing.

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


BATCH = "batch"
MOST_TROUBLES = 20
MAX_PAUSE_S = 600.0
_LOST = "nothing that was answered is lost: go on where it stopped"


class Waves:
    """The batches of one run or test. What is sent is in the store before it is sent, and found again by its tag."""

    def __init__(
        self,
        workspace: Workspace,
        backends: Mapping[Role, Backend],
        budget: Budget,
        notify: Notify,
        on_reply: OnReply | None,
    ) -> None:
        self._workspace, self._backends, self._budget = workspace, backends, budget
        self._notify, self._on_reply = notify, on_reply
        self._breaker = Breaker()
        self._n_answered = self._n_failed = self._n_idle = self._n_troubles = 0

    def take(self, outstanding: Outstanding) -> bool:
        """Return whether all that is outstanding goes out in batches."""
        return all(batching(self._backends[call.role]) for call in outstanding.calls.values())

    def answer(self, calls: Mapping[int, Call]) -> None:
        """Have the calls, by the ids of their rows, asked once each; what may be asked again is left for the next wave.

        Raises Stopped at a cap, in an outage and when a batch was cancelled, BackendError when it cannot be used.
        """
        with asyncio.Runner() as runner:
            runner.run(self._wave(calls))

    def cancel(self, batches: Sequence[Batch]) -> None:
        """Ask the vendors to answer no more of these batches. Raises BackendError when one does not listen."""
        with asyncio.Runner() as runner:
            runner.run(self._cancel(batches))

    async def _wave(self, calls: Mapping[int, Call]) -> None:
        if self._n_idle:
            await asyncio.sleep(min(MAX_PAUSE_S, self._patience.max_s * 2 ** (self._n_idle - 1)))
        self._n_answered = self._n_failed = 0
        held = self._workspace.store.batches.holding(list(calls))
        batches = [found for batch in held if (found := await self._located(batch))]
        batches += await self._sent(calls, is_alone=not batches)
        await self._collect(batches, calls)
        self._n_idle = self._n_idle + 1 if self._n_failed and not self._n_answered else 0
        if self._n_idle > MOST_TROUBLES:
            raise Outage(f"{self._n_idle} waves of batches in a row brought no answer; {_LOST}")

    @property
    def _patience(self) -> Patience:
        return self._workspace.batch or Patience()

    def _waits(self) -> Iterator[float]:
        wait = self._patience.first_s
        while True:
            yield wait
            wait = min(wait * self._patience.growth, self._patience.max_s)

    def _vendor(self, batch: Batch) -> Batching:
        """Return who sent a batch. Raises Refused where that is not the backend that is named now."""
        backend = self._backends.get(batch.role)
        vendor = batching(backend) if backend else None
        if vendor is None or vendor.fingerprint != batch.backend:
            sender = batch.backend.partition(",at=")[0]
            raise Refused(
                f"batch '{batch.vendor_id or batch.id}' was sent by the {batch.role} '{sender}': go on with that one, "
                "and --batch-api"
            )
        return vendor

    async def _located(self, batch: Batch) -> Batch | None:
        """Return a batch as the vendor has it; None for one that never came there, whose calls are then free again."""
        if batch.vendor_id is not None:
            return batch
        store, vendor = self._workspace.store.batches, self._vendor(batch)
        tag = Tag(batch.id, batch.n_calls, batch.opened_at)
        # What was cut off a moment ago may only now be arriving.
        # A clock that was set back since says nothing of that.
        since_s = max(0.0, self._workspace.clock() - batch.opened_at)
        await self._pause(max(0.0, self._patience.max_s - since_s), [])
        for wait in self._waits():
            with _borne(self, vendor):
                found = await vendor.find(tag, store.vendor_ids(batch.backend))
                if found.vendor_id:
                    store.note_sent(batch.id, found.vendor_id)
                    return batch._replace(vendor_id=found.vendor_id, state="running")
                if found.is_certain:
                    store.dissolve(batch.id)
                    return None
            self._report(0, batch.n_calls, "looking for a batch at the vendor")
            await self._pause(wait, [])
        return None

    async def _sent(self, calls: Mapping[int, Call], *, is_alone: bool) -> list[Batch]:
        """Return new batches of the calls without an answer that no open batch holds, as far as caps allow."""
        batches: list[Batch] = []
        for role in {call.role for call in calls.values()}:
            vendor = batching(self._backends[role])
            if vendor is None:
                continue
            asked = {call_id: call for call_id, call in calls.items() if call.role == role}
            for part in _parts(asked, vendor):
                batch = self._opened(role, vendor, part, must=is_alone and not batches)
                sent = await self._submitted(batch, vendor, part) if batch else None
                batches += [sent] if sent else []
        return batches

    def _opened(self, role: Role, vendor: Batching, part: Mapping[int, Call], *, must: bool) -> Batch | None:
        """Return a new batch, kept and charged. Raises CapReached when it `must` be, and no call of it can be paid."""
        workspace, budget = self._workspace, self._budget
        costs = [budget.cost(self._backends[role], call) for call in part.values()]
        batch = Batch(
            secrets.token_hex(8), budget.name, role, vendor.fingerprint, None, "opening", workspace.clock(), 0
        )  # fmt: skip
        new = NewBatch(batch.id, role, batch.backend, batch.opened_at, list(part), budget.bill(costs))
        opened = workspace.store.batches.open(new)
        if must and opened.is_capped and not opened.call_ids:
            raise budget.reached(opened.spent, max(costs))
        return batch._replace(n_calls=len(opened.call_ids)) if opened.call_ids else None

    async def _submitted(self, batch: Batch, vendor: Batching, calls: Mapping[int, Call]) -> Batch | None:
        """Return a batch that the vendor has taken, None when it did not. Raises BackendError when it never will.

        Where it is not certain what it did, it is looked for there.
        """
        store = self._workspace.store.batches
        held = store.calls_of(batch.id)
        lines = [vendor.line(Item(name_of(batch.id, call_id), calls[call_id])) for call_id in held]
        try:
            vendor_id = await vendor.submit(Tag(batch.id, len(held), batch.opened_at), lines)
        except BackendFault as fault:
            if fault.fault not in RETRYABLE:
                store.dissolve(batch.id)
                raise TurnedDown(self._said(f"backend '{vendor.name}' took no batch: {fault}")) from None
            self._n_failed += 1
            await self._pause(self._patience.max_s if POLICIES[fault.fault].may_be_paid else 0.0, [])
            return await self._located(batch)
        store.note_sent(batch.id, vendor_id)
        self._report(0, batch.n_calls, f"batch {vendor_id} is sent")
        return batch._replace(vendor_id=vendor_id, state="running")

    async def _collect(self, batches: Sequence[Batch], calls: Mapping[int, Call]) -> None:
        """Look at the batches until each of them is over, and keep what came of it."""
        left = {batch.id: batch for batch in batches}
        n_done = dict.fromkeys(left, 0)
        n_total = sum(batch.n_calls for batch in batches)
        for wait in self._waits():
            for batch in list(left.values()):
                vendor = self._vendor(batch)
                with _borne(self, vendor):
                    standing = await vendor.look(str(batch.vendor_id))
                    n_done[batch.id] = standing.n_done
                    if standing.is_over:
                        await self._keep(batch, vendor, standing, calls)
                        del left[batch.id]
            self._report(sum(n_done.values()), n_total)
            if not left:
                return
            await self._pause(wait, list(left.values()))

    async def _keep(self, batch: Batch, vendor: Batching, standing: BatchStatus, calls: Mapping[int, Call]) -> None:
        """Commit all that came of a batch at once, and have the vendor forget it."""
        store, redactor = self._workspace.store.batches, self._workspace.redactor
        if standing.refused:
            store.dissolve(batch.id)
            self._n_failed += 1
            if standing.refused.fault in REJECTIONS:
                return
            raise TurnedDown(self._said(f"backend '{vendor.name}' took no batch: {standing.refused}"))
        results = await vendor.results(str(batch.vendor_id))
        ended = Ended(batch, store.calls_of(batch.id), store.n_failed(batch.id), results, standing.was_cancelled)
        outcome = outcome_of(ended, calls, redactor, self._breaker)
        if store.collect(batch, outcome.collected):
            seconds = self._workspace.clock() - batch.opened_at
            for reply in (reply for reply in outcome.replies if reply.id in calls):
                if tracing.is_on():
                    tracing.note_call(calls[reply.id], vendor.name, seconds, reply.fault or reply.usage)
                if self._on_reply:
                    self._on_reply(calls[reply.id], reply)
        self._n_answered += len(outcome.replies)
        self._n_failed += len(outcome.attempts)
        with suppress(BackendFault):
            await vendor.forget(str(batch.vendor_id))
        if outcome.failure:
            raise outcome.failure
        if standing.was_cancelled and batch.state != "cancelling":
            raise Stopped(f"batch '{batch.vendor_id}' was cancelled; {_LOST}")

    async def _cancel(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            located = await self._located(batch)
            if located is None:
                continue
            vendor = self._vendor(located)
            try:
                await vendor.cancel(str(located.vendor_id))
            except BackendFault as fault:
                raise BackendError(
                    self._said(f"batch '{located.vendor_id}' goes on: the vendor did not cancel it: {fault}")
                ) from None
            self._workspace.store.batches.note_cancelled(located.id)

    async def _pause(self, seconds: float, batches: Sequence[Batch]) -> None:
        """Wait; the minutes count. Raises CapReached when they are over: the batches are cancelled then."""
        await asyncio.sleep(seconds)
        bill = self._budget.bill([])
        spent = self._workspace.store.calls.settle(Settlement([], [], 0, [], self._budget.name, HOST, bill)).spent
        if self._budget.caps.exceeded(spent):
            with suppress(BackendError):
                await self._cancel(batches)
            raise self._budget.reached(spent, Cost(0))

    def _report(self, n_done: int, n_total: int, note: str = "") -> None:
        self._notify(Progress(BATCH, 0, n_done, n_total, note=note))

    def _said(self, text: str) -> str:
        return self._workspace.redactor.text(text)

    def bear(self, vendor: Batching, fault: BackendFault | None) -> None:
        """Note how a request about a batch ended. Raises BackendError, or Outage after many that failed in a row."""
        self._n_troubles = self._n_troubles + 1 if fault else 0
        if fault is None:
            return
        if fault.fault not in RETRYABLE:
            raise TurnedDown(self._said(f"backend '{vendor.name}': {fault}")) from None
        if self._n_troubles > MOST_TROUBLES:
            raise Outage(self._said(f"'{vendor.name}' cannot be asked about a batch: {fault}; {_LOST}")) from None


@contextmanager
def _borne(waves: Waves, vendor: Batching) -> Iterator[None]:
    """Bear a fault of a request that is made again later anyway."""
    try:
        yield
    except BackendFault as fault:
        waves.bear(vendor, fault)
    else:
        waves.bear(vendor, None)


def _parts(calls: Mapping[int, Call], vendor: Batching) -> Iterator[dict[int, Call]]:
    """Yield the calls in parts that one batch may hold."""
    part: dict[int, Call] = {}
    n_bytes = 0
    for call_id, call in calls.items():
        size = len(vendor.line(Item(name_of("0" * 16, call_id), call))) + 2
        if part and (len(part) >= vendor.max_calls or n_bytes + size > vendor.max_bytes):
            yield part
            part, n_bytes = {}, 0
        part[call_id] = call
        n_bytes += size
    if part:
        yield part


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sender:
    """How the calls of a run or a test are asked."""

    workspace: Workspace
    budget: Budget
    notify: Notify = silent
    on_reply: OnReply | None = None
    concurrency: int | None = None

    def send(self, backends: Mapping[Role, Backend], scope: str, work: Callable[[Asker], T]) -> T | Outstanding:
        """Return what `work` returns, with all batches waited for, or what is outstanding where a host is to answer.

        Raises Refused when calls of this scope wait at a vendor, and they are not to be asked by batch.
        """
        store = self.workspace.store
        if not any(map(batching, backends.values())):
            _nothing_waits(self.workspace, scope)
        waves = Waves(self.workspace, backends, self.budget, self.notify, self.on_reply)
        with Asker(
            store, backends, scope, concurrency=self.concurrency, on_reply=self.on_reply, budget=self.budget,
            on_pause=self._report_pause,
        ) as ask:  # fmt: skip
            while True:
                outcome = run_or_wait(ask, store, lambda: work(ask))
                if not isinstance(outcome, Outstanding) or not waves.take(outcome):
                    return outcome
                waves.answer(outcome.calls)
                ask.left_open.clear()

    def _report_pause(self, pause: Pause) -> None:
        self.notify(Progress(WAIT, 0, 0, 0, note=str(pause)))


def check_batch(workspace: Workspace, backends: Mapping[Role, Backend]) -> None:
    """Raise BadInput when calls are to be asked by batch, and neither target nor judge has a batch API."""
    if workspace.batch and not any(map(batching, backends.values())):
        raise BadInput(
            f"neither the target '{backends['target'].name}' nor a judge has a batch API: leave out --batch-api, or "
            "name openai:MODEL or anthropic:MODEL"
        )


def waiting_batches(workspace: Workspace, budget: str) -> list[Batch]:
    """Return the batches of a run, or of a test that was asked for by itself, that are still at a vendor."""
    return workspace.store.batches.list_open(budget)


def waiting_for(workspace: Workspace, candidate_id: str) -> list[Batch]:
    """Return the batches at a vendor that hold calls of a candidate's promotion tests."""
    candidate = workspace.store.candidates.get_candidate(candidate_id)
    tests = workspace.store.tests.list_of_skill(candidate.skill_id)
    scopes = [row.id for row in tests if row.version_id == candidate.version_id]
    found = {batch.id: batch for scope in scopes for batch in workspace.store.batches.list_waiting(scope)}
    return list(found.values())


def abandon(workspace: Workspace, backends: Mapping[Role, Backend], budget: str) -> list[Batch]:
    """Return the batches that their vendors were asked to answer no more of; what they answered already is paid."""
    batches = waiting_batches(workspace, budget)
    Waves(workspace, backends, Budget(budget), silent, None).cancel(batches)
    return batches


def describe_waiting(batches: list[Batch]) -> str:
    """Return what is still at a vendor, in words; empty when nothing is."""
    if not batches:
        return ""
    called = ((batch.vendor_id or "one that is being sent", counted(batch.n_calls, "call")) for batch in batches)
    names = ", ".join(f"{name} ({calls})" for name, calls in called)
    return f"still at the vendor, and paid for as far as it answers: {names}"


def _nothing_waits(workspace: Workspace, scope: str) -> None:
    waiting = workspace.store.batches.list_waiting(scope)
    if waiting:
        raise Refused(f"{describe_waiting(waiting)}: go on with --batch-api, so that nothing is paid twice")
