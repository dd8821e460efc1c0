"""Calibrating: what a promotion test of a skill can find on its tasks, and what it costs, known before it is run."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import replace

from pydantic import BaseModel, Field

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.calibration import WORST, Calibration, pairs_for, predicted_power, smallest_gain
from skillopt_mcp.gates.confirm import ConfirmRule, fewest_pairs
from skillopt_mcp.operations.judging import evidence_of
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.spending.pausing import pairs_of_new
from skillopt_mcp.operations.spending.using import Used, used_by
from skillopt_mcp.operations.testing.choosing import chosen_tasks
from skillopt_mcp.operations.testing.comparing import carried_out, new_contest, promotion_tasks
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.calibration import latest_calibration, run_calibration
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.confirmation import upcoming_alpha
from skillopt_mcp.optimizer.progress import Notify, silent
from skillopt_mcp.optimizer.sampling import held_out
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.skills import short

GAINS = (0.08, 0.16, 0.30)
DEFAULT_PAIRS = 40
_SMALL_POWER = 0.2
_LARGE_SHARE = 0.5


class GainRow(BaseModel):
    """What a gain takes: its chance of an accept at the first pause, and the pairs after which four of five have it."""

    gain: float
    power: float
    pairs: int | None


class Calibrated(Result):
    """What was measured of the live version against itself, and what a promotion test can find on these tasks."""

    skill: str
    version: str
    n_tasks: int
    n_pairs: int
    flip_rate: float = Field(description="Share of repeats of one task that come out differently")
    failure_rate: float
    missing_rate: float
    tokens_per_rollout: float
    usd_per_rollout: float | None
    alpha: float = Field(description="Error rate of the next promotion test")
    max_pairs: int
    smallest_gain: float | None = Field(description="Smallest gain that four of five tests accept within max_pairs")
    gains: list[GainRow]
    reason: str
    used: Used


def calibrate(
    workspace: Workspace,
    skill: str,
    n_pairs: int = DEFAULT_PAIRS,
    gain: float | None = None,
    rule: ConfirmRule | None = None,
    notify: Notify = silent,
) -> Calibrated:
    """Return what the live version of a skill shows against itself on its held-out tasks, and what follows from it.

    The rollouts are paid once: asked again, or with more pairs, it goes on where it stopped. Raises BadInput without a
    held-out task or when no rollout has a score, BackendError when no target is set.
    """
    if n_pairs < 1:
        raise BadInput(f"pairs '{n_pairs}' is not possible: use 1 or more")
    if gain is not None and not 0 < gain <= 1:
        raise BadInput(f"gain '{gain}' is no gain in mean score: use a number above 0, up to 1")
    tracked = workspace.recorded(skill)
    store = workspace.store
    files = store.skills.get_files(tracked.id, tracked.live_version)
    tasks = promotion_tasks(workspace, tracked.id)
    contest = new_contest(workspace, "calibrate", tracked.id, (files, files), tasks)

    def work(ask: Ask) -> Calibration:
        return run_calibration(contest, n_pairs, store, ask, notify)

    found = carried_out(workspace, contest, work)
    asked = rule or ConfirmRule()
    evidence = evidence_of(workspace.backends_for(tasks))
    asked = replace(asked, alpha=upcoming_alpha(store, tracked.id, evidence, asked.alpha))
    rows = [row for row in store.ledger.list_rows(contest.name) if row.role == "target"]
    n_calls = max(1, sum(row.n_calls for row in rows))
    prices = [row.usd for row in rows]
    gains = [_row(found, each, asked) for each in ((gain,) if gain else GAINS) if each <= found.failure_rate]
    return Calibrated(
        skill=tracked.name,
        version=short(tracked.live_version),
        n_tasks=len(tasks),
        n_pairs=found.n,
        flip_rate=round(found.flip_rate, 4),
        failure_rate=round(found.failure_rate, 4),
        missing_rate=round(found.missing_rate, 4),
        tokens_per_rollout=round(sum(row.tokens_in + row.tokens_out for row in rows) / n_calls, 1),
        usd_per_rollout=None if None in prices else sum(price for price in prices if price is not None) / n_calls,
        alpha=round(asked.alpha, 6),
        max_pairs=asked.max_pairs,
        smallest_gain=detectable(found, asked),
        gains=gains,
        reason=conclusion(found, asked, gain, gains),
        used=used_by(workspace.store, contest.name),
        next_step=_next_step(found, asked),
    )


def prospect(workspace: Workspace, skill_id: int, version: str, rule: ConfirmRule) -> str:
    """Return why a promotion test of `rule` is unlikely to accept anything, "" when it may; nothing is asked."""
    return outlook(latest_calibration(workspace.store, skill_id, version) or WORST, rule)


def run_prospect(workspace: Workspace, skill: str, config: Config, only: Collection[str] | None = None) -> str:
    """Return why the promotion test that ends a run of a skill is unlikely to accept anything, "" when it may.

    It draws from the tasks of the run: those within its limits and of these digests `only`, fresh ones by its claim.
    """
    tracked, store = workspace.recorded(skill), workspace.store
    tasks = chosen_tasks(workspace, tracked, config, only)
    evidence = evidence_of(workspace.backends_for(held_out(tasks)))
    rule = replace(config.promotion_rule, max_pairs=max(1, pairs_of_new(store, tasks, config.promotion_rule)))
    rule = replace(rule, alpha=upcoming_alpha(store, tracked.id, evidence, config.alpha))
    return prospect(workspace, tracked.id, tracked.live_version, rule)


def outlook(calibration: Calibration, rule: ConfirmRule) -> str:
    """Return why a promotion test cannot succeed, or hardly can, on such tasks; "" when it can."""
    fewest = fewest_pairs(rule)
    if fewest > rule.max_pairs:
        return (
            f"this test cannot accept anything: at an error rate of {rule.alpha:.2g} a candidate that wins every pair "
            f"takes {fewest} pairs, and {rule.max_pairs} are allowed"
        )
    if not calibration.n:
        return ""
    room = calibration.failure_rate
    if room <= 0 or _power(calibration, room, rule) < _SMALL_POWER:
        return (
            f"this test can hardly accept anything: the live version fails {room:.1%} of these tasks, so no candidate "
            f"can gain more, and {rule.max_pairs} pairs do not show that much"
        )
    least = detectable(calibration, rule)
    if least is None:
        return f"this test may well stay undecided: even a candidate that fixes all failures ({room:.2f}) is not sure"
    return ""


def conclusion(calibration: Calibration, rule: ConfirmRule, gain: float | None, rows: Sequence[GainRow]) -> str:
    """Return what follows from what was measured: for the gain that was asked about, and for a promotion test."""
    follows = outlook(calibration, rule) or _found(calibration, rule)
    return follows if gain is None else f"{_asked_about(calibration, gain, rows)}; {follows}"


@functools.lru_cache(maxsize=256)
def detectable(calibration: Calibration, rule: ConfirmRule) -> float | None:
    """Return the smallest gain that four of five tests accept, rounded up to hundredths, None when there is none."""
    least = smallest_gain(calibration, rule)
    return None if least is None else min(1.0, -(-round(least * 1000) // 10) / 100)


@functools.lru_cache(maxsize=256)
def _power(calibration: Calibration, gain: float, rule: ConfirmRule) -> float:
    return predicted_power(calibration, gain, rule, 300).power


def _row(calibration: Calibration, gain: float, rule: ConfirmRule) -> GainRow:
    power = predicted_power(calibration, gain, rule).power
    return GainRow(gain=gain, power=round(power, 3), pairs=pairs_for(calibration, gain, rule))


def _asked_about(calibration: Calibration, gain: float, rows: Sequence[GainRow]) -> str:
    if not rows:
        return (
            f"a gain of {gain:.2f} is not possible: the live version fails {calibration.failure_rate:.1%} of these "
            "tasks, and no candidate can gain more"
        )
    return f"a gain of {gain:.2f} is accepted by {rows[0].power:.0%} of the tests"


def _found(calibration: Calibration, rule: ConfirmRule) -> str:
    """Return which gains a promotion test finds, where it finds some."""
    room, least = calibration.failure_rate, detectable(calibration, rule) or 0.0
    share = min(1.0, least / room)
    only = "only large gains show" if share > _LARGE_SHARE else "gains show"
    return (
        f"{only}: four of five tests of up to {rule.max_pairs} pairs accept a candidate that fixes {share:.0%} of what "
        f"the live version fails here, which is {least:.2f} of {room:.2f}; of smaller gains more stay undecided"
    )


def _next_step(calibration: Calibration, rule: ConfirmRule) -> str:
    if outlook(calibration, rule):
        return "Add held-out tasks that the live version fails, or allow more pairs, before paying for a test."
    return "Propose edits that are worth at least the smallest gain, or gather several before one test."
