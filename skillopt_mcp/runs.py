"""Runs: new, started or resumed, searched, tested, finished; two documents trained in turn; proposals from evidence."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Literal, NamedTuple, TypeVar, get_args

from pydantic import JsonValue

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.calls.asking import Outstanding
from skillopt_mcp.calls.rounds import OnReply
from skillopt_mcp.calls.spending import Budget
from skillopt_mcp.candidates import edits_of, step_of, with_past
from skillopt_mcp.costs import account, check_caps, together
from skillopt_mcp.dispatch import (
    ALLOWED,
    Changed,
    Names,
    Way,
    answering,
    are_of,
    backends_of,
    changed_since,
    check_batch,
    check_unchanged,
    lock_of,
    note_answering,
    pace_of,
    run_backends,
    tasks_of,
    told_changes,
)
from skillopt_mcp.documents.text import counted, quoted
from skillopt_mcp.errors import BackendError, BadInput, CapReached, NotFound, Refused, Waiting
from skillopt_mcp.evidence import evidence_of, judge_named, try_programs
from skillopt_mcp.gates.search import metric_value
from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.guard.findings import carried
from skillopt_mcp.judges.judging import is_form_alone
from skillopt_mcp.next_step import BACKENDS
from skillopt_mcp.promotion_tests import (
    check_claimed,
    chosen_tasks,
    is_simulated,
    only_here,
    prospect,
    tasks_to_test,
)
from skillopt_mcp.prompts.loading import Prompts, load_prompts, stored_prompts
from skillopt_mcp.records.budgets import Caps
from skillopt_mcp.records.calls import Call, Question, Reply, Role
from skillopt_mcp.records.candidates import Candidate, NewCandidate, candidate_id, rolled_back
from skillopt_mcp.records.edits import Edit
from skillopt_mcp.records.evidence import Confirmation, Mean
from skillopt_mcp.records.next_step import NextStep
from skillopt_mcp.records.results import Proposed, Replayed, Result, StepRow
from skillopt_mcp.records.runs import DiscardedEdit, Run, RunStatus, StepRecord
from skillopt_mcp.records.skills import Skill, SkillFiles, is_memory, short
from skillopt_mcp.records.tasks import NewTask, Task
from skillopt_mcp.skill_folders import called
from skillopt_mcp.skills import check_merged
from skillopt_mcp.splits import EQUAL_SHARES
from skillopt_mcp.store.decisions import Discarding, Standing
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks import told_twins
from skillopt_mcp.tracing import span
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.confirmation import GATE, check_claim, held_out, open_test, paused_at, run_test
from skillopt_mcp.training.loop import MOST_REJECTED, train
from skillopt_mcp.training.plan import Plan, Work, check_splits, measured
from skillopt_mcp.training.progress import Notify, silent
from skillopt_mcp.workspace import Workspace, shortened

TOPPED = "the current version scores 1.00 on the val tasks, so the gate accepts no candidate"
NO_BETTER = "no candidate did better than the live version on the val tasks"
T = TypeVar("T")
ALL_RETIRED = "all held-out tasks of the run were retired since it began, so that nothing can be tested"
FORM_ALONE = "the held-out tasks judge the form of answers alone (length, heading), which promotes nothing"
_RUN_ID = re.compile(r"r-[0-9a-f]{12}")
_NAMED = 5
Document = Literal["skill", "memory", "both"]
WAY_ON = f"the same command with {ALLOWED}"
DOCUMENTS: tuple[Document, ...] = get_args(Document)
EDIT_BYTES = 600


def start_run(
    workspace: Workspace, skill: str, config: Config, prompts: Prompts | None = None,
    only: Collection[str] | None = None,
) -> Run:  # fmt: skip
    """Return a new run of a skill, stored and frozen: config, prompts, tasks, sessions, base version and backends.

    It takes the tasks of these digests `only`, or all that are stored.
    """
    run = new_run(workspace, skill, config, prompts, only)
    begin(workspace, run)
    return run


def begin(workspace: Workspace, new: Run) -> None:
    """Store a new run. Raises what `check_new` raises."""
    check_new(workspace, new)
    workspace.store.runs.add_run(new)


def check_new(workspace: Workspace, new: Run) -> None:
    """Raise BadInput for a new run that cannot be trained on, Refused when its test could accept nothing."""
    config = planned(workspace, new).config
    chosen = set(new.tasks)
    tasks = [task for task in workspace.store.tasks.list_tasks(new.skill_id) if task.id in chosen]
    evidence = evidence_of(workspace.backends_for(tasks))
    check_claim(workspace.store, new.skill_id, tasks, evidence, config.promotion_rule)


def check_able(workspace: Workspace) -> None:
    """Raise BackendError or BadInput where nobody can answer in a run: then its skill need not be looked at."""
    check_caps(workspace.caps, {"target": workspace.backend("target"), "optimizer": workspace.backend("optimizer")})


def new_run(
    workspace: Workspace, skill: str, config: Config, prompts: Prompts | None = None,
    only: Collection[str] | None = None,
) -> Run:  # fmt: skip
    """Return a new run of a skill as `start_run` does, not yet stored. Raises Refused where git left a conflict."""
    store = workspace.store
    tracked = workspace.recorded(skill)
    check_merged(store.skills.get_files(tracked.id, tracked.live_version))
    tasks = chosen_tasks(workspace, tracked, config, only)
    backends = workspace.backends_for(tasks) | {"optimizer": workspace.backend("optimizer")}
    try_programs(workspace.store, tasks)
    check_caps(workspace.caps, backends)
    check_batch(workspace, backends)
    sessions = store.trajectories.recent_trajectories(tracked.id, config.sessions)
    draft = Run(
        id="",
        skill_id=tracked.id,
        base_version=tracked.live_version,
        config=config.model_dump_json(),
        prompts=json.dumps(asdict(prompts or load_prompts())),
        tasks=tuple(task.id for task in tasks),
        sessions=tuple(sessions),
        target=backends["target"].name,
        optimizer=backends["optimizer"].name,
        status="running",
        note=store.runs.note_of_skill(tracked.id) if config.meta_skill else "",
        judge=judge_named(backends),
        caps=workspace.caps,
        answering=(answering(backends),),
    )
    ordinal = store.runs.count_runs(tracked.id)
    return replace(draft, id="r-" + hashlib.sha256(f"{ordinal} {draft}".encode()).hexdigest()[:12])


def unfinished_run(workspace: Workspace, skill: str) -> Run:
    """Return the newest run of a skill that has not finished, or the one of this id. Raises NotFound without one."""
    if _RUN_ID.fullmatch(skill):
        run = workspace.store.runs.get_run(skill)
        if run.kind != "replay" or run.status == "finished":
            raise NotFound(f"'{run.id}' is no run that is unfinished: look at it with 'skillopt-mcp show {run.id}'")
        return run
    tracked = workspace.recorded(skill)
    if found := workspace.store.runs.find_unfinished(tracked.id):
        return found
    new = f"skillopt-mcp replay {called(workspace.store, tracked)} {BACKENDS}"
    raise NotFound(f"no run of '{tracked.name}' is unfinished: start one with '{new}'")


def last_finished(workspace: Workspace, new: Run) -> Run | None:
    """Return the newest finished run that a new one would be, answered by the same; None when there is none.

    Where only such runs are left of which nobody knows who answered (`answering` is empty), it is the newest of these.
    """
    unknown = None
    for run in _alike(workspace, new, is_finished=True):
        if not run.answering:
            unknown = unknown or run
        elif not changed_since(workspace, run, new.answering[-1]):
            return run
    return unknown


def finished_by_others(workspace: Workspace, new: Run) -> Run | None:
    """Return the newest finished run that a new one would be, whoever answered in it; None when there is none."""
    return next(_alike(workspace, new, is_finished=True), None)


def furthest(workspace: Workspace, new: Run, *, allow_changed: bool) -> Run | None:
    """Return the unfinished run that a new one would go on with: of several, the one that has sent most calls."""
    runs = [
        run
        for run in _alike(workspace, new, is_finished=False)
        if allow_changed or not changed_since(workspace, run, new.answering[-1])
    ]
    return max(runs, key=lambda run: workspace.store.budgets.get_spent(run.id).calls, default=None)


def left_changed(workspace: Workspace, new: Run) -> tuple[Run, list[Changed]] | None:
    """Return the newest unfinished run that differs from this one by who answers alone, and how; None without one."""
    others = (
        (run, changed_since(workspace, run, new.answering[-1])) for run in _alike(workspace, new, is_finished=False)
    )
    return next(((run, changed) for run, changed in others if changed), None)


def left_behind(workspace: Workspace, new: Run) -> Run | None:
    """Return the newest unfinished run that differs from this one by more tasks alone, None when there is none."""
    runs = _alike(workspace, new, is_finished=False, by_tasks=False)
    return next((run for run in runs if set(run.tasks) > set(new.tasks)), None)


def others_left(workspace: Workspace, run: Run) -> list[tuple[Run, int]]:
    """Return the other unfinished runs of the skill, each with the calls it has sent, those with most first."""
    store = workspace.store
    runs = [
        each for each in reversed(store.runs.list_runs(run.skill_id)) if each.kind == "replay" and each.id != run.id
    ]
    left = [(each, store.budgets.get_spent(each.id).calls) for each in runs if each.status != "finished"]
    return sorted(left, key=lambda each: -each[1])


def told_others_left(left: Sequence[tuple[Run, int]]) -> str:
    """Return in words that other runs are unfinished as well, those that have sent most calls first; "" for none."""
    if not left:
        return ""
    named = ", ".join(f"{run.id} ({counted(n, 'call')})" for run, n in left[:_NAMED])
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return f"--resume goes on with the newest unfinished run; unfinished as well: {named}{more}; name one by its id"


def _alike(workspace: Workspace, new: Run, *, is_finished: bool, by_tasks: bool = True) -> Iterator[Run]:
    """Yield the runs that are frozen to the same things as a new one, whoever answered in them, newest first."""
    runs, names = workspace.store.runs, Names(new.target, new.optimizer, new.judge)
    alike = map(runs.get_run, runs.list_alike(new, is_finished=is_finished, by_tasks=by_tasks))
    return (run for run in alike if are_of(run, names))


def answered(outcome: T | Outstanding) -> T:
    """Return the outcome of work that no host answers for. Raises BackendError where one would have to."""
    if isinstance(outcome, Outstanding):
        raise BackendError("a host answers through the tools of a server alone: name another backend")
    return outcome


def replay(
    workspace: Workspace, run: Run, notify: Notify = silent, on_reply: OnReply | None = None,
    n_slots: int | None = None, *, allow_changed: bool = False,
) -> Replayed:  # fmt: skip
    """Return the outcome of a run, trained from wherever it stopped, its best version confirmed on held-out tasks.

    It goes on under the caps that it was given last, those of the workspace in their places, and keeps them. Raises
    Busy when somebody else is advancing it, Refused when it was frozen with other backends, or others answer by their
    names now, which `allow_changed` lets them: then both versions are measured anew. When interrupted, or
    stopped at a cap or by an outage (Stopped), what was finished is kept, and the run is stopped. Batches that are at a
    vendor then go on there, and are collected when the run goes on.
    """
    store = workspace.store
    skill = store.skills.get_skill(run.skill_id)
    if run.result:
        return Replayed.model_validate_json(run.result)
    backends = backends_of(workspace, run)
    check_batch(workspace, backends)
    lock = lock_of(workspace, run)
    status: RunStatus = "stopped"
    higher = store.runs.get_higher(run.id) if run.status == "stopped" else ""
    try:
        run = store.runs.get_run(run.id)
        if run.result:
            status = "finished"
            return Replayed.model_validate_json(run.result)
        if not allow_changed:
            check_unchanged(workspace, run, backends)
        try_programs(store, tasks_of(workspace, run))
        caps = _kept_caps(workspace, run, backends)
        run = note_answering(workspace, run, backends)
        store.runs.set_status(run.id, "running")
        higher = ""
        plan = planned(workspace, run)
        way = Way(workspace, Budget(run.id, caps), notify, on_reply, n_slots)
        with span("run", run=run.id, skill=skill.name):
            state = answered(
                way.through(backends, run.id, lambda ask: train(plan, store, ask, way.notify, stop_when_perfect=True))
            )
            result = finish(run, skill, plan, Best(state.best, state.best_score), way)
        store.runs.set_status(run.id, "finished", result.model_dump_json())
        status = "finished"
        return result
    except CapReached as reached:
        higher = reached.higher
        raise
    finally:
        try:
            if status == "stopped":
                store.runs.set_status(run.id, "stopped", higher=higher)
        finally:
            lock.release()


def caps_of(workspace: Workspace, run: Run) -> Caps:
    """Return the caps that a run goes on under here: those that it was given last, the workspace's in their places."""
    return run.caps.replaced_by(workspace.caps)


