"""Gating: what a search gate asks for beside a candidate's own trials, and the verdict that it reaches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from skillopt_mcp.documents.text import counted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.recompute import StrictInputs, search_comparison
from skillopt_mcp.gates.search import Comparison, TaskScore, fallen, mean_score
from skillopt_mcp.prompts.loading import Prompts
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.candidates import Candidate, Decision, NewCandidate, candidate_id
from skillopt_mcp.records.edits import UNSHOWN, Applied, Edit, EditReport, Patch
from skillopt_mcp.records.evidence import Mean, SearchGate, Trajectory, Trial
from skillopt_mcp.records.runs import DiscardedEdit, StepKind, StepOutcome, StepRecord, StepVerdict
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.redaction.redacting import NOTHING_KNOWN, KnownSecrets
from skillopt_mcp.splits import batches, epoch_order
from skillopt_mcp.stages.rollout import Evaluation, evaluate, task_scores
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.schedule import edit_budget

TOP = 1.0


class Search(Protocol):
    """Where a search is carried out: what of a plan the gate needs."""

    @property
    def run_id(self) -> str: ...
    @property
    def config(self) -> Config: ...
    @property
    def val(self) -> tuple[Task, ...]: ...


class Standing(Protocol):
    """Where a search stands: what of a state the gate needs."""

    @property
    def n(self) -> int: ...
    @property
    def current(self) -> SkillFiles: ...
    @property
    def evaluation(self) -> Evaluation: ...
    @property
    def best(self) -> SkillFiles: ...
    @property
    def best_evaluation(self) -> Evaluation: ...


@dataclass(frozen=True, slots=True)
class Looked:
    """A search gate's verdict on a candidate: its evaluation, further trials, and what the verdict recomputes from."""

    comparison: Comparison
    candidate: Evaluation
    inputs: StrictInputs
    trials: tuple[Trial, ...] = ()


def measured(search: Search, ask: Ask, files: SkillFiles, *, is_current: bool) -> Evaluation:
    """Return the evaluation that a version is compared by.

    Under the fresh gate what was accepted is measured anew, once: the trials that it was accepted for came out well,
    and candidates after it would have to beat that luck too.
    """
    anew = is_current and _gate(search.config) == "fresh"
    draw = f"{search.run_id}/val{'/current' if anew else ''}"
    return _evaluated(search, ask, files, draw)


def accepted(search: Search, ask: Ask, files: SkillFiles, looked: Looked) -> Evaluation:
    """Return the evaluation of a version that has just become current: the one it was accepted by, or one anew."""
    if _gate(search.config) in ("strict", "no_regression"):
        return looked.candidate
    return measured(search, ask, files, is_current=True)


def look(search: Search, ask: Ask, state: Standing, files: SkillFiles) -> Looked:
    """Return what the run's search gate makes of a candidate, whatever further rollouts it needs for that."""
    config, gate = search.config, _gate(search.config)
    if gate == "paired_se":
        return _paired(search, ask, state, files)
    evaluation = measured(search, ask, files, is_current=False)
    inputs = StrictInputs(
        metric=config.metric,
        mixed_weight=config.mixed_weight,
        candidate=task_scores(evaluation),
        current=task_scores(state.evaluation),
        best=_best(state),
    )
    further: tuple[Trial, ...] = ()
    if gate == "no_regression" and search_comparison("strict", inputs).verdict != "reject":
        further, inputs = _second_look(search, ask, state, files, inputs)
    return Looked(search_comparison(gate, inputs), evaluation, inputs, further)


def _paired(search: Search, ask: Ask, state: Standing, files: SkillFiles) -> Looked:
    """Return the verdict on rollouts of both arms that this step alone makes."""
    draw, config = f"{search.run_id}/val/{state.n + 1}", search.config
    theirs, ours = (_evaluated(search, ask, arm, draw) for arm in (state.current, files))
    inputs = StrictInputs(
        metric=config.metric,
        mixed_weight=config.mixed_weight,
        candidate=task_scores(ours),
        current=task_scores(theirs),
        best=_best(state),
    )
    return Looked(search_comparison("paired_se", inputs), ours, inputs, theirs.trials)


