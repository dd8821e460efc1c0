"""Budgets of runs: refused when they cannot hold, a clean stop when they are reached, the same end when raised."""

import pytest
from workshop import SEED, SIMULATION, Place, right_when_taught, use

from skillopt_mcp.actions.estimates import Forecast, estimate_rest, estimate_run, forecast
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import new_run, start_run
from skillopt_mcp.backends.openai import open_openai
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.simulated import open_simulated
from skillopt_mcp.core.budgets import Caps, Spent
from skillopt_mcp.core.calls import Reply, Usage
from skillopt_mcp.core.errors import BadInput, CapReached
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.models import check_caps, is_used_up
from skillopt_mcp.workspace.workspace import Workspace

CONFIG = Config(epochs=2, batch=10, seed=2)


def test_a_run_stopped_at_its_caps_again_and_again_ends_as_if_it_had_none(place: Place, workspace: Workspace) -> None:
    free = place.open(store="free.db")
    place.add_tasks(free)
    straight = replay(
        free.store, free.models, free.place, start_run(free.store, free.models, free.place, "ledger-clerk", CONFIG)
    )
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    n_stops = 0
    for n in (*range(40, 200, 40), 10_000):  # the first ones do not hold the price of the promotion test
        workspace.models.caps = Caps(calls=n)
        try:
            result = replay(workspace.store, workspace.models, workspace.place, run)
            break
        except CapReached:
            n_stops += 1
            assert workspace.store.runs.get_run(run.id).status == "stopped"
            assert workspace.store.budgets.get_spent(run.id).calls == n
    assert n_stops > 3
    assert result == straight
    assert workspace.store.budgets.get_spent(run.id).calls == result.n_calls + result.n_test_calls


def test_what_is_left_of_a_run_never_falls_below_what_it_goes_on_to_ask(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    estimate = estimate_run(
        workspace.store,
        workspace.models,
        new_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG),
    )
    assert estimate_rest(workspace.store, workspace.models, workspace.place.secrets, run) == estimate.calls
    lefts = []
    for n in range(60, 10_000, 20):
        workspace.models.caps = Caps(calls=n)
        lefts.append(
            (
                workspace.store.budgets.get_spent(run.id).calls,
                estimate_rest(workspace.store, workspace.models, workspace.place.secrets, run),
            )
        )
        try:
            result = replay(workspace.store, workspace.models, workspace.place, run)
            break
        except CapReached:
            pass
    assert all(sum(left.values()) >= result.n_calls + result.n_test_calls - n_spent for n_spent, left in lefts)
    targets = [left["target"] for _, left in lefts]
    assert targets == sorted(targets, reverse=True)
    _, last = lefts[-1]
    assert last["optimizer"] == 0, "it was not stopped in its promotion test: choose another step"
    assert last["target"] <= estimate.promotion_runs < estimate.calls["target"]


@pytest.mark.parametrize("n_before", [60, 150])
def test_what_is_left_of_a_run_that_others_go_on_with_is_never_below_what_they_are_asked(
    place: Place, workspace: Workspace, n_before: int
) -> None:
    run, store = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG), workspace.store
    workspace.models.caps = Caps(calls=n_before)
    with pytest.raises(CapReached):
        replay(workspace.store, workspace.models, workspace.place, run)
    other = open_simulated(f"honest,seed={SEED}")
    other.fingerprint = f"{other.fingerprint},version=2"
    use(workspace, other)
    lefts = []
    for n in range(n_before, 10_000, 60):
        workspace.models.caps = Caps(calls=n)
        run = store.runs.get_run(run.id)
        lefts.append(
            (
                store.budgets.get_spent(run.id).calls,
                estimate_rest(workspace.store, workspace.models, workspace.place.secrets, run),
            )
        )
        try:
            replay(workspace.store, workspace.models, workspace.place, run, allow_changed=True)
            break
        except CapReached:
            pass
    n_calls = store.budgets.get_spent(run.id).calls
    assert [left for n_spent, left in lefts if sum(left.values()) < n_calls - n_spent] == []
    most = estimate_run(workspace.store, workspace.models, run).calls
    assert sum(lefts[0][1].values()) <= sum(most.values()) + 30