def _kept_caps(workspace: Workspace, run: Run, backends: Mapping[Role, Backend]) -> Caps:
    """Return the caps that a run goes on under, once they are stored with it. Raises BadInput when they cannot hold."""
    caps = caps_of(workspace, run)
    check_caps(caps, backends)
    if caps != run.caps:
        workspace.store.runs.set_caps(run.id, caps)
    return caps


def planned(workspace: Workspace, run: Run) -> Plan:
    """Return the plan that a run was frozen to. Raises BadInput when it cannot be trained on."""
    store = workspace.store
    by_id = {task.id: task for task in store.tasks.list_tasks(run.skill_id)}
    tasks = [by_id[task_id] for task_id in run.tasks]
    found = (store.trajectories.get_trajectory(trajectory_id) for trajectory_id in run.sessions)
    plan = Plan(
        run_id=run.id,
        skill_id=run.skill_id,
        base=store.skills.get_files(run.skill_id, run.base_version),
        config=Config.of_run(run.config),
        prompts=stored_prompts(run.prompts),
        train=tuple(task for task in tasks if task.split == "train"),
        val=tuple(task for task in tasks if task.split == "val"),
        sessions=tuple(each[1] for each in found if each),
        note=run.note,
        known=workspace.known,
    )
    if run.kind == "replay":
        check_splits(plan)
    return plan


