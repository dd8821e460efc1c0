"""Estimates: what a run may ask at most, and take in tokens, money and minutes by what such calls took before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.answering import answering, changed_since, run_backends, tasks_of
from skillopt_mcp.backends.base import Backend, concurrency_of
from skillopt_mcp.backends.batches import batching
from skillopt_mcp.costs import default_tokens
from skillopt_mcp.dispatch import pairs_of_new, pairs_of_open
from skillopt_mcp.evidence import n_votes, origins
from skillopt_mcp.promotion_tests import chosen_tasks, promotion_tasks, target_tasks, tasks_to_test
from skillopt_mcp.prompts.rendering import MAX_REASKS
from skillopt_mcp.records.budgets import FREE_STAGE
from skillopt_mcp.records.calls import Role
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.records.tasks import SPLITS, Task
from skillopt_mcp.runs import planned
from skillopt_mcp.skill_folders import known
from skillopt_mcp.skills import check_merged
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.ledger import Usual
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.confirmation import held_out
from skillopt_mcp.training.plan import epoch_batches, steps
from skillopt_mcp.workspace import Workspace


class Forecast(BaseModel):
    """What the calls of an estimate take, when each takes what such calls took on average in earlier runs.

    None where no call of one of the models, which are then `unknown`, is stored, or a price is not known. With
    `by_batch` the time is unknown. `tokens_each` is the mean of all calls; `is_default`: an agent has made no
    call yet, so its tokens are our default, and price and time are unknown.
    """

    model_config = ConfigDict(frozen=True)
    tokens: int | None = None
    usd: float | None = None
    minutes: float | None = None
    by_batch: bool = False
    tokens_each: int | None = None
    is_default: bool = False
    unknown: tuple[Role, ...] = ()


def forecast(workspace: Workspace, calls: Mapping[Role, int], concurrency: int | None = None) -> Forecast:
    """Return what so many calls of each role take at most, with so many of them at once."""
    tokens, usd, seconds, unknown = 0.0, 0.0, 0.0, list[Role]()
    priced, by_batch, is_default = True, False, False
    for role, n_calls in calls.items():
        if not n_calls:
            continue
        backend = workspace.backend(role)
        usual = _usual(workspace, role, backend)
        # A host does not report what it used.
        if not (usual and usual.tokens) and (default := default_tokens(backend.name)):
            usual, is_default = Usual(default, None, 0.0), True
        if usual is None:
            unknown.append(role)
            continue
        by_batch = by_batch or batching(backend) is not None
        tokens += n_calls * usual.tokens
        seconds += n_calls * usual.latency_ms / 1000 / (concurrency or concurrency_of(backend))
        priced = priced and usual.usd is not None
        usd += n_calls * (usual.usd or 0.0)
    if unknown:
        return Forecast(unknown=tuple(unknown))
    return Forecast(
        tokens=round(tokens), usd=usd if priced else None, minutes=None if by_batch or is_default else seconds / 60,
        by_batch=by_batch, tokens_each=round(tokens / max(1, sum(calls.values()))), is_default=is_default,
    )  # fmt: skip


def most_again(calls: Mapping[Role, int]) -> int:
    """Return how many calls an estimate leaves out at most, which retry unusable replies."""
    return MAX_REASKS * (calls.get("optimizer", 0) + calls.get("judge", 0))


def _usual(workspace: Workspace, role: Role, backend: Backend) -> Usual | None:
    """Return what a call takes on average; by batch, when none has been asked so yet, what others took for less."""
    ledger, vendor = workspace.store.ledger, batching(backend)
    usual = ledger.usual(role, backend.name, backend.fingerprint, by_batch=vendor is not None)
    if usual is not None or vendor is None:
        return usual
    usual = ledger.usual(role, backend.name, backend.fingerprint)
    if usual is None or usual.usd is None:
        return usual
    return usual._replace(usd=usual.usd * vendor.discount)


class Estimate(BaseModel):
    """The calls of a whole run, at most, but for re-asking what was lost on the way, or after unusable replies."""

    model_config = ConfigDict(frozen=True)
    n_steps: int
    n_train: int
    n_val: int
    train_rollouts: int
    val_rollouts: int
    optimizer_calls: int
    promotion_pairs: int
    judge_calls: int = 0
    pair_judge_calls: int = 0

    @property
    def target_calls(self) -> int:
        """Return the rollouts of training, search gate and promotion test together."""
        return self.train_rollouts + self.val_rollouts + 2 * self.promotion_pairs

    @property
    def calls(self) -> dict[Role, int]:
        """Return the calls of each role."""
        return {"target": self.target_calls, "optimizer": self.optimizer_calls, "judge": self.judge_calls}


def estimate_run(workspace: Workspace, skill: str, config: Config, only: Collection[str] | None = None) -> Estimate:
    """Return what a run of a skill, on the tasks of these digests `only`, would ask at most.

    Raises NotFound, BadSkill, Refused where git left a conflict in the skill.
    """
    tracked = workspace.recorded(skill)
    check_merged(workspace.store.skills.get_files(tracked.id, tracked.live_version))
    n_sessions = len(workspace.store.trajectories.recent_trajectories(tracked.id, config.sessions))
    tasks = chosen_tasks(workspace, tracked, config, only)
    ending = _ending(workspace, tracked.live_version, tracked.id, tasks, config)
    return _estimate(tasks, n_sessions, config, ending)


def estimate_rest(workspace: Workspace, run: Run) -> dict[Role, int]:
    """Return what an unfinished run may still ask of each role at most: its estimate, less what was answered.

    Where a backend has changed, the earlier answers serve finished steps alone: the other steps are asked in full.
    """
    store, tasks, config = workspace.store, tasks_of(workspace, run), Config.of_run(run.config)
    ending = _ending(workspace, run.base_version, run.skill_id, _in_use(workspace, run), config)
    begun = store.runs.list_finishes(run.id)
    if len(run.answering) > 1 or changed_since(workspace, run, answering(run_backends(workspace, run))):
        return _estimate(tasks, len(run.sessions), config, ending, _rest(workspace, run)).calls
    if begun:
        return estimate_end(workspace, run)
    whole = _estimate(tasks, len(run.sessions), config, ending)
    n_pairs = whole.promotion_pairs
    answered: Counter[str] = Counter()
    for row in store.ledger.list_rows(run.id):
        answered[row.role] += row.n_calls if row.stage != FREE_STAGE else 0
    in_test: dict[Role, int] = {"target": 2 * n_pairs, "optimizer": 0, "judge": n_pairs * whole.pair_judge_calls}
    return {role: max(n_calls - answered[role], in_test[role]) for role, n_calls in whole.calls.items()}


def estimate_end(workspace: Workspace, run: Run) -> dict[Role, int]:
    """Return what a run whose search is over may still ask of each role at most: its promotion test."""
    store, config, tasks = workspace.store, Config.of_run(run.config), _in_use(workspace, run)
    ending = _ending(workspace, run.base_version, run.skill_id, tasks, config)
    begun, steps = dict(store.runs.list_finishes(run.id)), store.runs.list_steps(run.id)
    n_pairs = ending.n_pairs if steps and steps[-1].best_version != run.base_version else 0
    if begun:
        rows = {row.id: row for row in store.decisions.list_tests(run.skill_id)}
        n_pairs = sum(
            pairs_of_open(store, [rows[test]], tasks, config.max_pairs, since) for test, since in begun.items()
        )
    return {"target": 2 * n_pairs, "optimizer": 0, "judge": n_pairs * ending.votes}


def _in_use(workspace: Workspace, run: Run) -> list[Task]:
    retired = workspace.store.retirements.list_retired(run.skill_id)
    return [task for task in tasks_of(workspace, run) if task.id not in retired]


class _Training(NamedTuple):
    """What a training consists of: how many rollouts each step takes, and what else it does.

    `n_epochs` of them take every task once, in as many rollouts as it has repeats; `n_measured` versions are there.
    """

    sizes: list[int]
    n_slow: int
    n_meta: int
    n_measured: int = 1
    n_epochs: int = 0


def _whole(n_train: int, config: Config) -> _Training:
    batched = epoch_batches(n_train, config, 1) if n_train else []
    sizes = config.epochs * [sum(map(len, batches)) * config.repeats for batches in batched]
    n_later = config.epochs - 1
    return _Training(sizes, n_later * config.slow_update, n_later * config.meta_skill, n_epochs=config.epochs)


def _rest(workspace: Workspace, run: Run) -> _Training:
    """Return what is left of a run's training once its current and its best version are measured again."""
    plan = planned(workspace, run)
    left = list(steps(plan, after=len(workspace.store.runs.list_steps(run.id))))
    kinds = Counter(step.kind for step in left)
    sizes = [len(step.tasks) * plan.config.repeats for step in left if step.kind == "step"]
    return _Training(sizes, kinds["slow"], kinds["meta"], n_measured=2)


