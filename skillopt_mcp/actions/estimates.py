"""Estimates: what a run may ask at most, and take in tokens, money and minutes by what such calls took before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.actions.forecasts import TestPrice, price_of_run
from skillopt_mcp.actions.promotions.consent import evidence_gaps, source_gaps
from skillopt_mcp.backends.base import concurrency_of
from skillopt_mcp.core.budgets import FREE_STAGE
from skillopt_mcp.core.calls import AGAINST, Call, Role
from skillopt_mcp.core.redacting import KnownSecrets
from skillopt_mcp.core.results import WorkEstimate
from skillopt_mcp.core.runs import Run
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.prompts.rendering import MAX_REASKS
from skillopt_mcp.store.calls import Usual
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.checking import families
from skillopt_mcp.tasks.judges.judging import n_votes
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.plan import epoch_batches, search_splits, steps
from skillopt_mcp.training.promotion_test import held_out
from skillopt_mcp.workspace.costs import default_tokens
from skillopt_mcp.workspace.evidence import evidence_of, is_host
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.runs import make_plan, tasks_of


class Forecast(BaseModel):
    """What the calls of an estimate take, when each takes what such calls took on average in earlier runs.

    None where no call of one of the models, which are then `unknown`, is stored, or a price is not known.
    `tokens_each` is the mean of all calls; `is_default`: an agent has made no call yet, so its tokens are our default,
    and price and time are unknown.
    """

    model_config = ConfigDict(frozen=True)
    tokens: int | None = None
    usd: float | None = None
    minutes: float | None = None
    tokens_each: int | None = None
    is_default: bool = False
    unknown: tuple[Role, ...] = ()


def forecast(store: Store, models: Models, calls: Mapping[Role, int]) -> Forecast:
    """What so many calls of each role take at most, with so many of them at once."""
    tokens, usd, seconds, unknown = 0.0, 0.0, 0.0, list[Role]()
    priced, is_default = True, False
    for role, n_calls in calls.items():
        if not n_calls:
            continue
        backend = models.backend(role)
        prints = backend.fingerprint.split(AGAINST)  # of two models each answers half of the calls
        names = backend.name.split(AGAINST) if prints[1:] else [backend.name]
        for name, fingerprint in zip(names, prints, strict=False):
            usual, n = store.ledger.usual(role, name, fingerprint), n_calls / len(prints)
            # A host does not report what it used.
            if not (usual and usual.tokens) and (default := default_tokens(name)):
                usual, is_default = Usual(default, None, 0.0), True
            if usual is None:
                unknown.append(role)
                break
            tokens += n * usual.tokens
            seconds += n * usual.latency_ms / 1000 / (models.concurrency or concurrency_of(backend))
            priced = priced and usual.usd is not None
            usd += n * (usual.usd or 0.0)
    if unknown:
        return Forecast(unknown=tuple(unknown))
    return Forecast(
        tokens=round(tokens), usd=usd if priced else None, minutes=None if is_default else seconds / 60,
        tokens_each=round(tokens / max(1, sum(calls.values()))), is_default=is_default,
    )  # fmt: skip


def most_again(calls: Mapping[Role, int]) -> int:
    """How many calls an estimate leaves out at most, which retry unusable replies."""
    return MAX_REASKS * (calls.get("optimizer", 0) + calls.get("judge", 0))


class Estimate(BaseModel):
    """The calls of a whole run, at most, but for re-asking what was lost on the way, or after unusable replies."""

    model_config = ConfigDict(frozen=True)
    n_steps: int
    n_train: int
    n_val: int
    train_rollouts: int
    val_rollouts: int
    optimizer_calls: int
    promotion_runs: int
    judge_calls: int = 0
    run_judge_calls: int = 0

    @property
    def calls(self) -> dict[Role, int]:
        """The calls of each role; of the target the rollouts of training, search gate and promotion test together."""
        n_rollouts = self.train_rollouts + self.val_rollouts + self.promotion_runs
        return {"target": n_rollouts, "optimizer": self.optimizer_calls, "judge": self.judge_calls}


def estimate_run(store: Store, models: Models, run: Run) -> Estimate:
    """What a whole run asks at most."""
    tasks = tasks_of(store, run)
    return _estimate(run, tasks, price_of_run(store, models, run, tasks), _whole(run, tasks))


def run_gaps(store: Store, models: Models, run: Run) -> list[str]:
    """Why no standing permission would cover an edit of a run, before it is made."""
    held = held_out(tasks_of(store, run))
    units = [family[0] for family in families(held)]
    found = evidence_gaps(units, evidence_of(models.backends_for(held))) if held else []
    return [*found, *source_gaps(store, run)]


def estimate_rest(store: Store, models: Models, secrets: KnownSecrets, run: Run) -> dict[Role, int]:
    """What an unfinished run may still ask of each role at most: its estimate, less what was answered.

    Where a backend has changed, the earlier answers serve finished steps alone: the other steps are asked in full.
    """
    tasks, retired = tasks_of(store, run), store.retirements.list_retired(run.skill_id)
    ending = price_of_run(store, models, run, [task for task in tasks if task.id not in retired])
    if len(run.answering) > 1 or models.list_changed(run):
        return _estimate(run, tasks, ending, _rest(store, secrets, run)).calls
    if finishes := store.runs.list_finishes(run.id):
        # The search is over: its promotion tests are left.
        begun = [test for id in finishes if (test := store.tests.find(id))]
        n_better = run.count_better(store.runs.list_steps(run.id))
        n_runs = max(0, n_better - len(begun)) * ending.n_runs // run.n_documents
        for test in begun:
            if store.decisions.latest_in(test.id) is None:
                n_runs += test.plan.most_runs - store.tests.count_attempts(test.id)
        return {"target": n_runs, "optimizer": 0, "judge": n_runs * ending.votes}
    whole = _estimate(run, tasks, ending, _whole(run, tasks))
    answered: Counter[str] = Counter()
    for row in store.ledger.list_rows(run.id):
        answered[row.role] += row.n_calls if row.stage != FREE_STAGE else 0
    in_test: dict[Role, int] = {
        "target": whole.promotion_runs, "optimizer": 0, "judge": whole.promotion_runs * whole.run_judge_calls,
    }  # fmt: skip
    return {role: max(n_calls - answered[role], in_test[role]) for role, n_calls in whole.calls.items()}


class _Training(NamedTuple):
    """What a training consists of: how many rollouts each step takes, and what else it does.

    `n_epochs` of them take every task once, in as many rollouts as it has repeats; `n_measured` versions are there.
    """

    sizes: list[int]
    n_slow: int
    n_meta: int
    n_measured: int = 1
    n_epochs: int = 0


def _whole(run: Run, tasks: Sequence[Task]) -> _Training:
    config, n_documents = Config.of_run(run.config), run.n_documents
    n_train = len(search_splits(tasks, config)[0])
    batched = epoch_batches(n_train, config, 1) if n_train else []
    sizes = config.epochs * [sum(map(len, each)) * config.repeats for each in batched for _ in range(n_documents)]
    n_later = config.epochs - 1
    return _Training(sizes, n_later * config.slow_update, n_later * config.meta_skill, 1, n_documents * config.epochs)


def _rest(store: Store, secrets: KnownSecrets, run: Run) -> _Training:
    """What is left of a run's training once its current and its best version are measured again."""
    plan = make_plan(store, secrets, run)
    left = list(steps(plan, after=len(store.runs.list_steps(run.id))))
    kinds = Counter(step.kind for step in left)
    sizes = [len(step.tasks) * plan.config.repeats for step in left if step.tasks]
    return _Training(sizes, kinds["slow"], kinds["meta"], n_measured=2)