class Best(NamedTuple):
    """The best version that a search came to, and its score on val."""

    files: SkillFiles
    score: float


def finish(run: Run, skill: Skill, plan: Plan, best: Best, way: Way) -> Replayed:
    """Return the outcome: the best version becomes a candidate, and the promotion gate looks at it once."""
    workspace, store = way.workspace, way.workspace.store
    made = None
    confirmation: Confirmation | str = why_none(store.runs.list_steps(run.id))
    if best.files != plan.base:
        made = _candidate(workspace, run, plan.base, best)
        everything = tasks_of(workspace, run)
        tasks, held = tasks_to_test(workspace, made, everything)
        if is_form_alone(held) or (held_out(everything) and not held):
            return replayed(workspace, run, skill, made, FORM_ALONE if held else ALL_RETIRED)
        if untested := why_untested(workspace, run, skill, made):
            return replayed(workspace, run, skill, made, untested)
        backends = workspace.backends_for(held)
        try:
            rule = plan.config.promotion_rule
            test = open_test(store, (plan.base, best.files), tasks, evidence_of(backends), rule)
            check_claimed(test, rule, made.id)
        except Refused as error:
            # Other promotion tests have drawn its fresh tasks since the run began, or it was tested for another claim.
            return replayed(workspace, run, skill, made, str(error))
        twins = told_twins(store, skill.id, test.tasks, everything)
        test = replace(test, pace=pace_of(backends), origin=test.origin + (twins and f"; {twins}"))
        paused = paused_at(test.row, store)
        with only_here(store, test, way.notify):
            # A process may die between the verdict and the end of its run: what goes on then draws no second turn.
            since = store.runs.begin_finish(run.id, test.row.id, paused)
            confirmation = answered(
                way.through(backends, test.row.id, lambda ask: run_test(test, store, ask, way.notify, since))
            )
        why = prospect(workspace, run.skill_id, run.base_version, test.rule)
        if why and not confirmation.is_over:
            confirmation = replace(confirmation, reason=f"{confirmation.reason}; {why}")
    return replayed(workspace, run, skill, made, confirmation)


