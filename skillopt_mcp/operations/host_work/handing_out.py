"""Handing out: open calls become work that a host takes, a few at a time, each for a while."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from skillopt_mcp.backends.work import kind_of, n_chars, work_of
from skillopt_mcp.calls.asking import Outstanding
from skillopt_mcp.calls.spending import Budget
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.confirm import fewest_more
from skillopt_mcp.operations.judging import fewest_votes, is_attempted_by_host, is_judged_by_host, n_votes
from skillopt_mcp.operations.leasing import n_elsewhere, own_leases, told_answered, told_wait
from skillopt_mcp.operations.results import WorkItem
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import Test, paused_at
from skillopt_mcp.optimizer.pacing import Pace
from skillopt_mcp.records.budgets import Cost
from skillopt_mcp.records.calls import Call, Reply, Rollout
from skillopt_mcp.store.leases import Offer, Taken, Term
from skillopt_mcp.store.opening import Store

MAX_ITEMS = 16
DEFAULT_ITEMS = 4
DEFAULT_CHARS = 400_000
# Where the id of a lease names the server that handed it out; what follows nobody can guess.
_OWNER = slice(2, 18)
_NAMED = 8
_OUT_ALREADY = "This session has this work out already; asking again gives no more: do this where nobody is at it. "


@dataclass(frozen=True, slots=True)
class Room:
    """How much a host takes at once: items (none: it only hands in), and characters of all it is to read for them."""

    items: int = DEFAULT_ITEMS
    chars: int = DEFAULT_CHARS

    def __post_init__(self) -> None:
        if not 0 <= self.items <= MAX_ITEMS:
            raise BadInput(f"max_items {self.items} cannot be handed out at once: ask for 0 to {MAX_ITEMS}")
        if self.chars < 1:
            raise BadInput(f"max_chars {self.chars} leaves room for nothing: ask for more")


class Handed(NamedTuple):
    """The work that a host was given, and what it is to do with it, or without any."""

    work: list[WorkItem]
    next_step: str


def hand_out(workspace: Workspace, scope: str, outstanding: Outstanding, room: Room | None) -> Handed:
    """Return work on calls that are in nobody's hands, leased to the session of the caller.

    The order is by chance and tells nothing; all of one batch is done with one version of the skill, or is of one kind.
    Who names no room looks, or asks again: they are given what their session has out, as far as there is any.
    Raises CapReached when all that is left was handed out before, and to do so again would go above a cap.
    """
    if room is None and (held := _held(workspace, scope)):
        return _handed(workspace, scope, held[:MAX_ITEMS], again=True)
    room = room or Room()
    calls, leases = outstanding.calls, workspace.store.leases
    _free_of_the_gone(workspace, scope)
    free = leases.free(sorted(calls, key=lambda call_id: _shuffled(scope, call_id)), workspace.clock())
    taken = _leased(workspace, scope, calls, _batch(free, calls, room))
    if taken.is_capped and not taken.offers:
        # What was in nobody's hands yet is paid for.
        taken = _leased(workspace, scope, calls, _batch(leases.never_taken(free), calls, room))
        if not taken.offers:
            raise Budget(scope, workspace.caps).reached(workspace.store.budgets.get_spent(scope), Cost())
    return _handed(workspace, scope, [offer.id for offer in taken.offers])


def _held(workspace: Workspace, scope: str) -> list[str]:
    """Return the ids of what the caller's own session has out, in time."""
    now = workspace.clock()
    return [lease.id for lease in own_leases(workspace, scope) if lease.expires_at > now]


def _handed(workspace: Workspace, scope: str, ids: Sequence[str], *, again: bool = False) -> Handed:
    """Return work of these ids, with what the host is to do with it, and what else its session has out."""
    if not ids:
        return Handed([], told_wait(workspace, scope))
    work = [WorkItem(work_id=each, folder=str(workspace.workplaces.folder(each))) for each in ids]
    others = [each for each in _held(workspace, scope) if each not in ids]
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    besides = f" This session has out besides: {', '.join(others[:_NAMED])}{more}." if others else ""
    start = f"{_OUT_ALREADY if again else ''}{_start_agents(len(ids))}"
    return Handed(work, f"{start} More at the same time: submit_work with job_id {scope}.{besides}")


def _start_agents(n: int) -> str:
    each = "For this 1 item" if n == 1 else f"For each of these {n} items"
    return (
        f"{each} start a fresh agent that is told its folder and nothing else: it does what WORK.md there says and "
        "calls submit_work (without files: inspect the work_id). Do not do it yourself, nor look into it."
    )


def _free_of_the_gone(workspace: Workspace, scope: str) -> None:
    """Free what other sessions took from a server that has ended: what was cut off with it need not be waited for.

    An answer to it still counts, unless somebody else has given one. Of its own session, agents may be at it yet.
    """
    alive: dict[str, bool] = {}
    gone = []
    for lease in workspace.store.leases.unanswered_of(scope):
        owner = lease.id[_OWNER]
        if lease.session != workspace.session:
            alive[owner] = alive[owner] if owner in alive else workspace.owner.is_alive(owner)
            gone += [] if alive[owner] else [lease.id]
    if gone:
        workspace.store.leases.free_at(gone, workspace.clock())


