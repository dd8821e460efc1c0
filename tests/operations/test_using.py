"""Using: contests and promotion tests tell their sends and what was lost of them, as runs do."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import pytest
from workshop import Place, use

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.operations.spending.listing_runs import list_runs
from skillopt_mcp.operations.spending.using import Used, flying_for, in_all, used_beside, used_by, used_of_candidate
from skillopt_mcp.operations.testing.calibrating import calibrate
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import Call, Reply, Usage

PRICED = Usage(50, 10, 0.25)


class Cut(Scripted):
    """A backend that is interrupted at its n-th call, and never answers that one."""

    def __init__(self, n: int) -> None:
        super().__init__(lambda _: Reply("no", usage=PRICED), name="simulated:honest")
        self._n = n

    async def complete(self, call: Call) -> Reply:
        """Answer, or wait for the Ctrl-C that comes."""
        reply = await super().complete(call)
        if self.n_calls == self._n:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(3600)
        return reply


def calibrated(workspace: Workspace) -> None:
    calibrate(workspace, "ledger-clerk", 4, 1.0, ConfirmRule(max_pairs=1))


def one(each: list[Used]) -> Used:
    [used] = each
    return used


def failing_every(n: int) -> Callable[[Call], Reply]:
    n_asked = 0

    def answer(_: Call) -> Reply:
        nonlocal n_asked
        n_asked += 1
        if n_asked % n == 0:
            raise BackendFault("truncated", "cut off", usage=PRICED if n_asked % 2 else None)
        return Reply("no", usage=PRICED)

    return answer


def test_a_contest_that_is_interrupted_says_what_was_under_way_and_tells_it_as_lost_when_it_goes_on(
    workspace: Workspace,
) -> None:
    workspace.n_slots = 1
    use(workspace, Cut(5))
    with pytest.raises(KeyboardInterrupt) as caught:
        calibrated(workspace)
    told = "up to 1 call was under way: what they cost may be paid again, as they are sent again when it goes on"
    assert caught.value.__notes__ == [told]
    used = one(list_runs(workspace).beside)
    assert (used.n_sent, used.n_answered, used.n_failed, used.n_unanswered) == (5, 4, 0, 1)
    assert str(used).startswith("4 calls (5 sent: 4 answered, 1 without an answer (")
    use(workspace, Scripted(lambda _: Reply("no", usage=PRICED), name="simulated:honest"))
    calibrated(workspace)
    used = one(list_runs(workspace).beside)
    assert (used.n_sent, used.n_answered, used.n_unanswered, used.n_repeated) == (9, 8, 1, 1)
    assert "; up to 1 call was lost with a process that ended, and sent again; not in these sums: about " in str(used)


def test_a_test_by_hand_tells_its_sends_with_what_failed_of_them(place: Place, workspace: Workspace) -> None:
    candidate_id = place.propose(workspace)
    backend = Scripted(failing_every(5), name="simulated:honest")
    use(workspace, backend)
    evaluate_candidate(workspace, candidate_id, rule=ConfirmRule(max_pairs=8))
    used = one(list_runs(workspace).beside)
    n_failed = backend.n_calls // 5
    n_unpriced = backend.n_calls // 10
    assert (used.n_sent, used.n_failed, used.n_unpriced) == (backend.n_calls, n_failed, n_unpriced)
    assert used.tokens == 60 * (backend.n_calls - n_unpriced)
    assert (used.usd, used.usd_known) == (None, 0.25 * (backend.n_calls - n_unpriced))
    assert used == used_by(workspace.store, used.contest) == used_beside(workspace.store, used.contest)
    assert in_all([used]).model_copy(update={"contest": used.contest}) == used
    assert used_of_candidate(workspace.store, candidate_id).n_sent == backend.n_calls


def test_a_test_by_hand_that_ended_within_a_call_says_what_was_under_way(place: Place, workspace: Workspace) -> None:
    def answer(_: Call) -> Reply:
        if backend.n_calls == 3:
            raise ZeroDivisionError("a bug that ends the process")
        return Reply("no", usage=PRICED)

    candidate_id = place.propose(workspace)
    workspace.n_slots = 1
    backend = Scripted(answer, name="simulated:honest")
    use(workspace, backend)
    with pytest.raises(ZeroDivisionError):
        evaluate_candidate(workspace, candidate_id, rule=ConfirmRule(max_pairs=8))
    assert flying_for(workspace.store, candidate_id).startswith("up to 1 call was under way: ")
    assert used_of_candidate(workspace.store, candidate_id).n_unanswered == 1


def test_what_a_contest_spent_that_was_never_answered_is_told(workspace: Workspace) -> None:
    fault = BackendFault("truncated", "cut off", usage=PRICED)
    use(workspace, Scripted(lambda _: fault, name="simulated:honest"))
    with pytest.raises(BadInput, match="not one pair"):
        calibrated(workspace)
    used = one(list_runs(workspace).beside)
    assert (used.n_answered, used.n_failed, used.tokens, used.usd) == (0, 8, 480, 2.0)