def best_candidate(workspace: Workspace, run_id: str) -> Candidate:
    """Return the best version of a run, finished or not, as a candidate. Raises NotFound, BadInput without one."""
    runs, skills = workspace.store.runs, workspace.store.skills
    run, steps = runs.get_run(run_id), runs.list_steps(run_id)
    if run.kind != "replay" or not steps or steps[-1].best_version == run.base_version:
        raise BadInput(f"run '{run_id}' has no version that is better than its base: there is nothing to test")
    base, best = (skills.get_files(run.skill_id, each) for each in (run.base_version, steps[-1].best_version))
    return _candidate(workspace, run, base, Best(best, steps[-1].best))


def _candidate(workspace: Workspace, run: Run, base: SkillFiles, best: Best) -> Candidate:
    accepted = _accepted(workspace, run, best.files.digest)
    held = [finding for each in accepted for finding in carried(each.findings)]
    made = Candidate(
        id=candidate_id(run.skill_id, base.digest, best.files.digest),
        skill_id=run.skill_id,
        base_version=base.digest,
        version_id=best.files.digest,
        origin="run",
        reasoning="; ".join(
            [*(each.reasoning for each in accepted), f"best version of {run.id}, {best.score:.2f} on val"]
        ),
        findings=(*findings(base, best.files, workspace.known), *dict.fromkeys(held)),
        run_id=run.id,
    )
    return workspace.store.candidates.add_candidate(NewCandidate(made, best.files))


