"""Cap reach: what a search leaves for its promotion test, in calls, tokens and money, and whether a cap reaches one."""

from __future__ import annotations

import pytest
from workshop import Place, right_when_taught, use

from skillopt_mcp.actions.forecasts import TestPrice as Price
from skillopt_mcp.actions.forecasts import caps_of_search, describe_reach
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import run_reach, start_run
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.budgets import Caps, Spent
from skillopt_mcp.core.calls import Call, Reply, Usage
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.workspace import Workspace

PRICE, N_CALLS, DEFAULT = Price(n_runs=100, votes=2), 300, 14_000  # an attempt and two votes on it; of an agent


@pytest.mark.parametrize(
    ("caps", "left"),
    [
        (Caps(calls=N_CALLS + 7), Caps(calls=7)),
        (Caps(calls=N_CALLS - 1), None),
        (Caps(tokens=N_CALLS * DEFAULT + 7), Caps(tokens=7)),
        (Caps(tokens=N_CALLS * DEFAULT - 1), None),
        (Caps(minutes=3), Caps(minutes=3)),
        (Caps(), Caps()),
    ],
)
def test_the_price_of_the_test_is_kept_back_of_each_cap(place: Place, caps: Caps, left: Caps | None) -> None:
    with place.open() as workspace:
        use(workspace, Scripted(right_when_taught, name="claude-code:m"))
        assert caps_of_search(workspace.store, workspace.models, caps, PRICE) == left


def test_tokens_and_money_are_those_of_such_calls_before(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(lambda call: Reply(right_when_taught(call), usage=Usage(90, 10, 0.01)), name="openai:m"))
    evaluate_candidate(workspace.store, workspace.models, workspace.place, place.propose(workspace))
    for caps, left in ((Caps(usd=3.5), 0.5), (Caps(usd=2.9), None)):
        found = caps_of_search(workspace.store, workspace.models, caps, PRICE)
        assert (found and found.usd) == (left and pytest.approx(left))
    found = caps_of_search(workspace.store, workspace.models, Caps(tokens=N_CALLS * 100 + 7), PRICE)
    assert found == Caps(tokens=7)


def test_a_test_that_was_broken_off_takes_only_what_is_left_of_it(place: Place, workspace: Workspace) -> None:
    run = start_run(
        workspace.store, workspace.models, workspace.place, "ledger-clerk", Config(epochs=2, batch=10, seed=2)
    )
    n_asked = 0

    def break_off(call: Call, _: Reply) -> None:
        nonlocal n_asked
        n_asked += call.draw.startswith("t-")
        if n_asked == 20:
            raise KeyboardInterrupt

    workspace.models.on_reply = break_off
    with pytest.raises(KeyboardInterrupt):
        replay(workspace.store, workspace.models, workspace.place, run)
    workspace.models.on_reply = None
    [test_id] = workspace.store.runs.list_finishes(run.id)
    row = workspace.store.tests.find(test_id)
    assert row
    n_left = row.plan.most_runs - workspace.store.tests.count_attempts(test_id)
    assert 0 < n_left < row.plan.most_runs
    spent = workspace.store.budgets.get_spent(run.id).calls
    for cap, reached in ((spent + n_left, "a verdict"), (spent + n_left - 1, "no verdict")):
        workspace.models.caps = Caps(calls=cap)
        said = run_reach(workspace.store, workspace.models, workspace.place.secrets, run)
        assert said == f"The cap (--max-calls {cap}) reaches {reached}: the promotion test takes up to {n_left} runs."


@pytest.mark.parametrize(
    ("caps", "n_spent", "reached"),
    [
        (Caps(calls=N_CALLS), 0, "a verdict"),
        (Caps(calls=N_CALLS), 1, "no verdict"),
        (Caps(calls=N_CALLS - 1), 0, "no verdict"),
        (Caps(calls=N_CALLS, minutes=9), 0, "a verdict"),
        (Caps(minutes=9), 0, ""),
        (Caps(), 0, ""),
    ],
)
def test_a_cap_says_whether_it_reaches_a_verdict(place: Place, caps: Caps, n_spent: int, reached: str) -> None:
    with place.open() as workspace:
        use(workspace, Scripted(right_when_taught, name="claude-code:m"))
        said = describe_reach(workspace.store, workspace.models, caps, PRICE, Spent(calls=n_spent))
        cap = f"--max-calls {caps.calls}"
        assert said == (reached and f"The cap ({cap}) reaches {reached}: the promotion test takes up to 100 runs.")
        assert describe_reach(workspace.store, workspace.models, caps, Price(0, 0), Spent()) == "", "without a test"