def _second_look(
    search: Search, ask: Ask, state: Standing, files: SkillFiles, inputs: StrictInputs
) -> tuple[tuple[Trial, ...], StrictInputs]:
    """Return second rollouts of both arms on the tasks that fell, and the inputs with them."""
    fell = set(fallen(inputs.candidate, inputs.current, inputs.metric, inputs.mixed_weight))
    if not fell:
        return (), inputs
    tasks = [task for task in search.val if task.id in fell]
    draw = f"{search.run_id}/val/{state.n + 1}/again"
    ours, theirs = (_evaluated(search, ask, arm, draw, tasks) for arm in (files, state.current))
    again = (task_scores(ours), task_scores(theirs))
    return (*ours.trials, *theirs.trials), inputs.model_copy(update={"again": again})


def _evaluated(
    search: Search, ask: Ask, files: SkillFiles, draw: str, tasks: Sequence[Task] | None = None
) -> Evaluation:
    config = search.config
    chosen = search.val if tasks is None else tasks
    return evaluate(ask, files, chosen, config.metric, draw=draw, mixed_weight=config.mixed_weight)


def is_topped(config: Config, current: float | None) -> bool:
    """Return whether no candidate can be accepted after a current version of this score: there is no better one.

    So it is under every gate that compares with what that version scored; paired_se rolls it out anew.
    """
    return current == TOP and config.use_gate and config.gate != "paired_se"


def _gate(config: Config) -> SearchGate:
    """Return the run's gate; without one, nothing but the best version hangs on a comparison: the strict one."""
    return config.gate if config.use_gate else "strict"


def _best(state: Standing) -> list[TaskScore] | None:
    return None if state.best == state.current else task_scores(state.best_evaluation)


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a run depends on, frozen when it began; `note` is what earlier runs left for the optimizer,
    and `discarded` the edits of earlier candidates that it is told of.

    The secrets `known` are those of whoever advances it, and are for the guard.
    """

    run_id: str
    skill_id: int
    base: SkillFiles
    config: Config
    prompts: Prompts
    train: tuple[Task, ...]
    val: tuple[Task, ...]
    sessions: tuple[Trajectory, ...] = ()
    note: str = ""
    known: KnownSecrets = NOTHING_KNOWN
    discarded: tuple[DiscardedEdit, ...] = ()

    @property
    def n_steps(self) -> int:
        """Return the number of training steps of the whole run, over which the edit budget falls."""
        return self.config.epochs * -(-len(self.train) // (self.config.batch * self.config.accumulation))

    @property
    def n_rows(self) -> int:
        """Return how many steps are stored of the whole run, those that end an epoch among them."""
        return self.n_steps + (self.config.epochs - 1) * len(epoch_ends(self.config))


def check_splits(plan: Plan) -> None:
    """Raise BadInput when a plan has nothing to train on, or nothing to choose by."""
    for split, tasks in (("train", plan.train), ("val", plan.val)):
        if not tasks:
            raise BadInput(f"the skill has no {split} task: add tasks with add_tasks or 'skillopt-mcp tasks add'")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the plan: its 1-based number and epoch, its batches, its edit budget, and the draw of its chances.

    A step of kind slow or meta ends an epoch and has no batch. `draws` are of attempts that exist, by task id.
    """

    n: int
    epoch: int
    batches: tuple[tuple[Task, ...], ...]
    budget: int
    draw: str
    kind: StepKind = "step"
    draws: Mapping[int, str] = field(default_factory=dict)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Return the tasks of all batches, in order."""
        return tuple(task for batch in self.batches for task in batch)


@dataclass(frozen=True, slots=True)
class State:
    """Where the search stands after `n` steps: the current version moves on, the best one is kept apart."""

    n: int
    current: SkillFiles
    evaluation: Evaluation
    best: SkillFiles
    best_evaluation: Evaluation

    @property
    def best_score(self) -> float:
        """Return the score of the best version."""
        return self.best_evaluation.score


@dataclass(frozen=True, slots=True)
class Gated:
    """What became of a step's candidate: the verdict, and what the search gate saw, if asked."""

    verdict: StepVerdict
    looked: Looked | None = None

    @property
    def evaluation(self) -> Evaluation | None:
        """Return the candidate's evaluation, if it was asked for one."""
        return self.looked.candidate if self.looked else None