def _accepted(workspace: Workspace, run: Run, version: str) -> list[Candidate]:
    """Return the accepted steps' candidates that led to a version of a run, oldest first."""
    found: list[Candidate] = []
    for step in reversed(workspace.store.runs.list_steps(run.id)):
        if step.candidate_id and step.candidate_version == version and step.verdict in ("accept", "accept_best"):
            found.insert(0, workspace.store.candidates.get_candidate(step.candidate_id))
            version = step.parent_version
    return found


def why_untested(workspace: Workspace, run: Run, skill: Skill, made: Candidate) -> str:
    """Return why a run buys no test of its best version: it could not be promoted, and no verdict stands; else ""."""
    decided = workspace.store.decisions.latest(skill.id, GATE, made.base_version, made.version_id)
    moved = "" if decided and decided.verdict != "undecided" else _moved(workspace, run, skill, made)
    return f"it was not tested, as it could not be promoted: {moved}" if moved else ""


def _moved(workspace: Workspace, run: Run, skill: Skill, made: Candidate) -> str:
    """Return how what is live differs from what a run began with, "" where it does not, or is the run's best."""
    if trouble := workspace.trouble(skill):
        return trouble
    live = workspace.again(skill).live_version
    if live in (run.base_version, made.version_id):
        return ""
    return f"the live file of '{skill.name}' is version {short(live)} now, the run began with {short(run.base_version)}"


def replayed(
    workspace: Workspace, run: Run, skill: Skill, made: Candidate | None, outcome: Confirmation | str
) -> Replayed:
    """Return what became of a run; `outcome` is what its promotion test found, or why there was none."""
    confirmation = None if isinstance(outcome, str) else outcome
    store = workspace.store
    used = account(store, run.id)
    own, tests = together(used.own), used.of_tests
    steps, config = workspace.store.runs.list_steps(run.id), Config.of_run(run.config)
    start = steps[0].baseline if steps else stored_baseline(workspace, run)
    return Replayed(
        run_id=run.id,
        skill=skill.name,
        status="finished",
        steps=[step_row(step) for step in steps],
        best_version=short(made.version_id if made else run.base_version),
        candidate_id=made.id if made else None,
        verdict=confirmation.verdict if confirmation else None,
        reason=outcome if isinstance(outcome, str) else outcome.reason,
        test_before=confirmation.base_mean if confirmation else None,
        test_after=confirmation.candidate_mean if confirmation else None,
        n_pairs=confirmation.n_pairs if confirmation else 0,
        n_calls=own.n_calls,
        n_missing=own.n_missing,
        tokens_in=own.tokens_in,
        tokens_out=own.tokens_out,
        usd=own.usd,
        n_test_calls=tests.n_calls,
        test_tokens=tests.tokens_in + tests.tokens_out,
        test_usd=tests.usd if used.tests else None,
        backend=run.target,
        changes=told_changes(run),
        metric=config.metric,
        baseline=metric_value(start, config.metric, config.mixed_weight) if start else None,
        baseline_hard=start.hard if start else None,
        baseline_soft=start.soft if start else None,
        simulated=is_simulated(evidence_of(run_backends(workspace, run))),
        next_step=_next_step(workspace, run, skill, made, confirmation),
    )


