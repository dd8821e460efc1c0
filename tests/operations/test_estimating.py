"""Estimating: what a person agrees to before a run is what the run then asks at most, whatever its settings."""

import random
from collections import Counter
from dataclasses import replace
from typing import NamedTuple, cast, get_args

import pytest
from workshop import SEED, Place, use

from skillopt_mcp import runs as listing_runs
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.world import make_tasks
from skillopt_mcp.errors import Refused
from skillopt_mcp.estimates import Estimate, estimate_calibration, estimate_run
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.judges.kinds.combined import All
from skillopt_mcp.judges.kinds.rubric import Rubric
from skillopt_mcp.promotion_tests import calibrate, chosen_tasks, evaluate_candidate, most_pairs
from skillopt_mcp.prompts.rendering import UpdateMode
from skillopt_mcp.records.calls import Role
from skillopt_mcp.records.evidence import Claim, Metric, PairPolicy, SearchGate
from skillopt_mcp.records.tasks import NewTask
from skillopt_mcp.runs import replay, start_run
from skillopt_mcp.splits import DEFAULT_SHARES
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace import Workspace

WORLDS = ("honest", "placebo")
GATES = get_args(SearchGate)
CLAIMS: tuple[Claim, ...] = get_args(Claim)


class _Asked(NamedTuple):
    estimate: Estimate
    in_run: Counter[Role]
    in_test: Counter[Role]


def _asked(workspace: Workspace, config: Config) -> _Asked:
    """Return the estimate of a run, and the calls by role that it and its promotion test then made."""
    estimate = estimate_run(workspace, "ledger-clerk", config)
    run = start_run(workspace, "ledger-clerk", config)
    replay(workspace, run)
    return _Asked(estimate, _made(workspace, run.id), _made(workspace, *listing_runs.tests_of(workspace, run)))


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
        max_pairs=draw.randint(1, 10),
        limit_val=draw.randint(2, 6),
    )


@pytest.mark.parametrize("gate", GATES)
def test_no_gate_asks_more_than_was_estimated(workspace: Workspace, gate: SearchGate) -> None:
    config = Config(epochs=2, batch=6, gate=gate)
    estimate, in_run, in_test = _asked(workspace, config)
    assert in_run["target"] <= estimate.train_rollouts + estimate.val_rollouts
    assert in_run["optimizer"] <= estimate.optimizer_calls
    assert in_test["target"] <= 2 * estimate.promotion_pairs
    assert (estimate.val_rollouts > 8 * 15) == (gate != "strict")


@pytest.mark.parametrize("seed", range(20))
def test_no_settings_ask_more_than_was_estimated(place: Place, seed: int) -> None:
    target = f"simulated:{WORLDS[seed // len(GATES) % len(WORLDS)]},seed=3"
    workspace = place.open(target=target)
    place.add_tasks(workspace, 24)
    config = _drawn(seed)
    estimate, in_run, in_test = _asked(workspace, config)
    assert in_run["target"] <= estimate.train_rollouts + estimate.val_rollouts, config
    assert in_run["optimizer"] <= estimate.optimizer_calls, config
    assert in_test["target"] <= 2 * estimate.promotion_pairs, config


def _with_rubrics(place: Place, draw: random.Random) -> Workspace:
    """Return a workspace with tasks of which some by chance are judged by one to three votes as well."""
    workspace = place.open()
    tasks = [_judged(task, draw.choice((0, 0, 1, 3))) for task in make_tasks(24, SEED)]
    workspace.store.tasks.add_tasks(workspace.skill("ledger-clerk").id, tasks, DEFAULT_SHARES)
    use(workspace, Scripted(lambda call: '{"grade": "all"}'), "judge")
    return workspace


def _judged(task: NewTask, votes: int) -> NewTask:
    rubric = Rubric(rubric="The answer is an amount.", votes=max(1, votes))
    return replace(task, judge=All(judges=[task.judge, rubric])) if votes else task


@pytest.mark.parametrize("seed", range(6))
def test_no_calibration_asks_more_than_was_estimated(place: Place, seed: int) -> None:
    draw = random.Random(f"comparison {seed}")
    workspace = _with_rubrics(place, draw)
    skill = workspace.skill("ledger-clerk")
    use(workspace, open_backend(f"simulated:{draw.choice(WORLDS)},seed={SEED},noise=0.2"))
    pairs = draw.randint(1, 12)
    most = estimate_calibration(workspace, skill, pairs)
    # A test of one pair shows nothing: what others would show is not worked out.
    used = calibrate(workspace, "ledger-clerk", pairs, 1.0, ConfirmRule()).used
    made = _made(workspace, used.contest)
    assert made["target"] > 0
    assert all(n_calls <= most.get(role, 0) for role, n_calls in made.items()), (most, made)


@pytest.mark.parametrize("seed", range(8))
def test_no_turn_of_a_promotion_test_draws_more_pairs_than_was_estimated(place: Place, seed: int) -> None:
    draw = random.Random(f"turns {seed}")
    workspace = place.open()
    place.add_tasks(workspace, 90)
    claims = {place.propose(workspace, f"- Note {n}."): draw.choice(CLAIMS) for n in (1, 2, 3)}
    n_pairs: Counter[str] = Counter()
    for _ in range(8):
        candidate = draw.choice(list(claims))
        rule = ConfirmRule(max_pairs=draw.randint(1, 20), claim=claims[candidate])
        estimate = most_pairs(workspace, candidate, rule)
        try:
            found = evaluate_candidate(workspace, candidate, rule=rule)
        except Refused:
            assert rule.claim == "like_these"
            continue
        drawn = found.pairs_done - n_pairs[candidate]
        n_pairs[candidate] = found.pairs_done
        assert drawn <= estimate
        assert found.verdict != "undecided" or drawn == estimate


@pytest.mark.parametrize("seed", range(8))
def test_a_run_estimates_no_pair_of_a_task_that_other_tests_have_drawn(place: Place, seed: int) -> None:
    draw = random.Random(f"fresh {seed}")
    workspace = place.open(target=f"simulated:{WORLDS[seed % 2]},seed={SEED}")
    place.add_tasks(workspace, draw.randint(75, 105))
    skill = workspace.skill("ledger-clerk")
    before = ConfirmRule(max_pairs=draw.randint(1, 10), claim=draw.choice(CLAIMS))
    evaluate_candidate(workspace, place.propose(workspace, "- Note."), rule=before)
    config = Config(epochs=1, batch=8, claim="like_these", limit_test=draw.choice((0, 30)))
    test_tasks = [task.id for task in chosen_tasks(workspace, skill, config) if task.split == "test"]
    worn = workspace.store.tasks.list_looks(skill.id).keys() & set(test_tasks)

    estimate, _, in_test = _asked(workspace, config)

    assert worn
    assert estimate.promotion_pairs < workspace.store.tasks.count_tasks(skill.id)["test"]
    assert in_test["target"] <= 2 * estimate.promotion_pairs
