"""Racing: candidates of one skill against its live version on shared draws; the hopeless stop being paid for."""

from __future__ import annotations

from skillopt_mcp.gates.racing import Lap, RaceRule, Standing, race, running
from skillopt_mcp.gates.recompute import RaceInputs, race_verdict
from skillopt_mcp.optimizer.arms import LAPS_AHEAD, Contest, Scores, drawn_laps
from skillopt_mcp.optimizer.progress import Notify, Progress, silent
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.evidence import Trial
from skillopt_mcp.store.opening import Store

GATE = "race"


def run_race(
    contest: Contest, rule: RaceRule, store: Store, ask: Ask, notify: Notify = silent
) -> tuple[list[Standing], int]:
    """Return where every arm but the first, the base, ended, and after how many laps the race was over.

    A few laps are asked ahead; an arm that dropped out is asked no more. Asked again, it costs nothing: the draws are
    the same.
    """
    laps: list[Scores] = []
    trials: list[Trial] = []
    standings = [Standing(0, 0.0)] * (len(contest.arms) - 1)
    while len(laps) < rule.max_laps and running(standings):
        notify(Progress(GATE, 0, len(laps), rule.max_laps, note=f"{len(running(standings))} arms"))
        ahead = range(len(laps), min(len(laps) + LAPS_AHEAD, rule.max_laps))
        drawn = drawn_laps(contest, ask, ahead, {0, *(1 + place for place in running(standings))})
        laps += drawn.scores
        trials += drawn.trials
        standings = race([Lap(lap[0], lap[1:]) for lap in laps], rule)
    inputs = RaceInputs(beta=rule.beta, min_effect=rule.min_effect, max_laps=rule.max_laps, bets=rule.bets, laps=laps)
    reason = f"{len(contest.arms) - 1} arms after {len(laps)} laps"
    decision = contest.decision(GATE, race_verdict(inputs), reason, inputs.model_dump_json())
    store.decisions.add_evidence(decision, trials)
    return standings, len(laps)