def why_none(steps: Sequence[StepRecord]) -> str:
    """Return why no version of a run is better than its base: it may never have made one, or never measured one."""
    if not steps:
        return TOPPED
    if any(step.candidate is not None for step in steps):
        return NO_BETTER
    notes = [note for step in steps for note in (*step.unusable, *step.unmatched)]
    if notes:
        said = "1 reply or edit was" if len(notes) == 1 else f"{len(notes)} replies or edits were"
        return f"no candidate was ever made: {said} unusable, the first so: {notes[0].rstrip('.')}"
    return "no candidate was ever made: the optimizer proposed nothing that changes the skill"


@dataclass(frozen=True, slots=True)
class _Search:
    run_id: str
    config: Config
    val: tuple[Task, ...]


def stored_baseline(workspace: Workspace, run: Run) -> Mean | None:
    """Return what the base version scored, by the replies in the store; None where it was not measured, or not whole.

    Nobody is asked.
    """
    store, backends = workspace.store, run_backends(workspace, run)

    def ask(calls: Sequence[Call], /) -> list[Reply]:
        keys = [call.key(backends[call.role].fingerprint) for call in calls]
        replies = store.calls.get_replies(keys)
        if len(replies) < len(set(keys)):
            raise Waiting(len(set(keys)) - len(replies))
        return [replies[key] for key in keys]

    val = tuple(task for task in tasks_of(workspace, run) if task.split == "val")
    base = store.skills.get_files(run.skill_id, run.base_version)
    try:
        mean = measured(_Search(run.id, Config.of_run(run.config), val), ask, base, is_current=True).mean
    except Waiting:
        return None
    return mean if mean.n else None


def _next_step(
    workspace: Workspace, run: Run, skill: Skill, made: Candidate | None, confirmation: Confirmation | None
) -> NextStep:
    """Return what to do after a run with its best version, which may have been promoted before the run ended."""
    if made is None:
        return NextStep(action="inspect", arguments={"id": run.id}, why="nothing to promote")
    changes = workspace.store.promotions.list_promotions(made.skill_id)
    if any(change.to_version == made.version_id for change in changes):
        return NextStep(action="inspect", arguments={"id": made.id}, why="the best version was promoted before")
    verdict = confirmation.verdict if confirmation else ""
    arguments: dict[str, JsonValue] = {"candidate_id": made.id}
    if verdict != "reject" and (moved := _moved(workspace, run, skill, made)):
        return NextStep(action="evaluate_candidate", arguments={**arguments, "rebase": True}, why=moved)
    decided = workspace.store.decisions.latest(made.skill_id, GATE, made.base_version, made.version_id)
    if verdict == "accept" or (confirmation is None and decided and decided.verdict == "accept"):
        return NextStep(action="promote_skill", arguments=arguments, why="accepted")
    if verdict == "undecided":
        why = "several models answered: name a dated one" if confirmation and confirmation.is_mixed else "undecided"
        return NextStep(action="evaluate_candidate", arguments=arguments, why=why)
    why = "its best version brings no useful gain" if verdict else "nothing to promote"
    return NextStep(action="inspect", arguments={"id": run.id}, why=why)


def step_row(step: StepRecord) -> StepRow:
    """Return a step as a table row."""
    train = step.train_current or step.train
    return StepRow(
        epoch=step.epoch,
        step=step.n,
        train_hard=train.hard if train.n else None,
        n_edits=step.n_applied,
        verdict=step.verdict,
        current=step.current,
        candidate=step.candidate,
        best=step.best,
        kind=step.kind,
        candidate_id=step.candidate_id,
        train_soft=train.soft if train.n else None,
        candidate_hard=step.val.hard if step.val else None,
        candidate_soft=step.val.soft if step.val else None,
    )


class Consolidated(Result):
    """The outcome for each document that was trained, None for one that was left as it is."""

    skill: Replayed | None
    memory: Replayed | None


@dataclass(frozen=True, slots=True)
class Documents:
    """The skill and the memory file, and which of them is trained."""

    skill: Skill
    memory: Skill
    trained: Document


@dataclass(frozen=True, slots=True)
class Training:
    """How both are trained; `resume` takes what the same training has finished, and goes on with what it has not.

    With `allow_changed` it does so even where others answer now.
    """

    config: Config
    prompts: Prompts | None = None
    notify: Notify = silent
    on_reply: OnReply | None = None
    n_slots: int | None = None
    resume: bool = False
    allow_changed: bool = False