def _estimate(run: Run, tasks: Sequence[Task], ending: TestPrice, training: _Training) -> Estimate:
    """What a training asks at most, and the tests that it ends with."""
    config, n_sessions = Config.of_run(run.config), len(run.sessions)
    train, val = search_splits(tasks, config)
    n_train, n_val = len(train), len(val)
    sizes, n_slow, n_meta, n_measured, n_epochs = training
    n_compared = 2 * n_slow * (n_train if config.slow_pairs == "changed" else min(config.slow_samples, n_train))
    n_planned = n_epochs * n_train * config.repeats
    n_evaluated = n_measured + _evaluations(len(sizes), n_slow, config)
    train_rollouts = sum(sizes) + n_compared
    most_votes = max(map(n_votes, train), default=0)
    return Estimate(
        n_steps=len(sizes),
        n_train=n_train,
        n_val=n_val,
        train_rollouts=train_rollouts,
        val_rollouts=n_evaluated * n_val,
        optimizer_calls=sum(_reasoning(size + n_sessions, config, n > 0) for n, size in enumerate(sizes))
        + n_slow
        + n_meta,
        promotion_runs=ending.n_runs,
        judge_calls=n_epochs * config.repeats * sum(map(n_votes, train))
        + (train_rollouts - n_planned) * most_votes
        + n_evaluated * sum(map(n_votes, val))
        + ending.n_runs * ending.votes,
        run_judge_calls=ending.votes,
    )