def _leased(workspace: Workspace, scope: str, calls: Mapping[int, Call], call_ids: Sequence[int]) -> Taken:
    """Lay out work on calls and lease it to the session of the caller."""
    leases, places, now, offers = workspace.store.leases, workspace.workplaces, workspace.clock(), list[Offer]()
    for call_id in call_ids:
        offer = Offer(f"w-{workspace.owner.name}{secrets.token_hex(8)}", call_id, _task_id(calls[call_id]))
        try:
            places.make(offer.id, work_of(calls[call_id], offer.id))
        except BadInput as reason:
            # It would be so for whoever takes it: the rest of the job goes on without.
            leases.rule_out(Reply(str(reason), fault="unsupported", id=call_id))
        else:
            offers.append(offer)
    if not offers:
        return Taken([], is_capped=False)
    term = Term(scope, workspace.session, now, now + workspace.lease_s)
    taken = leases.take(offers, term, workspace.caps)
    places.remove({offer.id for offer in offers} - {offer.id for offer in taken.offers})
    places.sweep()
    return taken


def untouched(test: Test, store: Store) -> bool:
    """Return whether nobody has begun a test, or gone on with it since it paused: what its turn takes is told first."""
    if not test.is_open:
        return True
    n_pairs = len(store.decisions.list_pairs(test.row.id))
    is_worn = test.row.claim == "like_these" and n_pairs >= len(test.tasks)
    is_paused = 0 < n_pairs == paused_at(test.row, store) and not is_worn
    if not is_paused or store.leases.unanswered_of(test.row.id):
        return False
    return max(store.decisions.count_replies(test.row.id), default=0) < n_pairs


def pace_for(workspace: Workspace, test: Test, room: Room) -> Pace:
    """Return how far ahead a host is asked the pairs of a test.

    As far as one batch of one version needs; for what other sessions hold as many more, so that nobody waits for it.
    """
    store = workspace.store
    paused = paused_at(test.row, store)
    sure = paused + fewest_more(store.decisions.list_pairs(test.row.id)[:paused], test.rule)
    return Pace(room.items, sure, n_elsewhere(workspace, test.row.id))


def expectation(test: Test, store: Store) -> str:
    """Return what a host's test takes, in words, before anything is spent on it.

    The fewest pairs are told from the evidence at the last pause: whoever makes the attempts is not told, pair by pair,
    how they were scored.
    """
    pairs, paused = store.decisions.list_pairs(test.row.id), paused_at(test.row, store)
    n_done, pause = len(pairs), paused + test.rule.max_pairs
    pause = min(pause, len(test.tasks)) if test.row.claim == "like_these" else pause
    left = max(1, pause - n_done)
    fewest = max(1, paused + fewest_more(pairs[:paused], test.rule) - n_done)
    n_chars = len(test.base.text) + max(len(task.prompt) for task in test.tasks)
    by_host = is_attempted_by_host(test.row.backend)
    replies = store.decisions.count_replies(test.row.id) if by_host else {}
    # Those that no pair is made of yet need not be made again.
    to_make = [max(0, 2 - replies.get(n, 0)) for n in range(n_done, n_done + left)]
    attempts = (max(1, sum(to_make[:fewest])), max(1, sum(to_make)))
    told = told_answered(store, test.row.id)
    is_one = sum(store.leases.count_answered(test.row.id).values()) == 1
    handed_in = f" ({told} {'is' if is_one else 'are'} handed in)" if told else ""
    made = "agent runs" if by_host else "target calls (none by your agents)"
    return (
        f"{counted(n_done, 'pair is', 'pairs are')} done{handed_in}; a verdict takes {fewest} more at the very least, "
        f"and after {pause} it pauses: from {attempts[0]} to {attempts[1]} more {made}, each of which reads up to "
        f"{n_chars:,} characters (about {n_chars // 4:,} tokens) before it works{_to_judge(test, attempts)}"
    )


def _to_judge(test: Test, attempts: tuple[int, int]) -> str:
    """Return how many more agent runs, or calls of a judge model, judge so many attempts; empty without a rubric."""
    votes = [sum(map(n, test.tasks)) for n in (fewest_votes, n_votes)]
    if not any(votes):
        return ""
    by_host = is_judged_by_host(test.row.backend)
    fewest, most = (math.ceil(each * n / len(test.tasks)) for each, n in zip(attempts, votes, strict=True))
    n_rubrics = sum(n_votes(task) > 0 for task in test.tasks)
    one, judge = ("", "judges") if most == 1 else ("s", "judge")
    made = f"agent run{one}" if by_host else f"call{one} of the judge (none by your agents)"
    many = f"{fewest} to {most}" if fewest < most else f"{most}"
    return (
        f"; besides, about {many} {made} {judge} their answers, as {n_rubrics} of "
        f"{counted(len(test.tasks), 'held-out task')} {'is' if n_rubrics == 1 else 'are'} judged by a rubric"
    )


def withdraw(workspace: Workspace, scope: str) -> None:
    """Take back what of a scope is still in somebody's hands: its verdict is reached."""
    workspace.workplaces.remove(workspace.store.leases.withdraw(scope))


def _shuffled(scope: str, call_id: int) -> bytes:
    return hashlib.sha256(f"{scope} {call_id}".encode()).digest()


def _batch(free: Sequence[int], calls: Mapping[int, Call], room: Room) -> list[int]:
    if not free or not room.items:
        return []
    kind = kind_of(calls[free[0]])
    chosen, left = list[int](), room.chars
    for call_id in free:
        if kind_of(calls[call_id]) != kind:
            continue
        left -= n_chars(calls[call_id])
        if len(chosen) == room.items or (chosen and left < 0):
            break
        chosen.append(call_id)
    return chosen


def _task_id(call: Call) -> int | None:
    return call.request.task.id if isinstance(call.request, Rollout) else None