def documents(workspace: Workspace, skill: str, memory: str, trained: Document = "both") -> Documents:
    """Return the two documents, the memory with the skill's tasks in the skill's splits.

    Raises BadInput when the paths are not those of a skill and of a memory file that can stand side by side.
    """
    found, other = workspace.skill(skill), workspace.skill(memory)
    if is_memory(found.path) or not is_memory(other.path):
        raise BadInput(f"{quoted(skill)} and {quoted(memory)} are no skill and memory file: name them in this order")
    files = workspace.live(found)
    if files.get(workspace.live(other).main_path):
        raise BadInput(f"the skill '{found.name}' has a file of that name itself: take it out, or rename it")
    store = workspace.store
    tasks = [
        NewTask(task.prompt, task.judge, task.name, task.split, task.tags, task.files)
        for task in store.tasks.list_in_use(found.id)
    ]
    if trained != "skill":
        store.tasks.add_tasks(other.id, tasks, EQUAL_SHARES)
    return Documents(found, other, trained)


def consolidate(workspace: Workspace, both: Documents, training: Training) -> Consolidated:
    """Return the outcome of training the skill, then the memory, then testing each. No file is written.

    The memory is trained beside the skill's best version where its promotion test accepted that, or else the live one.
    """
    skill, memory = both.skill, both.memory
    trained, remembered = None, None
    if both.trained != "memory":
        with accompanied(workspace, memory, memory.live_version) as beside:
            trained = _trained(beside, skill, memory, training)
    if both.trained != "skill":
        with accompanied(workspace, skill, _kept(workspace, skill, trained)) as beside:
            remembered = _trained(beside, memory, skill, training)
    last = remembered or trained
    return Consolidated(skill=trained, memory=remembered, next_step=last.next_step if last else None)


def taken_up(workspace: Workspace, both: Documents, training: Training) -> Iterator[tuple[Workspace, Run]]:
    """Yield the runs that a training takes which is resumed, each with the workspace it is answered in.

    What the memory is trained beside is known once the skill's run has finished.
    """
    skill, memory, trained = both.skill, both.memory, None
    if both.trained != "memory":
        with accompanied(workspace, memory, memory.live_version) as beside:
            found = _taken_up(beside, _new(beside, skill, training))
            if found:
                yield beside, found
        if found is None or not found.result:
            return
        trained = Replayed.model_validate_json(found.result)
    if both.trained != "skill":
        with accompanied(workspace, skill, _kept(workspace, skill, trained)) as beside:
            found = _taken_up(beside, _new(beside, memory, training))
            if found:
                yield beside, found


@contextmanager
def accompanied(workspace: Workspace, beside: Skill, version: str) -> Iterator[Workspace]:
    """Lend a workspace on the same store whose target attempts every task with a version of `beside` at hand."""
    files = workspace.store.skills.get_files(beside.id, version)
    with workspace.accompanied(files, beside.name) as other:
        yield other


def _trained(workspace: Workspace, document: Skill, beside: Skill, training: Training) -> Replayed:
    new = _new(workspace, document, training)
    found = _taken_up(workspace, new) if training.resume else None
    if found is None:
        begin(workspace, new)
    elif not training.allow_changed:
        check_unchanged(workspace, found, run_backends(workspace, found), WAY_ON)
    outcome = replay(
        workspace, found or new, training.notify, training.on_reply, training.n_slots,
        allow_changed=training.allow_changed,
    )  # fmt: skip
    if outcome.verdict != "undecided":
        return outcome
    step: NextStep = outcome.next_step
    step = step.model_copy(update={"arguments": {**step.arguments, "beside": beside.path}})
    return outcome.model_copy(update={"next_step": step})


def _new(workspace: Workspace, document: Skill, training: Training) -> Run:
    return new_run(workspace, document.path, training.config, training.prompts)


def _taken_up(workspace: Workspace, new: Run) -> Run | None:
    """Return the run that a resumed one is; one that others answered only where there is no other."""
    return (
        last_finished(workspace, new)
        or furthest(workspace, new, allow_changed=False)
        or finished_by_others(workspace, new)
        or furthest(workspace, new, allow_changed=True)
    )


def _kept(workspace: Workspace, skill: Skill, trained: Replayed | None) -> str:
    """Return the version of the skill that the memory is trained beside."""
    if trained and trained.verdict == "accept" and trained.candidate_id:
        return workspace.store.candidates.get_candidate(trained.candidate_id).version_id
    return skill.live_version


