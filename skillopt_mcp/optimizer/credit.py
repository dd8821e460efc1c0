"""Credit: an accepted candidate without each of its edits, and the good part of a bundle that was rejected."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.gates.credit import Credit, CreditRule, bisect
from skillopt_mcp.gates.paired import paired_se
from skillopt_mcp.gates.recompute import CreditInputs, credit_verdict
from skillopt_mcp.gates.strict import TaskScore
from skillopt_mcp.optimizer.arms import LAPS_AHEAD, Contest, Scores, drawn_laps, insistent_rollout
from skillopt_mcp.optimizer.progress import Notify, Progress, silent
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.edits import Edit, Patch
from skillopt_mcp.records.evidence import Trial
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.stages.rollout import Attempt
from skillopt_mcp.store.opening import Store

GATE = "credit"


def without_each(base: SkillFiles, edits: Sequence[Edit]) -> list[SkillFiles]:
    """Return what the base becomes by all edits but one, for each of them in order."""
    places = range(len(edits))
    return [only(base, edits, [place for place in places if place != left_out]) for left_out in places]


def only(base: SkillFiles, edits: Sequence[Edit], places: Sequence[int]) -> SkillFiles:
    """Return what the base becomes by the edits at these places alone."""
    return apply_patch(base, Patch(tuple(edits[place] for place in places))).files


def run_credit(contest: Contest, rule: CreditRule, store: Store, ask: Ask, notify: Notify = silent) -> list[Credit]:
    """Return the verdict on every edit; the first arm is the whole candidate, each other one lacks one edit.

    All edits share the rollouts of the whole candidate; an edit with a verdict is asked about no more.
    """
    laps: list[Scores] = []
    trials: list[Trial] = []
    inputs = _inputs(rule, laps)
    open_edits = set(range(len(contest.arms) - 1))
    while len(laps) < rule.max_pairs and open_edits:
        notify(Progress(GATE, 0, len(laps), rule.max_pairs, note=f"{len(open_edits)} edits"))
        ahead = range(len(laps), min(len(laps) + LAPS_AHEAD, rule.max_pairs))
        drawn = drawn_laps(contest, ask, ahead, {0, *(1 + edit for edit in open_edits)})
        laps += drawn.scores
        trials += drawn.trials
        inputs = _inputs(rule, laps)
        open_edits = {edit for edit, found in enumerate(inputs.credits) if found.verdict not in ("harms", "helps")}
    reason = f"{len(contest.arms) - 1} edits, each left out in turn, over {len(inputs.laps)} laps"
    decision = contest.decision(GATE, credit_verdict(inputs), reason, inputs.model_dump_json())
    store.decisions.add_evidence(decision, trials)
    return inputs.credits


def rescue(ask: Ask, base: SkillFiles, edits: Sequence[Edit], tasks: Sequence[Task], *, draw: str) -> tuple[int, ...]:
    """Return the places of the edits worth keeping of a rejected bundle, its halves tried on val tasks in turn.

    A part stays when its paired difference is above its standard error; that may be chance, so what is rescued is a
    candidate to test and no more. At most 2 (2 n - 2) rollouts per task.
    """

    def gains(part: tuple[int, ...]) -> bool:
        files = only(base, edits, part)
        if files == base:
            return False
        own = f"{draw}/{'+'.join(map(str, part))}"
        trials = insistent_rollout(ask, [Attempt(arm, task, own) for arm in (files, base) for task in tasks])
        ours, theirs = _scores(trials[: len(tasks)]), _scores(trials[len(tasks) :])
        return paired_se(ours, theirs, theirs, "hard").verdict != "reject"

    return bisect(len(edits), gains)


def _scores(trials: Sequence[Trial]) -> list[TaskScore]:
    return [TaskScore(trial.task.id, trial.hard, trial.soft) for trial in trials]


def _inputs(rule: CreditRule, laps: Sequence[Scores]) -> CreditInputs:
    return CreditInputs(alpha=rule.alpha, delta=rule.delta, max_pairs=rule.max_pairs, bets=rule.bets, laps=list(laps))