@dataclass(frozen=True, slots=True)
class Work:
    """What the stages of one step made, and why some of it was made without the model.

    `note` is for the optimizer, `left_out` are edits beyond the budget, `findings` hold the candidate at promotion.
    """

    trials: tuple[Trial, ...]
    budget: int
    n_proposed: int
    selected: Patch
    applied: Applied
    unusable: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    note: str = ""
    left_out: tuple[Edit, ...] = ()
    findings: tuple[str, ...] = ()
    gated: Gated = field(default=Gated("no_change"))


def epoch_ends(config: Config) -> tuple[StepKind, ...]:
    """Return what ends every epoch but the first."""
    ends: list[StepKind] = []
    if config.slow_update:
        ends.append("slow")
    if config.meta_skill:
        ends.append("meta")
    return tuple(ends)


def steps(plan: Plan, *, after: int) -> Iterator[Step]:
    """Yield the steps that are still to do after the first `after`.

    Every epoch takes all train tasks, in an order of its own; from the second on, slow update and meta note end it.
    """
    return (step for step in _all_steps(plan) if step.n > after)


def _all_steps(plan: Plan) -> Iterator[Step]:
    config, n, ordinal = plan.config, 0, 0
    for epoch in range(1, config.epochs + 1):
        for positions in epoch_batches(len(plan.train), config, epoch):
            n, ordinal = n + 1, ordinal + 1
            taken = tuple(tuple(plan.train[i] for i in batch) for batch in positions)
            yield Step(n, epoch, taken, _budget(plan, ordinal), f"{plan.run_id}/e{epoch}s{ordinal}")
        for kind in epoch_ends(config) if epoch > 1 else ():
            n += 1
            yield Step(n, epoch, (), 1, f"{plan.run_id}/e{epoch}{kind}", kind)


def epoch_batches(n_tasks: int, config: Config, epoch: int) -> list[list[list[int]]]:
    """Return the batches of each step of an epoch, as positions of tasks.

    Where the epoch's order runs out within a step, it begins again.
    """
    order = epoch_order(n_tasks, config.seed, epoch)
    cut = batches(order, config.batch)
    missing = -len(cut) % config.accumulation
    refills = [order[start % n_tasks :][: config.batch] for start in range(0, missing * config.batch, config.batch)]
    chosen = [*cut, *refills]
    return [chosen[start : start + config.accumulation] for start in range(0, len(chosen), config.accumulation)]


def _budget(plan: Plan, ordinal: int) -> int:
    config = plan.config
    kind = "constant" if config.schedule == "autonomous" else config.schedule
    return edit_budget(ordinal, plan.n_steps, kind, config.max_edits, config.min_edits)


