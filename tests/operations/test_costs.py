"""Costs: what runs and promotion tests used, each its own, and what came to nothing of it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from workshop import LESSONS, Place, right_when_taught, use

from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.calls import Call, Reply, Usage
from skillopt_mcp.core.results import Replayed
from skillopt_mcp.reports.lookup import look_up
from skillopt_mcp.reports.run_report import list_runs
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.costs import (
    Accounted,
    account,
    describe_in_flight,
    describe_price,
    describe_repeats,
    describe_sends,
    used_by,
    used_of_candidate,
)
from skillopt_mcp.workspace.workspace import Workspace

SMALL = Config(epochs=1, batch=30, sessions=0, slow_update=False, meta_skill=False, step_buffer=False)
PATCH = json.dumps({"reasoning": "r", "edits": [{"op": "append", "content": LESSONS}]})
PRICED = Usage(50, 10, 0.25)


def scripted(answer: Callable[[Call], Reply]) -> Scripted:
    return Scripted(answer, name="simulated:honest")


def answering(workspace: Workspace, answer: Callable[[Call], Reply] | None = None) -> Scripted:
    """Let every run end in the same best version, at 0.25 dollars a rollout and 1 dollar a question."""
    backend = scripted(answer or (lambda call: Reply(right_when_taught(call), usage=PRICED)))
    use(workspace, backend)
    use(workspace, scripted(lambda _: Reply(PATCH, usage=Usage(100, 20, 1.0))), "optimizer")
    return backend


def trained(workspace: Workspace, seed: int = 1) -> Replayed:
    return replay(
        workspace.store,
        workspace.models,
        workspace.place,
        start_run(
            workspace.store, workspace.models, workspace.place, "ledger-clerk", SMALL.model_copy(update={"seed": seed})
        ),
    )


def test_a_run_shows_its_own_cost_and_next_to_it_that_of_its_test(place: Place, workspace: Workspace) -> None:
    answering(workspace)
    first = trained(workspace)
    [row] = list_runs(workspace.store, workspace.place).runs
    [test_id] = workspace.store.runs.list_finishes(first.run_id)
    own = sum(each.n_calls for each in workspace.store.ledger.list_rows(first.run_id))
    assert first.test
    runs = first.test.runs
    assert (first.n_calls, first.n_test_calls) == (row.n_calls, row.n_test_calls) == (own, runs.base + runs.candidate)
    assert (row.n_sent, row.n_answered, first.test_usd) == (own, own, 0.25 * first.n_test_calls)
    assert row.usd == first.usd == row.usd_known
    # The cost of a test belongs to the test, whichever run continues it.
    second = trained(workspace, seed=2)
    assert first.candidate_id == second.candidate_id
    listed = list_runs(workspace.store, workspace.place)
    [test] = listed.tests
    assert (test.contest, {each.n_test_calls for each in listed.runs}) == (test_id, {test.n_calls})
    assert [each.n_calls for each in listed.runs if each.id == first.run_id] == [own]
    assert f"test {test_id}" in look_up(workspace.store, workspace.place, first.run_id).text


def test_a_failed_send_of_unknown_price_leaves_the_others_known(workspace: Workspace) -> None:
    def answer(call: Call) -> Reply:
        if backend.n_calls == 5:
            raise BackendFault("internal", "a bug of the backend")
        return Reply(right_when_taught(call), usage=PRICED)

    backend = answering(workspace, answer)
    result = trained(workspace)
    used = account(workspace.store, result.run_id).summary
    assert (result.usd, used.n_unpriced, used.n_failed, used.n_sent) == (None, 1, 1, used.n_answered + 1)
    assert (
        f"${used.usd_known:.2f} + 1 send of unknown price"
        in look_up(workspace.store, workspace.place, result.run_id).text
    )


def test_what_was_sent_is_counted_while_nothing_came_back(workspace: Workspace) -> None:
    def answer(_: Call) -> Reply:
        if backend.n_calls == 5:
            raise ZeroDivisionError("a bug that ends the process")
        return Reply("no", usage=PRICED)

    backend = answering(workspace, answer)
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", SMALL)
    with pytest.raises(ZeroDivisionError):
        replay(workspace.store, workspace.models, workspace.place, run)
    spent, used = workspace.store.budgets.get_spent(run.id), account(workspace.store, run.id).summary
    assert (used.n_sent, used.n_answered, used.n_unanswered) == (spent.calls, spent.calls - 1, 1)
    assert "1 call was in flight" in describe_in_flight(workspace.store, [run.id])
    replay(workspace.store, workspace.models, workspace.place, run)
    used = account(workspace.store, run.id).summary
    assert (used.n_sent - used.n_answered, used.n_unanswered, used.n_repeated) == (1, 1, 1)
    assert describe_in_flight(workspace.store, [run.id]) == ""


def test_a_test_that_was_interrupted_counts_what_was_lost_when_it_goes_on(place: Place, workspace: Workspace) -> None:
    def answer(_: Call) -> Reply:
        if backend.n_calls == 5:
            raise ZeroDivisionError("a bug that ends the process")
        return Reply("no", usage=PRICED)

    workspace.models.concurrency = 1
    candidate_id = place.propose(workspace)
    use(workspace, backend := scripted(answer))
    with pytest.raises(ZeroDivisionError):
        evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id)
    [used] = list_runs(workspace.store, workspace.place).tests
    assert (used.n_sent, used.n_answered, used.n_failed, used.n_unanswered) == (5, 4, 0, 1)
    answering(workspace)
    test = evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id).test
    assert test
    assert test.lost.asked_again == 1
    [used] = list_runs(workspace.store, workspace.place).tests
    n = test.runs.base + test.runs.candidate
    assert (used.n_sent, used.n_answered, used.n_unanswered, used.n_repeated) == (n + 1, n, 1, 1)
    assert "lost with a process" in str(used)


def test_a_test_by_hand_counts_what_failed_and_what_was_under_way(place: Place, workspace: Workspace) -> None:
    def answer(_: Call) -> Reply:
        if backend.n_calls % 5 == 0:
            raise BackendFault("truncated", "cut off", usage=PRICED if backend.n_calls % 2 else None)
        return Reply("no", usage=PRICED)

    candidate_id = place.propose(workspace)
    backend = answering(workspace, answer)
    evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id)
    [used] = list_runs(workspace.store, workspace.place).tests
    n, n_unpriced = backend.n_calls, backend.n_calls // 10
    assert (used.n_sent, used.n_failed, used.n_unpriced) == (n, n // 5, n_unpriced)
    assert (used.tokens, used.usd, used.usd_known) == (60 * (n - n_unpriced), None, 0.25 * (n - n_unpriced))
    assert used == used_by(workspace.store, used.contest)
    assert used_of_candidate(workspace.store, candidate_id).n_sent == n
    assert describe_in_flight(workspace.store, [used.contest]) == ""


@pytest.mark.parametrize(
    ("known", "n_unpriced", "n_unbilled", "at_most", "text"),
    [
        (0.14, 0, 0, 0.14, "$0.14"),
        (0.14, 0, 0, 0.21, "$0.14, at most $0.21"),
        (0.39, 1, 0, 0.5, "$0.39 + 1 send of unknown price, at most $0.50"),
        (0.0, 100, 0, 0.0, "price unknown"),
        (0.0, 100, 100, 0.0, "no price was billed (a host's own agents)"),
        (0.25, 7, 7, 0.0, "$0.25"),
    ],
)
def test_a_price_is_shown_as_far_as_it_is_known(
    known: float, n_unpriced: int, n_unbilled: int, at_most: float, text: str
) -> None:
    row = Accounted(
        n_answered=100, usd_known=known, n_unpriced=n_unpriced, n_unbilled=n_unbilled, usd_at_most=at_most
    )  # fmt: skip
    assert describe_price(row) == text


def test_sends_that_a_host_has_are_shown_apart_from_those_that_were_lost() -> None:
    used = Accounted(n_sent=9, n_answered=4, n_unanswered=5, n_with_host=2, n_repeated=3, n_host_again=1)
    assert describe_sends(used) == "9 sent: 4 answered, 2 with a host, 3 without an answer (they may be paid for)"
    assert describe_repeats(used).startswith("1 work item handed out again; up to 2 calls lost with a process")
