"""Calibration: the live version against itself on the held-out tasks, so that it is known what a test can find."""

from __future__ import annotations

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.calibration import Calibration
from skillopt_mcp.gates.recompute import MEASURED, CalibrateInputs
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.evidence import Trial
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.outage import LAPS_AHEAD, Contest, drawn_laps
from skillopt_mcp.training.progress import Notify, Progress, silent

GATE = "calibrate"


def run_calibration(contest: Contest, n_pairs: int, store: Store, ask: Ask, notify: Notify = silent) -> Calibration:
    """Return how a version scores against itself; both arms of the contest are that version.

    Asked again with more pairs, only the further ones are paid. Raises BadInput when not one pair has both scores.
    """
    laps: list[tuple[float | None, float | None]] = []
    trials: list[Trial] = []
    while len(laps) < n_pairs:
        notify(Progress(GATE, 0, len(laps), n_pairs))
        drawn = drawn_laps(contest, ask, range(len(laps), min(len(laps) + LAPS_AHEAD, n_pairs)))
        laps += [(first, second) for first, second in drawn.scores]
        trials += drawn.trials
    inputs = CalibrateInputs(laps=laps)
    found = inputs.calibration
    reason = f"flips {found.flip_rate:.3f}, failures {found.failure_rate:.3f} over {found.n} pairs"
    decision = contest.decision(GATE, MEASURED, reason, inputs.model_dump_json())
    store.decisions.add_evidence(decision, trials)
    return found


def latest_calibration(store: Store, skill_id: int, files_digest: str) -> Calibration | None:
    """Return what was last measured of a version, None when nothing was."""
    last = store.decisions.latest(skill_id, GATE, files_digest, files_digest)
    if last is None:
        return None
    try:
        return CalibrateInputs.model_validate_json(last.inputs).calibration
    except BadInput:
        return None