def step_outcome(plan: Plan, step: Step, before: State, after: State, work: Work) -> StepOutcome:
    """Return what to store of a step that led from the state `before` to `after`."""
    gated = work.gated
    candidate = _candidate(plan, before, work) if gated.verdict != "no_change" else None
    baseline = before.evaluation.trials if step.n == 1 else ()
    evaluated = gated.evaluation.trials if gated.evaluation else ()
    record = StepRecord(
        n=step.n,
        epoch=step.epoch,
        budget=work.budget,
        train=mean_score(work.trials),
        parent_version=before.current.digest,
        candidate_version=candidate.candidate.version_id if candidate else None,
        candidate_id=candidate.candidate.id if candidate else None,
        verdict=gated.verdict,
        current=after.evaluation.score,
        candidate=gated.evaluation.score if gated.evaluation else None,
        best=after.best_score,
        current_version=after.current.digest,
        best_version=after.best.digest,
        n_proposed=work.n_proposed,
        n_applied=sum(report.status == "applied" for report in work.applied.reports),
        n_missing=sum(trial.missing for trial in (*work.trials, *evaluated)),
        unmatched=tuple(_said(report) for report in work.applied.reports if report.status == "unmatched"),
        unusable=work.unusable,
        kind=step.kind,
        patterns=work.patterns,
        train_by_type=_by_type(work.trials),
        val_by_type=_by_type(evaluated),
        val=gated.evaluation.mean if gated.evaluation else None,
        baseline=before.evaluation.mean if step.n == 1 else None,
        train_current=_of(before.current.digest, work.trials) if step.kind == "slow" else None,
        left_out=work.left_out,
    )
    decision = _decision(plan, step, before, gated, record.candidate_version)
    further = gated.looked.trials if gated.looked else ()
    is_kept = after.evaluation is before.evaluation or after.evaluation is gated.evaluation
    anew = () if is_kept else after.evaluation.trials
    trials = (*baseline, *work.trials, *evaluated, *further, *anew)
    return StepOutcome(record, trials, candidate, decision, work.note)


def _of(version: str, trials: Sequence[Trial]) -> Mean:
    """Return the means of one version, of each task once: a version may have been compared with itself."""
    return mean_score({trial.task.id: trial for trial in trials if trial.version == version}.values())


def _by_type(trials: Sequence[Trial]) -> dict[str, Mean]:
    """Return the means by the first tag of the tasks; a task without one is in none."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.task.tags:
            groups.setdefault(trial.task.tags[0], []).append(trial)
    return {tag: mean_score(group) for tag, group in sorted(groups.items())}


def what_failed(work: Work) -> str:
    """Return how many of the attempts that a step's edits cite failed, by kind of task, and what an analyst saw."""
    cited = {id for edit in work.selected.edits for id in (edit.cited or edit.sources) if not id.startswith(UNSHOWN)}
    own = {f"trial:{trial.reply.id}": trial for trial in work.trials}
    failed = [own[id].task for id in cited if id in own and own[id].hard is False]
    kinds = Counter(task.tags[0] if task.tags else "task" for task in failed)
    parts = [f"{n} x {kind}" for kind, n in sorted(kinds.items(), key=lambda each: (-each[1], each[0]))]
    if n_sessions := len(cited - own.keys()):
        parts.append(counted(n_sessions, "recorded session"))
    seen = next(iter(work.patterns), "") or work.selected.reasoning
    told = f"failed: {', '.join(parts)}" if kinds else f"from {', '.join(parts)}" if parts else ""
    return ". ".join(filter(None, (told, seen)))


def _candidate(plan: Plan, before: State, work: Work) -> NewCandidate:
    base, version = before.current.digest, work.applied.files.digest
    made = Candidate(
        id=candidate_id(plan.skill_id, base, version),
        skill_id=plan.skill_id,
        base_version=base,
        version_id=version,
        origin="step",
        reasoning=what_failed(work),
        findings=work.findings,
        run_id=plan.run_id,
    )
    edits = tuple(zip(work.selected.edits, work.applied.reports, strict=True))
    return NewCandidate(made, work.applied.files, edits)


def _decision(plan: Plan, step: Step, before: State, gated: Gated, version: str | None) -> Decision | None:
    looked = gated.looked
    if looked is None or version is None:
        return None
    compared = looked.comparison
    return Decision(
        skill_id=plan.skill_id,
        gate=plan.config.gate if plan.config.use_gate else "none",
        base_version=before.current.digest,
        version_id=version,
        scope=f"{plan.run_id}/{step.n}",
        verdict=gated.verdict,
        reason=f"val score {compared.candidate:.4f} against {compared.current:.4f} on {compared.n} tasks",
        inputs=looked.inputs.model_dump_json(),
    )


def _said(report: EditReport) -> str:
    return f"edit {report.index} ({report.op} {report.path}): {report.reason}: {report.detail}"