class _Ending(NamedTuple):
    """The promotion test that a run may end with: its pairs at most, and the judge's calls of each."""

    n_pairs: int
    votes: int


def _ending(workspace: Workspace, base: str, skill_id: int, tasks: Sequence[Task], config: Config) -> _Ending:
    """Return the test of a run on these tasks: its best version is a new candidate, or one whose test is open."""
    store, rule, target = workspace.store, config.promotion_rule, workspace.backend("target").fingerprint
    rows = [
        row for row in store.decisions.list_tests(skill_id)
        if row.base_version == base and origins(row.backend)[0].startswith(target)
        # For another claim than `these` only a test goes on that was begun for it.
        and rule.claim in ("these", row.claim)
    ]  # fmt: skip
    n_pairs = max(pairs_of_new(store, tasks, rule), pairs_of_open(store, rows, tasks, rule.max_pairs))
    return _Ending(n_pairs, _pair_votes(workspace, skill_id, held_out(tasks), rows))


def _pair_votes(workspace: Workspace, skill_id: int, held: Sequence[Task], rows: Sequence[ConfirmationRow]) -> int:
    """Return how often a judge model is asked about one pair on these tasks, or on those of an open test, at most."""
    drawn = {task_id for row in rows for task_id in row.tasks}
    others = [task for task in workspace.store.tasks.list_tasks(skill_id) if task.id in drawn] if drawn else []
    return 2 * max(map(n_votes, (*held, *others)), default=0)


