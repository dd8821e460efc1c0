"""Estimating: what a person agrees to before a run is what the run then asks at most, whatever its settings."""

import os
import random
from collections import Counter
from typing import NamedTuple, cast, get_args

import pytest
from workshop import Place

from skillopt_mcp.actions.estimates import Estimate, estimate_run
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import new_run, start_run
from skillopt_mcp.core.calls import Role
from skillopt_mcp.core.evidence import Metric, PairPolicy, SearchGate
from skillopt_mcp.prompts.rendering import UpdateMode
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.workspace import Workspace

WORLDS = ("honest", "placebo")
GATES = get_args(SearchGate)


class _Asked(NamedTuple):
    estimate: Estimate
    in_run: Counter[Role]
    in_test: Counter[Role]


def _asked(workspace: Workspace, config: Config) -> _Asked:
    """Return the estimate of a run, and the calls by role that it and its promotion test then made."""
    estimate = estimate_run(
        workspace.store,
        workspace.models,
        new_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", config),
    )
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", config)
    replay(workspace.store, workspace.models, workspace.place, run)
    return _Asked(estimate, _made(workspace, run.id), _made(workspace, *workspace.store.runs.list_finishes(run.id)))


def _made(workspace: Workspace, *scopes: str) -> Counter[Role]:
    made: Counter[Role] = Counter()
    for scope in scopes:
        for row in workspace.store.ledger.list_rows(scope):
            made[cast(Role, row.role)] += row.n_calls
    return made


def _drawn(seed: int) -> Config:
    """Return settings by chance; each gate has its turn."""
    draw = random.Random(f"settings {seed}")
    most = draw.randint(1, 6)
    return Config(
        epochs=draw.randint(1, 3),
        batch=draw.randint(2, 6),
        minibatch=draw.randint(1, 3),
        fan_in=draw.randint(2, 4),
        schedule=draw.choice(("constant", "linear", "cosine", "autonomous")),
        max_edits=most,
        min_edits=draw.randint(0, most),
        update_mode=draw.choice(("patch", "patch", *get_args(UpdateMode))),
        accumulation=draw.randint(1, 2),
        repeats=draw.randint(1, 3),
        failure_only=draw.random() < 0.3,
        slow_update=draw.random() < 0.7,
        slow_samples=draw.randint(1, 8),
        slow_pairs=draw.choice(get_args(PairPolicy)),
        meta_skill=draw.random() < 0.7,
        skill_aware=draw.random() < 0.3,
        use_gate=draw.random() < 0.9,
        gate=GATES[seed % len(GATES)],
        metric=draw.choice(get_args(Metric)),
        rescue=draw.random() < 0.5,
        sessions=draw.randint(0, 2),
        limit_val=draw.randint(2, 6),
    )


@pytest.mark.parametrize("gate", GATES)
def test_no_gate_asks_more_than_was_estimated(workspace: Workspace, gate: SearchGate) -> None:
    config = Config(epochs=2, batch=6, gate=gate)
    estimate, in_run, in_test = _asked(workspace, config)
    assert in_run["target"] <= estimate.train_rollouts + estimate.val_rollouts
    assert in_run["optimizer"] <= estimate.optimizer_calls
    assert in_test["target"] <= estimate.promotion_runs
    assert (estimate.val_rollouts > 12 * 30) == (gate != "strict")


@pytest.mark.parametrize("seed", range(40 if os.environ.get("THOROUGH") else 8))
def test_no_settings_ask_more_than_was_estimated(place: Place, seed: int) -> None:
    target = f"simulated:{WORLDS[seed // len(GATES) % len(WORLDS)]},seed=3"
    workspace = place.open(target=target)
    place.add_tasks(workspace, 24)
    config = _drawn(seed)
    estimate, in_run, in_test = _asked(workspace, config)
    assert in_run["target"] <= estimate.train_rollouts + estimate.val_rollouts, config
    assert in_run["optimizer"] <= estimate.optimizer_calls, config
    assert in_test["target"] <= estimate.promotion_runs, config
