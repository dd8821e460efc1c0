"""Policies: another gate over a finished run carries its own versions on, and says where the store cannot tell."""

from itertools import accumulate
from typing import get_args

import pytest
from workshop import Place

from skillopt_mcp.operations.runs.policies import replay_policy
from skillopt_mcp.operations.runs.replaying import replay, start_run
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.evidence import SearchGate

SAME = "The run would have gone the same way."


@pytest.fixture
def placebo(place: Place) -> Workspace:
    """Return a workspace whose optimizer proposes what changes nothing: all that a gate sees is chance."""
    workspace = place.open(target="simulated:placebo,seed=3")
    place.add_tasks(workspace, 45)
    return workspace


def _trained(workspace: Workspace, **settings: object) -> str:
    run = start_run(
        workspace, "ledger-clerk", Config.model_validate({"epochs": 3, "batch": 5, "max_pairs": 2} | settings)
    )
    replay(workspace, run)
    return run.id


@pytest.mark.parametrize("gate", get_args(SearchGate))
def test_a_run_under_its_own_gate_went_the_way_that_it_went(placebo: Workspace, gate: SearchGate) -> None:
    found = replay_policy(placebo, _trained(placebo, gate=gate, seed=2), gate)
    assert [row.other for row in found.rows] == [row.verdict for row in found.rows]
    assert (found.n_differing, found.unknown_from, found.next_step) == (0, None, SAME)


def test_another_gate_compares_with_what_it_accepted_itself(placebo: Workspace) -> None:
    found = replay_policy(placebo, _trained(placebo, use_gate=False, seed=1), "strict")
    scores = [row.candidate for row in found.rows]
    base = found.rows[0].current
    highest = list(accumulate([base, *scores], max))
    assert [row.current for row in found.rows] == highest[:-1]
    assert [row.other != "reject" for row in found.rows] == [
        score > before for score, before in zip(scores, highest, strict=False)
    ]
    first = next(row.step for row in found.rows if row.other == "reject")
    assert found.next_step == f"After step {first} the run itself would have gone another way, with other candidates."


@pytest.mark.parametrize("policy", ["fresh", "paired_se"])
def test_what_was_accepted_is_not_compared_by_the_rollouts_that_it_was_accepted_for(
    workspace: Workspace, policy: str
) -> None:
    run_id = _trained(workspace, batch=15, gate="strict")
    found = replay_policy(workspace, run_id, policy)
    accepted = next(n for n, row in enumerate(found.rows) if row.other != "reject")
    assert found.unknown_from == found.rows[accepted + 1].step
    assert {row.other for row in found.rows[accepted + 1 :]} == {"unknown"}
    assert "unknown" not in {row.other for row in found.rows[: accepted + 1]}
    assert f"From step {found.unknown_from} on it cannot be told from the store: {policy} asks for" in found.next_step
    assert SAME not in found.next_step


def test_a_task_that_fell_once_only_is_no_verdict_of_no_regression(placebo: Workspace) -> None:
    found = replay_policy(placebo, _trained(placebo, seed=4), "no_regression")
    assert found.unknown_from is not None
    row = next(row for row in found.rows if row.step == found.unknown_from)
    assert (row.verdict, row.other) == ("accept_best", "unknown")