def _estimate(
    tasks: list[Task], n_sessions: int, config: Config, ending: _Ending, training: _Training | None = None
) -> Estimate:
    """Return what a training asks at most, the whole one if none is given, and the test that it ends with."""
    counts = Counter(task.split for task in tasks)
    votes = Counter({split: sum(n_votes(task) for task in tasks if task.split == split) for split in SPLITS})
    n_train, n_val = counts["train"], counts["val"]
    sizes, n_slow, n_meta, n_measured, n_epochs = training or _whole(n_train, config)
    n_compared = 2 * n_slow * (n_train if config.slow_pairs == "changed" else min(config.slow_samples, n_train))
    n_planned = n_epochs * n_train * config.repeats
    n_evaluated = n_measured + _evaluations(len(sizes), n_slow, config)
    train_rollouts = sum(sizes) + n_compared
    most_votes = max((n_votes(task) for task in tasks if task.split == "train"), default=0)
    return Estimate(
        n_steps=len(sizes),
        n_train=n_train,
        n_val=n_val,
        train_rollouts=train_rollouts,
        val_rollouts=n_evaluated * n_val,
        optimizer_calls=sum(_reasoning(size + n_sessions, config, n > 0) for n, size in enumerate(sizes))
        + n_slow
        + n_meta,
        promotion_pairs=ending.n_pairs,
        judge_calls=n_epochs * config.repeats * votes["train"]
        + (train_rollouts - n_planned) * most_votes
        + n_evaluated * votes["val"]
        + ending.n_pairs * ending.votes,
        pair_judge_calls=ending.votes,
    )


def estimate_proposal(run: Run, tasks: Sequence[Task]) -> dict[Role, int]:
    """Return the calls that a proposal which attempts these tasks first asks of each role at most."""
    n_seen = len(tasks) + len(run.sessions)
    return {
        "target": len(tasks),
        "judge": sum(map(n_votes, tasks)),
        "optimizer": _reasoning(n_seen, Config.of_run(run.config), has_left_out=False),
    }


def estimate_test(workspace: Workspace, candidate_id: str, n_pairs: int) -> dict[Role, int]:
    """Return the calls that so many pairs of a candidate's promotion test ask of each role. Raises NotFound."""
    store, candidate = workspace.store, workspace.store.candidates.get_candidate(known(candidate_id))
    tasks = target_tasks(workspace, candidate.skill_id, retired=True)
    _, held = tasks_to_test(workspace, candidate, tasks)
    rows = store.decisions.list_confirmations(candidate.skill_id, candidate.base_version, candidate.version_id)
    return {"target": 2 * n_pairs, "judge": n_pairs * _pair_votes(workspace, candidate.skill_id, held, rows)}


def estimate_calibration(workspace: Workspace, skill: Skill, n_pairs: int) -> dict[Role, int]:
    """Return the calls that so many pairs of a skill against itself ask of each role at most. Raises BadInput."""
    return _drawn(promotion_tasks(workspace, skill.id), 2 * n_pairs)


def _drawn(tasks: Sequence[Task], n_rollouts: int) -> dict[Role, int]:
    """Return the calls of so many rollouts of tasks by chance: each may be of the one that is judged most often."""
    return {"target": n_rollouts, "judge": n_rollouts * max(map(n_votes, tasks), default=0)}


def _evaluations(n_steps: int, n_slow: int, config: Config) -> int:
    """Return how often a run rolls out a version on all val tasks at most, after its base: its gate asks for more."""
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