def estimate_proposal(store: Store, secrets: KnownSecrets, run: Run, left: Sequence[Call]) -> WorkEstimate:
    """What the agents of a host do for a proposal at most, when these calls are `left` of what it asks first.

    Attempts that a baseline or an earlier proposal made are not among them.
    """
    tasks = make_plan(store, secrets, run).train
    n_left = Counter(call.role for call in left)
    # Which judgements of earlier attempts are there shows once all of the attempts are.
    n_judged = sum(map(n_votes, tasks)) if n_left["target"] else n_left["judge"]
    n_asked = _reasoning(len(tasks) + len(run.sessions), Config.of_run(run.config), has_left_out=False)
    roles: tuple[tuple[Role, str, int], ...] = (
        ("target", run.target, n_left["target"]), ("judge", run.judge, n_judged), ("optimizer", run.optimizer, n_asked),
    )  # fmt: skip
    return WorkEstimate(
        attempts=(n_left["target"], n_left["target"]),
        judgements=(0, n_judged),
        questions=(0, n_asked),
        tokens_each=default_tokens("host"),
        by_host=[role for role, backend, n in roles if n and is_host(backend)],
    )


def _evaluations(n_steps: int, n_slow: int, config: Config) -> int:
    """How often a run rolls out a version on all val tasks at most, after its base: its gate asks for more."""
    gate = config.gate if config.use_gate else "strict"
    # Of a candidate: by itself; next to the current one; and twice more, where nearly all tasks fell.
    per_look = {"strict": 1, "fresh": 1, "paired_se": 2, "no_regression": 3}[gate]
    # What was accepted is rolled out again.
    n_evaluated = (n_steps + n_slow) * (per_look + (gate in ("fresh", "paired_se")))
    if config.rescue and config.use_gate:
        # Both arms of every part that bisection tries, and a second look, at the parts that it keeps.
        n_evaluated += n_steps * (2 * max(0, 2 * config.max_edits - 2) + per_look)
    return n_evaluated


def _reasoning(n_trajectories: int, config: Config, has_left_out: bool) -> int:
    """Return the optimizer's calls of one step: an analyst per minibatch, merges by level, budget, ranking, rewrite.

    What an earlier step left out is one more patch to merge.
    """
    contrasted = config.repeats > 1
    per_analyst = min(config.minibatch, 2 * max(1, config.minibatch // 2)) if contrasted else config.minibatch
    n_analysts = -(-n_trajectories // per_analyst) + 1 + contrasted
    # Patches from failures and from successes are merged apart, level by level, and then together.
    n_all = n_analysts + has_left_out
    n_merges, n_patches = 1, n_all
    while n_patches > 1:
        n_patches = -(-n_patches // config.fan_in)
        n_merges += n_patches + 1
    n_merges = min(n_merges, n_all - 1)
    autonomous, rewrite = config.schedule == "autonomous", config.update_mode == "rewrite_from_suggestions"
    return n_analysts + n_merges + 1 + autonomous + rewrite