def test_a_budget_is_used_up_when_not_even_a_small_call_can_be_sent() -> None:
    spec = "m,base_url=http://127.0.0.1:9,max_tokens=100,price_in=1,price_out=2"
    backends = {"target": open_openai(spec, {})}
    assert not is_used_up(Caps(), Spent(10**6), backends)
    assert not is_used_up(Caps(calls=5), Spent(4), backends)
    assert is_used_up(Caps(calls=5), Spent(5), backends)
    assert not is_used_up(Caps(tokens=10_000), Spent(0, 1000), backends)
    assert is_used_up(Caps(tokens=10_000), Spent(0, 9_950), backends)
    assert is_used_up(Caps(minutes=1.0), Spent(seconds=60.0), backends)


def test_a_cap_that_cannot_hold_is_refused_before_anything_is_stored(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(lambda _: "42", name=SIMULATION))
    workspace.models.caps = Caps(tokens=1000)
    with pytest.raises(BadInput, match="has no limit per answer"):
        start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    assert workspace.store.runs.list_runs(workspace.place.skill("ledger-clerk").id) == []


@pytest.mark.parametrize(
    ("options", "caps", "message"),
    [
        ("", Caps(usd=1.0), "write max_tokens=N in its spec"),
        ("", Caps(tokens=1000), "write max_tokens=N in its spec"),
        (",max_tokens=100", Caps(usd=1.0), "the price of .* is unknown"),
        (",max_tokens=100", Caps(usd=0.0), "--max-usd must be a number above 0, got 0.0"),
        ("", Caps(calls=-1), "--max-calls must be a whole number above 0, got -1"),
        ("", Caps(usd=float("nan")), "got nan"),
        ("", Caps(calls="5"), "got '5'"),  # type: ignore[arg-type]
        ("", Caps(tokens=True), "got True"),
    ],
)
def test_a_cap_is_refused_where_it_means_nothing(options: str, caps: Caps, message: str) -> None:
    backend = open_openai(f"m,base_url=http://127.0.0.1:9{options}", {})
    with pytest.raises(BadInput, match=message):
        check_caps(caps, {"target": backend})


@pytest.mark.parametrize(("name", "tokens"), [("claude-code", 14_000), ("codex:m,effort=low", 14_000)])
def test_an_agent_that_never_ran_here_is_forecast_by_a_default_until_it_has(
    place: Place, workspace: Workspace, name: str, tokens: int
) -> None:
    use(workspace, Scripted(right_when_taught, name=name))
    expected = Forecast(tokens=40 * tokens, tokens_each=tokens, is_default=True)
    assert forecast(workspace.store, workspace.models, {"target": 40, "optimizer": 0}) == expected
    used = Usage(tokens_in=900, tokens_out=100, usd=0.01)
    use(workspace, Scripted(lambda call: Reply(right_when_taught(call), usage=used), name=name))
    evaluate_candidate(
        workspace.store, workspace.models, workspace.place, place.propose(workspace), Wait(workspace.jobs, 30)
    )
    measured = forecast(workspace.store, workspace.models, {"target": 40})
    assert (measured.tokens, measured.tokens_each, measured.is_default) == (40_000, 1_000, False)
    assert measured.usd == pytest.approx(0.4)


def test_what_a_run_may_take_is_forecast_from_what_the_same_models_took(place: Place, workspace: Workspace) -> None:
    estimate = estimate_run(
        workspace.store,
        workspace.models,
        new_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG),
    )
    assert forecast(workspace.store, workspace.models, estimate.calls) == Forecast(unknown=("target", "optimizer"))
    result = replay(
        workspace.store,
        workspace.models,
        workspace.place,
        start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG),
    )
    workspace.models.concurrency = 8
    found = forecast(workspace.store, workspace.models, estimate.calls)
    assert found.tokens is not None
    assert found.minutes is not None
    assert result.tokens_in + result.tokens_out < found.tokens < 20 * (result.tokens_in + result.tokens_out)
    assert found.usd == 0.0
    assert 0 < found.minutes < 1
    opened = place.open(target="simulated:placebo")
    assert forecast(opened.store, opened.models, estimate.calls) == Forecast(unknown=("target", "optimizer"))
