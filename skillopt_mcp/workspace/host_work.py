"""Host work: calls that a host's agents answer, leased in folders, and taken back."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from skillopt_mcp.backends.asking import Outstanding
from skillopt_mcp.backends.spending import Budget
from skillopt_mcp.backends.work import ANSWER, kind_of, n_chars, work_of
from skillopt_mcp.core.budgets import Cost
from skillopt_mcp.core.calls import Call, Question, Reply, Rollout
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import Foreseen, Wave, WorkEstimate
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.leases import Offer, Term
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.judging import n_votes
from skillopt_mcp.training.promotion_test import Test
from skillopt_mcp.workspace.costs import default_tokens
from skillopt_mcp.workspace.evidence import find_host_roles
from skillopt_mcp.workspace.jobs import Capacity
from skillopt_mcp.workspace.leases import leases_in_time, minute_after, own_leases
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.place import Place

# Where the id of a lease names the server that handed it out; the rest is secret.
_OWNER = slice(2, 18)
_START_AGENTS = "start a fresh agent for each folder in `dir`: it does what WORK.md there says; you do not"


def hand_out(
    store: Store, models: Models, place: Place, scope: str, outstanding: Outstanding, capacity: Capacity | None
) -> tuple[Wave | None, NextStep]:
    """Return work on calls that no session has, leased to the caller's session, and what to do with it or without any.

    The order is random and reveals nothing; what is taken at once is for one version of the skill, or of one kind.
    Without `capacity` a caller is given what its session has out already, if anything.
    Raises CapReached when all that is left was handed out before, and to do so again would exceed a cap.
    """
    leases, now = store.leases, store.leases.now()
    arguments: dict[str, JsonValue] = {"job_id": scope}
    own = [place.work_folders.folder(lease.id) for lease in own_leases(store, place, scope) if lease.expires_at > now]
    again = "this session has these out already; where no agent works on one, "
    # One wave, until its answers are in: the numbers of another one are the same.
    folders = [each for each in own if each.parent == own[0].parent]
    if capacity is None and place.work_folders.list_finished({each.id: [ANSWER] for each in leases.list_out(scope)}):
        return None, NextStep(action="submit_work", arguments=arguments, why="answers lie in folders: this takes them")
    if capacity is not None or not folders:
        capacity, again, calls = capacity or Capacity(), "", outstanding.calls
        # What others took from a server that has ended is free; a late answer to it still counts if it is the first.
        # Agents of the caller's own session may still work.
        others = [lease for lease in leases.list_out(scope) if lease.session != place.session]
        alive = {owner: models.owner.is_alive(owner) for owner in {lease.id[_OWNER] for lease in others}}
        if gone := [lease.id for lease in others if not alive[lease.id[_OWNER]]]:
            leases.free_at(gone, now)
        free = leases.free(sorted(calls, key=lambda id: hashlib.sha256(f"{scope} {id}".encode()).digest()), now)
        taken, is_capped = _take_calls(store, models, place, scope, _choose_fitting(free, calls, capacity))
        if is_capped and not taken:
            # What was never handed out is paid for.
            paid = leases.free(free, now, is_new=True)
            taken, _ = _take_calls(store, models, place, scope, _choose_fitting(paid, calls, capacity))
            if not taken:
                raise Budget(scope, models.caps).reached(store.budgets.get_spent(scope), Cost())
        folders = [place.work_folders.folder(offer.id) for offer in taken]
    if folders:
        work = Wave(dir=str(folders[0].parent), count=len(folders))
        return work, NextStep(action="submit_work", arguments=arguments, why=f"{again}{_START_AGENTS}")
    why = "more work may be free"
    if out := leases_in_time(store, scope):
        until = minute_after(min(lease.expires_at for lease in out))
        n_own = sum(lease.session == place.session for lease in out)
        why = f"{len(out)} items are out ({n_own} to your agents): wait for those, or stop here and call it at {until}"
    return None, NextStep(action="submit_work", arguments=arguments, why=why)


def _take_calls(
    store: Store, models: Models, place: Place, scope: str, calls: Mapping[int, Call]
) -> tuple[list[Offer], bool]:
    """Write the folders of calls, and lease them to the caller's session; which, and whether caps left out others."""
    leases, folders, now, offers = store.leases, place.work_folders, store.leases.now(), list[Offer]()
    wave = f"w-{models.owner.name}{secrets.token_hex(8)}"
    for call_id, call in calls.items():
        task_id = call.request.task.id if isinstance(call.request, Rollout) else None
        offer = Offer(f"{wave}-{len(offers) + 1}", call_id, task_id)
        try:
            folders.make(offer.id, work_of(call))
        except BadInput as reason:
            # The same for every taker: the rest of the job goes on without it.
            leases.rule_out(Reply(str(reason), fault="unsupported", id=call_id))
        else:
            offers.append(offer)
    if not offers:
        return [], False
    term = Term(scope, place.session, now, now + models.lease_s)
    taken, is_capped = leases.take(offers, term, models.caps)
    folders.remove({offer.id for offer in offers} - {offer.id for offer in taken})
    # A process died before it could.
    stale = folders.stale()
    folders.remove(set(stale) - leases.in_time(stale, now))
    return taken, is_capped


def _choose_fitting(free: Sequence[int], calls: Mapping[int, Call], capacity: Capacity) -> dict[int, Call]:
    chosen, left = dict[int, Call](), capacity.chars
    for call_id in free:
        if kind_of(calls[call_id]) != kind_of(calls[free[0]]):
            continue
        left -= n_chars(calls[call_id])
        if len(chosen) == capacity.items or (chosen and left < 0):
            break
        chosen[call_id] = calls[call_id]
    return chosen


def take_back_erased(store: Store, place: Place, outcome: Outstanding) -> bool:
    """Take back what was handed out of the questions that show an erased attempt, if any; whether there are such."""
    erasing = store.table(Erasing)
    asked = {id: set(call.request.refs) for id, call in outcome.calls.items() if isinstance(call.request, Question)}
    numbers = [int(ref.partition(":")[2]) for refs in asked.values() for ref in refs if ref.startswith("trajectory:")]
    gone = {f"trajectory:{each}" for each in erasing.find_erased(numbers)}
    showing = [call_id for call_id, refs in asked.items() if refs & gone]
    _, leases = erasing.clear_calls(showing)
    place.work_folders.remove(leases)
    return bool(showing)


def withdraw(store: Store, place: Place, scope: str) -> None:
    """Take back the work of a scope that is still out: its verdict is reached."""
    place.work_folders.remove(store.leases.withdraw(scope))


def estimate_host_test(test: Test, store: Store, foreseen: Foreseen | None) -> WorkEstimate:
    """What is left of a host's test: its shortest mean course and its longest, less what is done."""
    n_done = 0 if test.foreseen else store.tests.count_attempts(test.row.id)
    shortest = min((row.runs for row in foreseen.power), default=test.row.plan.most_runs) if foreseen else 1
    attempts = max(1, shortest - n_done), max(1, test.row.plan.most_runs - n_done)
    votes = [
        math.ceil(n * sum(n_votes(task, fewest=fewest) for task in test.tasks) / len(test.tasks))
        for n, fewest in zip(attempts, (True, False), strict=True)
    ]
    return WorkEstimate(
        attempts=attempts,
        judgements=(votes[0], votes[1]),
        tokens_each=default_tokens("host"),
        by_host=[role for role in find_host_roles(test.row.backend) if role == "target" or votes[1]],
    )
