"""Confirmation: the promotion test, live version against candidate on held-out tasks, pair by pair until it decides."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.confirm import ConfirmRule, confirm
from skillopt_mcp.gates.recompute import ConfirmInputs, confirmed
from skillopt_mcp.gates.spending import next_alpha, refund
from skillopt_mcp.judges.scorers import scored_by
from skillopt_mcp.optimizer.arms import insistent_rollout, score
from skillopt_mcp.optimizer.progress import Notify, Progress, silent
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.candidates import Decision
from skillopt_mcp.records.evidence import Confirmation, Pair, Trial
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.stages.rollout import Attempt
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.opening import Store

PAIRS_AHEAD = 8
FEW_TASKS = 30
GATE = "confirm"


@dataclass(frozen=True, slots=True)
class Test:
    """One promotion test: both arms, the held-out tasks, and the row that names it."""

    row: ConfirmationRow
    base: SkillFiles
    candidate: SkillFiles
    tasks: tuple[Task, ...]
    rule: ConfirmRule


def held_out(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the tasks of a promotion test: the test split, and val beside it while both together are below 30."""
    test = tuple(task for task in tasks if task.split == "test")
    val = tuple(task for task in tasks if task.split == "val")
    return test if test and len(test) + len(val) >= FEW_TASKS else val + test


def open_test(
    store: Store, arms: tuple[SkillFiles, SkillFiles], tasks: Sequence[Task], backend: str, rule: ConfirmRule
) -> Test:
    """Return the promotion test of a (base, candidate) pair of files, opened as the skill's next when it is new.

    The j-th test of a skill has an error rate of its own, so that all of its life together they keep `rule.alpha`; what
    earlier rejections left unspent is in it. A test that has come to a verdict, or a pause, keeps the rule of that.
    Raises BadInput when there is no held-out task.
    """
    base, candidate = arms
    held = held_out(tasks)
    if not held:
        raise BadInput("the skill has no held-out task (val or test): add tasks with add_tasks or 'tasks import'")
    skill_id = held[0].skill_id
    name = hashlib.sha256(f"{skill_id}:{base.digest}:{candidate.digest}:{backend}".encode()).hexdigest()
    new = ConfirmationRow(
        f"t-{name[:12]}", skill_id, base.digest, candidate.digest, 0, 0.0, backend, tuple(task.id for task in held)
    )
    refunded = _refunded(store, skill_id)
    row = store.decisions.open_confirmation(new, lambda j, staked: next_alpha(j, rule.alpha, staked, refunded))
    by_id = {task.id: task for task in store.tasks.list_tasks(skill_id)}
    frozen = tuple(by_id[task_id] for task_id in row.tasks)
    last = store.decisions.latest_in(skill_id, row.id)
    asked = ConfirmInputs.model_validate_json(last.inputs).rule if last else rule
    return Test(row, base, candidate, frozen, replace(asked, alpha=row.alpha, max_pairs=rule.max_pairs))


def run_test(test: Test, store: Store, ask: Ask, notify: Notify = silent) -> Confirmation:
    """Return the verdict, drawing pairs until it is reached or the test pauses; the store keeps every pair.

    It pauses `max_pairs` after the last pause: a call after `undecided` draws as many more, one after a crash the rest.
    Pairs are asked a few ahead; those beyond the deciding one are not counted.
    """
    pairs = store.decisions.list_pairs(test.row.id)
    verdict = _verdict(test, pairs)
    limit = _paused_at(test, store) + test.rule.max_pairs
    while verdict.verdict == "undecided" and len(pairs) < limit:
        notify(Progress(GATE, 0, len(pairs), limit, verdict.base_mean, verdict.candidate_mean))
        first = len(pairs)
        drawn, trials = _draw(test, ask, range(first, min(first + PAIRS_AHEAD, limit)))
        store.decisions.add_pairs(test.row.id, first, drawn, trials)
        pairs += [pair for _, pair in drawn]
        verdict = _verdict(test, pairs)
    store.decisions.add_decision(_decision(test, verdict))
    notify(Progress(GATE, 0, verdict.n_pairs, limit, verdict.base_mean, verdict.candidate_mean, verdict.verdict))
    return verdict


def standing(test: Test, store: Store) -> Confirmation:
    """Return the verdict on the pairs stored so far, with nothing asked."""
    return _verdict(test, store.decisions.list_pairs(test.row.id))


def upcoming_alpha(store: Store, skill_id: int, alpha: float) -> float:
    """Return the error rate that a skill's next promotion test would have, nothing being opened."""
    staked = [row.alpha for row in store.decisions.list_tests(skill_id)]
    return next_alpha(len(staked) + 1, alpha, math.fsum(staked), _refunded(store, skill_id))


def _refunded(store: Store, skill_id: int) -> float:
    """Return what the rejected tests of a skill left of their error rates; a rejection is final."""
    left = 0.0
    for row in store.decisions.list_tests(skill_id):
        last = store.decisions.latest_in(skill_id, row.id)
        if last and last.verdict == "reject":
            inputs = ConfirmInputs.model_validate_json(last.inputs)
            left += refund(row.alpha, confirmed(store.decisions.list_pairs(row.id), inputs).wealth)
    return left


def _paused_at(test: Test, store: Store) -> int:
    """Return after how many pairs the test last paused; 0 when it never did."""
    last = store.decisions.latest_in(test.row.skill_id, test.row.id)
    return ConfirmInputs.model_validate_json(last.inputs).n_pairs if last else 0


def _verdict(test: Test, pairs: Sequence[Pair]) -> Confirmation:
    verdict = confirm(pairs, replace(test.rule, max_pairs=max(1, len(pairs))))
    return replace(verdict, reason=f"{verdict.reason}{scored_by(test.tasks)}")


def _draw(test: Test, ask: Ask, numbers: range) -> tuple[list[tuple[int, Pair]], list[Trial]]:
    """Return the pairs of these numbers as (task id, pair), and their trials.

    Every pair draws its task uniformly from all, and the order of its arms, from the test's name and the pair's number:
    the same pair is drawn again after a crash, and no result can move a later draw.
    """
    attempts: list[Attempt] = []
    swapped: list[bool] = []
    for n in numbers:
        chance = random.Random(f"{test.row.id}/{n}")
        task = test.tasks[chance.randrange(len(test.tasks))]
        swapped.append(chance.random() < 0.5)
        arms = (test.candidate, test.base) if swapped[-1] else (test.base, test.candidate)
        attempts += [Attempt(files, task, f"{test.row.id}/{n}") for files in arms]
    trials = insistent_rollout(ask, attempts)
    pairs = []
    for k, swap in enumerate(swapped):
        first, second = trials[2 * k], trials[2 * k + 1]
        base, candidate = (second, first) if swap else (first, second)
        pairs.append((base.task.id, Pair(score(base), score(candidate))))
    return pairs, trials


def _decision(test: Test, verdict: Confirmation) -> Decision:
    rule = test.rule
    inputs = ConfirmInputs(
        confirmation=test.row.id,
        n_pairs=verdict.n_pairs,
        alpha=rule.alpha,
        beta=rule.beta,
        min_effect=rule.min_effect,
        margin=rule.margin,
        bets=rule.bets,
    )
    return Decision(
        skill_id=test.row.skill_id,
        gate=GATE,
        base_version=test.row.base_version,
        version_id=test.row.version_id,
        scope=test.row.id,
        verdict=verdict.verdict,
        reason=verdict.reason,
        inputs=inputs.model_dump_json(),
    )
