"""Estimating: what a person agrees to before a run is what the run then asks at most, whatever its settings."""

import random
from collections import Counter
from typing import NamedTuple, get_args

import pytest
from workshop import Place

from skillopt_mcp.operations.estimating import Estimate, estimate_run
from skillopt_mcp.operations.listing_runs import scopes_of
from skillopt_mcp.operations.replaying import replay, start_run
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.prompts.forms import UpdateMode
from skillopt_mcp.records.evidence import Metric, PairPolicy, SearchGate

WORLDS = ("honest", "placebo")
GATES = get_args(SearchGate)


class _Asked(NamedTuple):
    told: Estimate
    in_run: Counter[str]
    in_test: Counter[str]


def _asked(workspace: Workspace, config: Config) -> _Asked:
    """Return what was told of a run, and the calls by role that it and its promotion test then made."""
    told = estimate_run(workspace, "ledger-clerk", config)
    run = start_run(workspace, "ledger-clerk", config)
    replay(workspace, run)
    return _Asked(told, _made(workspace, run.id), _made(workspace, *scopes_of(workspace, run)[1:]))


def _made(workspace: Workspace, *scopes: str) -> Counter[str]:
    made: Counter[str] = Counter()
    for scope in scopes:
        for row in workspace.store.ledger.list_rows(scope):
            made[row.role] += row.n_calls
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
        max_pairs=draw.randint(1, 10),
        limit_val=draw.randint(2, 6),
    )


@pytest.mark.parametrize("gate", GATES)
def test_no_gate_asks_more_than_was_told_of_it(workspace: Workspace, gate: SearchGate) -> None:
    config = Config(epochs=2, batch=6, gate=gate, max_pairs=4)
    told, in_run, in_test = _asked(workspace, config)
    assert in_run["target"] <= told.train_rollouts + told.val_rollouts
    assert in_run["optimizer"] <= told.optimizer_calls
    assert in_test["target"] <= 2 * told.promotion_pairs
    assert (told.val_rollouts > 12 * 30) == (gate != "strict")


@pytest.mark.parametrize("seed", range(20))
def test_no_settings_ask_more_than_was_told_of_them(place: Place, seed: int) -> None:
    target = f"simulated:{WORLDS[seed // len(GATES) % len(WORLDS)]},seed=3"
    workspace = place.open(target=target)
    place.add_tasks(workspace, 24)
    config = _drawn(seed)
    told, in_run, in_test = _asked(workspace, config)
    assert in_run["target"] <= told.train_rollouts + told.val_rollouts, config
    assert in_run["optimizer"] <= told.optimizer_calls, config
    assert in_test["target"] <= 2 * told.promotion_pairs, config