def discarded_before(store: Store, run: Run) -> tuple[DiscardedEdit, ...]:
    """Return the edits that a promotion test had rejected or a person had rolled back when a run began, newest first.

    They are those of this skill, each once, at most as many as a run's own that were rejected; none of a candidate
    that was made from an attempt erased since, and none that its base version holds.
    """
    room = store.table(Discarding)
    begun_at = room.begun_at(run.id)
    changes = [each for each in store.promotions.list_promotions(run.skill_id) if each.created_at < begun_at]
    undone = rolled_back(changes)
    erasing = store.table(Erasing)
    erased = set(erasing.list_made_of(erasing.list_erased()))
    text = store.skills.get_files(run.skill_id, run.base_version).text
    found: dict[tuple[str, str, str | None, str | None], DiscardedEdit] = {}
    for standing in room.list_standing(run.id, GATE):
        became = _became(standing, undone)
        if not became or standing.candidate_id in erased or len(found) >= MOST_REJECTED:
            continue
        edits = edits_of(store, store.candidates.get_candidate(standing.candidate_id))
        for edit in edits:
            if not edit.content or edit.content.strip() not in text:
                told = DiscardedEdit(edit, became, len(edits) - 1)
                found.setdefault((edit.op, edit.path, edit.target, edit.content), told)
    return tuple(found.values())[:MOST_REJECTED]


def _became(standing: Standing, undone: frozenset[str]) -> str:
    """Return what had become of a candidate that came to nothing; empty for any other."""
    if standing.version_id in undone:
        return "promoted, then rolled back by a person"
    return "rejected by its promotion test" if standing.verdict == "reject" else ""


class Outcome(NamedTuple):
    """What a proposal came to, and which of its attempts were erased before it read them."""

    value: Work | Outstanding
    erased: frozenset[int]


def erased_of(store: Store, run: Run) -> frozenset[int]:
    """Return those of a run's attempts that were erased."""
    return store.table(Erasing).erased_of(run.sessions)


def take_back(workspace: Workspace, outcome: Outstanding) -> bool:
    """Take back what was handed out of the questions that show an erased attempt; return whether there are such."""
    erasing = workspace.store.table(Erasing)
    requests = {call_id: call.request for call_id, call in outcome.calls.items()}
    asked = {call_id: set(request.refs) for call_id, request in requests.items() if isinstance(request, Question)}
    numbers = [int(ref.partition(":")[2]) for refs in asked.values() for ref in refs if ref.startswith("trajectory:")]
    gone = {f"trajectory:{each}" for each in erasing.erased_of(numbers)}
    showing = [call_id for call_id, refs in asked.items() if refs & gone]
    _, leases = erasing.clear_calls(showing)
    workspace.work_folders.remove(leases)
    return bool(showing)


def as_it_stands(workspace: Workspace, skill: Skill, result: Proposed) -> Proposed:
    """Return the outcome of a proposal with what to do where its candidate was made for what is not live any more, or
    was tested before.
    """
    if result.candidate_id is None or workspace.trouble(skill):
        return result
    candidate = workspace.store.candidates.get_candidate(result.candidate_id)
    live = workspace.store.skills.get_skill(skill.id).live_version
    if live == candidate.version_id:
        return result
    if live != candidate.base_version:
        arguments: dict[str, JsonValue] = {"candidate_id": candidate.id, "rebase": True}
        step = NextStep(action="evaluate_candidate", arguments=arguments, why="the live file has changed")
        return result.model_copy(update={"next_step": step})
    return with_past(workspace.store, result, candidate, step_of(candidate, candidate.findings))


def unmade(edits: Sequence[Edit], result: Proposed) -> list[str]:
    """Return the edits of a proposal that came to nothing, each as it can be corrected and given again."""
    if result.candidate_id:
        return []
    return [
        f"edits.{n}: {shortened(json.dumps(_given(edit), ensure_ascii=False), EDIT_BYTES)}"
        for n, edit in enumerate(edits)
    ]


def _given(edit: Edit) -> dict[str, str]:
    fields = {"op": edit.op, "target": edit.target, "content": edit.content, "path": edit.path}
    return {name: value for name, value in fields.items() if value is not None}
