"""Testing: what a program asks about candidates and skills: whether one is better, which one, what of it, and how sure.

Each function takes the environment and the backends as `train` does, and goes on where it stopped when it is called
again with the same arguments.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.environments.base import Environment
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.gates.confirm import no_worse as no_worse_rule
from skillopt_mcp.gates.credit import CreditRule
from skillopt_mcp.gates.racing import RaceRule
from skillopt_mcp.operations.programs.hearing import Callback, by_all
from skillopt_mcp.operations.programs.opening import Given
from skillopt_mcp.operations.programs.stopping import Stop, carried_out
from skillopt_mcp.operations.results import Evaluated
from skillopt_mcp.operations.testing.calibrating import DEFAULT_PAIRS, Calibrated
from skillopt_mcp.operations.testing.calibrating import calibrate as calibrate_skill
from skillopt_mcp.operations.testing.controls import Control
from skillopt_mcp.operations.testing.crediting import Credited, credit_candidate, rescue_candidate
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate, is_simulated
from skillopt_mcp.operations.testing.opening_tests import check_said
from skillopt_mcp.operations.testing.racing import Raced, entered, race_candidates
from skillopt_mcp.records.budgets import NO_CAPS, Caps
from skillopt_mcp.records.evidence import Claim


def evaluate(
    candidate_id: str,
    environment: Environment | str | None = None,
    *,
    target: Backend | str | None = None,
    judge: Backend | str | None = None,
    max_pairs: int = 200,
    no_worse: float | None = None,
    claim: Claim | None = None,
    callback: Callback | None = None,
    store: str | os.PathLike[str] | None = None,
    caps: Caps = NO_CAPS,
    n_slots: int | None = None,
    stop: threading.Event | None = None,
) -> Evaluated:
    """Return the verdict on a candidate: the promotion test of `skillopt-mcp evaluate`, which promotes nothing itself.

    It goes on with the pairs so far, and pauses undecided after `max_pairs` more; a verdict stands, and asking again
    pays for nothing. An environment that attempts its tasks itself is given in place of a target; the tasks are those
    in the store. `no_worse=0.1` accepts a shorter skill that loses no more than that; `claim="like_these"` speaks of
    other tasks, too, and "these", what a new test shows where nothing is said, of those in the store alone. Both are
    chosen by the call that begins the test; one that says nothing goes on with that.

    Backends, `store`, `caps`, `n_slots` and `stop` are those of `train`; the callback hears of every pair. Raises what
    `train` raises: Stopped where it stops before a verdict or pause, Refused for a candidate that is not to be tested.
    """
    rule = ConfirmRule(max_pairs=max_pairs) if no_worse is None else no_worse_rule(no_worse, max_pairs=max_pairs)
    rule = replace(rule, claim=claim or rule.claim)
    given = Given(environment, {"target": target, "judge": judge}, store, caps, n_slots, Stop(stop))
    notify = given.stop.before(by_all(callback))

    def work() -> Evaluated:
        with given.workspace() as workspace:
            if claim:
                check_said(workspace, candidate_id, rule)
            found = evaluate_candidate(workspace, candidate_id, None, notify, rule)
            skill_id = workspace.store.candidates.get_candidate(found.candidate_id).skill_id
            return given.told(workspace, skill_id, found, simulated=is_simulated(found.backend))

    # The test is a job of its own, which Ctrl-C does not reach.
    return carried_out(work, given.stop, apart=True)


def race(
    candidates: Sequence[str],
    environment: Environment | str | None = None,
    *,
    target: Backend | str | None = None,
    optimizer: Backend | str | None = None,
    judge: Backend | str | None = None,
    laps: int = 60,
    controls: Sequence[Control] = (),
    callback: Callback | None = None,
    store: str | os.PathLike[str] | None = None,
    caps: Caps = NO_CAPS,
    n_slots: int | None = None,
    stop: threading.Event | None = None,
) -> Raced:
    """Return how candidates of one skill do beside its live version on shared val tasks, as `skillopt-mcp race` does.

    With `controls` ("none": no skill at all; "rewrite": the skill rewritten once by the optimizer) a skill's name or
    path in the place of candidates will do. A race accepts nothing: what leads it is for `evaluate`.

    Everything else is as `evaluate` has it; the callback hears of every lap.
    """
    given = Given(
        environment, {"target": target, "optimizer": optimizer, "judge": judge}, store, caps, n_slots, Stop(stop)
    )
    names = [candidates] if isinstance(candidates, str) else list(candidates)
    notify = given.stop.before(by_all(callback))

    def work() -> Raced:
        with given.workspace() as workspace:
            # By its id, for another skill may have its name.
            skill_id = entered(workspace, names, controls).skill.id
            found = race_candidates(workspace, names, RaceRule(max_laps=laps), controls=controls, notify=notify)
            return given.told(workspace, skill_id, found)

    return carried_out(work, given.stop)


def credit(
    candidate_id: str,
    environment: Environment | str | None = None,
    *,
    target: Backend | str | None = None,
    judge: Backend | str | None = None,
    pairs: int = 60,
    rescue: bool = False,
    callback: Callback | None = None,
    store: str | os.PathLike[str] | None = None,
    caps: Caps = NO_CAPS,
    n_slots: int | None = None,
    stop: threading.Event | None = None,
) -> Credited:
    """Return what each edit of a candidate is worth on up to so many pairs of val runs, as `skillopt-mcp credit` does.

    What is worth keeping becomes a candidate of its own (`rescued_id`). With `rescue` that part is found by halving
    instead. Everything else is as `evaluate` has it.
    """
    given = Given(environment, {"target": target, "judge": judge}, store, caps, n_slots, Stop(stop))
    notify = given.stop.before(by_all(callback))

    def work() -> Credited:
        with given.workspace() as workspace:
            if rescue:
                found = rescue_candidate(workspace, candidate_id)
            else:
                found = credit_candidate(workspace, candidate_id, CreditRule(max_pairs=pairs), notify)
            skill_id = workspace.store.candidates.get_candidate(found.candidate_id).skill_id
            return given.told(workspace, skill_id, found)

    return carried_out(work, given.stop)


def calibrate(
    skill: str | os.PathLike[str],
    environment: Environment | str | None = None,
    *,
    target: Backend | str | None = None,
    judge: Backend | str | None = None,
    pairs: int = DEFAULT_PAIRS,
    gain: float | None = None,
    max_pairs: int = 200,
    callback: Callback | None = None,
    store: str | os.PathLike[str] | None = None,
    caps: Caps = NO_CAPS,
    n_slots: int | None = None,
    stop: threading.Event | None = None,
) -> Calibrated:
    """Return what a promotion test of up to `max_pairs` can find on a skill's tasks, as `skillopt-mcp calibrate` does.

    So many pairs of the live version with itself tell how noisy the tasks are. With `gain` it tells what a gain of that
    size would take. Everything else is as `evaluate` has it.
    """
    given = Given(environment, {"target": target, "judge": judge}, store, caps, n_slots, Stop(stop))
    notify = given.stop.before(by_all(callback))
    name = skill if isinstance(skill, str) else os.path.abspath(skill)

    def work() -> Calibrated:
        with given.workspace() as workspace:
            found = calibrate_skill(workspace, name, pairs, gain, ConfirmRule(max_pairs=max_pairs), notify)
            return given.told(workspace, workspace.skill(name).id, found)

    return carried_out(work, given.stop)
