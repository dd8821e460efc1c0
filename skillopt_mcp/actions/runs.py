"""Runs: started, resumed, stopped, tested, listed."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, replace
from typing import NamedTuple, TypeVar

from pydantic import JsonValue

from skillopt_mcp.actions.next_steps import find_apart
from skillopt_mcp.actions.promotion_tests import (
    caps_of_search,
    chosen_tasks,
    current_test,
    describe_reach,
    only_here,
    opened,
    price_of_run,
    tasks_to_test,
)
from skillopt_mcp.backends.asking import Asker, Outstanding, run_or_wait
from skillopt_mcp.backends.programs import try_programs
from skillopt_mcp.backends.spending import Budget
from skillopt_mcp.backends.wrappers import judge_named
from skillopt_mcp.core.advice import BACKENDS
from skillopt_mcp.core.budgets import Caps
from skillopt_mcp.core.calls import Call, Reply, ask_next_to
from skillopt_mcp.core.candidates import GATE, Candidate, NewCandidate, candidate_id
from skillopt_mcp.core.errors import BackendError, BadInput, CapReached, NotFound, Refused, Waiting
from skillopt_mcp.core.evidence import Mean, Standing, TestReport, Verdict
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.redacting import KnownSecrets
from skillopt_mcp.core.results import MemoryOutcome, Replayed
from skillopt_mcp.core.runs import Run, RunStatus, StepRecord
from skillopt_mcp.core.skills import DocumentVersion, Skill, SkillFiles, is_memory, short
from skillopt_mcp.core.text import counted, quoted
from skillopt_mcp.core.tracing import span
from skillopt_mcp.gates.guard.capabilities import findings
from skillopt_mcp.gates.guard.evidence import keep_findings
from skillopt_mcp.gates.search import metric_value
from skillopt_mcp.prompts.loading import Prompts, load_prompts
from skillopt_mcp.store.files import is_locked
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.gating import measured
from skillopt_mcp.training.loop import train
from skillopt_mcp.training.plan import RunPlan
from skillopt_mcp.training.progress import Notify, pause_reporter, silent
from skillopt_mcp.training.promotion_test import Asked, Test, run_test, stored_test
from skillopt_mcp.workspace.answering import (
    Names,
    answering,
    backends_of,
    changed_since,
    check_unchanged,
    lock_of,
    note_answering,
)
from skillopt_mcp.workspace.costs import account, add_up
from skillopt_mcp.workspace.evidence import evidence_of, is_simulated
from skillopt_mcp.workspace.models import Models, check_caps
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.runs import ChangedBackend, describe_changes, planned, step_row, tasks_of
from skillopt_mcp.workspace.skill_folders import called
from skillopt_mcp.workspace.skills import check_merged
from skillopt_mcp.workspace.verdicts import report_of

TOPPED = "the current version scores 1.00 on the val tasks, so the gate accepts no candidate"
NO_BETTER = "no candidate did better than the live version on the val tasks"
T = TypeVar("T")
_RUN_ID = re.compile(r"r-[0-9a-f]{12}")
_NAMED = 5


def start_run(
    store: Store, models: Models, place: Place, skill: str, config: Config, prompts: Prompts | None = None,
    only: Collection[str] | None = None
) -> Run:  # fmt: skip
    """Return a new run of a skill, stored and frozen: config, prompts, tasks, sessions, base version and backends.

    It takes the tasks of these digests `only`, or all that are stored.
    """
    run = new_run(store, models, place, skill, config, prompts, only)
    begin(store, place.secrets, run)
    return run


def begin(store: Store, secrets: KnownSecrets, new: Run) -> None:
    """Store a new run. Raises BadInput for one that cannot be trained on."""
    planned(store, secrets, new)
    store.runs.add_run(new)


def new_run(
    store: Store, models: Models, place: Place, skill: str, config: Config, prompts: Prompts | None = None,
    only: Collection[str] | None = None
) -> Run:  # fmt: skip
    """Return a new run of a skill as `start_run` does, not yet stored. Raises Refused where git left a conflict."""
    tracked = place.recorded(skill)
    check_merged(store.skills.get_files(tracked.id, tracked.live_version))
    tasks = chosen_tasks(store, models, tracked, config, only)
    backends = models.ready_for(tasks, "optimizer")
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
        caps=models.caps,
        answering=(answering(backends),),
    )
    ordinal = store.runs.count_runs(tracked.id)
    return replace(draft, id="r-" + hashlib.sha256(f"{ordinal} {draft}".encode()).hexdigest()[:12])


def with_memory(store: Store, place: Place, new: Run, memory: str) -> Run:
    """A new run that trains a memory file, too, as its second document: after each step of the skill it has one.

    Raises BadInput when the two are not a skill and a memory file that fit into one folder.
    """
    skill, other = store.skills.get_skill(new.skill_id), place.skill(memory)
    if is_memory(skill.path) or not is_memory(other.path):
        raise BadInput(f"{quoted(skill.name)} must be a skill, {quoted(memory)} a memory file (CLAUDE.md, AGENTS.md)")
    files = store.skills.get_files(other.id, other.live_version)
    check_merged(files)
    if store.skills.get_files(skill.id, new.base_version).get(files.main_path):
        raise BadInput(f"the skill '{skill.name}' has a file with the name of the memory file: rename one of them")
    second = DocumentVersion(other.id, other.live_version)
    return replace(new, id="r-" + hashlib.sha256(f"{new.id} {second}".encode()).hexdigest()[:12], memory=second)


def unfinished_run(store: Store, place: Place, skill: str) -> Run:
    """Return the newest run of a skill that has not finished, or the one of this id. Raises NotFound without one."""
    if _RUN_ID.fullmatch(skill):
        run = store.runs.get_run(skill)
        if run.kind != "replay" or run.status == "finished":
            raise NotFound(f"run '{run.id}' has finished: skillopt-mcp show {run.id}")
        return run
    tracked = place.recorded(skill)
    if found := store.runs.find_unfinished(tracked.id):
        return found
    new = f"skillopt-mcp replay {called(store, tracked)} {BACKENDS}"
    raise NotFound(f"no run of '{tracked.name}' is unfinished: start one with '{new}'")


def last_finished(store: Store, new: Run, *, allow_changed: bool = False) -> Run | None:
    """Return the newest finished run that is frozen to the same as a new one, None without one."""
    return next(_list_alike(store, new, is_finished=True, allow_changed=allow_changed), None)


def furthest(store: Store, new: Run, *, allow_changed: bool) -> Run | None:
    """Return the unfinished run that a new one would continue: of several, the one that has sent most calls."""
    runs = _list_alike(store, new, is_finished=False, allow_changed=allow_changed)
    return max(runs, key=lambda run: store.budgets.get_spent(run.id).calls, default=None)


def left_changed(store: Store, new: Run) -> tuple[Run, list[ChangedBackend]] | None:
    """Return the newest unfinished run that differs by its backends' fingerprints alone, and how; None without one."""
    runs = _list_alike(store, new, is_finished=False, allow_changed=True)
    others = ((run, changed_since(store, run, new.answering[-1])) for run in runs)
    return next(((run, changed) for run, changed in others if changed), None)


def _list_alike(store: Store, new: Run, *, is_finished: bool, allow_changed: bool) -> Iterator[Run]:
    """Yield the runs that are frozen to the same things as a new one, newest first."""
    names = Names(new.target, new.optimizer, new.judge)
    for run_id in store.runs.list_alike(new, is_finished=is_finished):
        run = store.runs.get_run(run_id)
        if names.fit(run) and (allow_changed or not changed_since(store, run, new.answering[-1])):
            yield run


def describe_others_left(store: Store, run: Run) -> str:
    """Which other runs of the skill are unfinished, those that have sent most calls first; "" for none."""
    left = [
        (store.budgets.get_spent(each.id).calls, each.id)
        for each in store.runs.list_runs(run.skill_id)
        if each.kind == "replay" and each.id != run.id and each.status != "finished"
    ]
    named = [f"{run_id} ({counted(n, 'call')})" for n, run_id in sorted(left, reverse=True)]
    more = [f"{len(named) - _NAMED} more"] if len(named) > _NAMED else []
    return f"also unfinished: {', '.join([*named[:_NAMED], *more])}" if named else ""


def answered(outcome: T | Outstanding) -> T:
    """Return the outcome of work that no host answers for. Raises BackendError where one would have to."""
    if isinstance(outcome, Outstanding):
        raise BackendError("a host answers through the tools of a server alone: name another backend")
    return outcome


SEARCH_CAPPED = "the search ended at its cap, so that its promotion test could be paid"


def replay(
    store: Store, models: Models, place: Place, run: Run, notify: Notify = silent, *, allow_changed: bool = False
) -> Replayed:  # fmt: skip
    """Return the outcome of a run, trained from wherever it stopped, its best version confirmed on held-out tasks.

    It resumes under the caps that it was given last, replaced by those of the workspace. Raises Busy when it is locked,
    and Refused when it was frozen with other backends or, without `allow_changed`, one has another fingerprint now.
    When interrupted, or stopped at a cap or by an outage (Stopped), what was finished is kept.
    """
    skill = store.skills.get_skill(run.skill_id)
    if run.result:
        return Replayed.model_validate_json(run.result)
    backends = backends_of(store, models, run)
    lock = lock_of(store, run)
    status: RunStatus = "stopped"
    higher = store.runs.get_higher(run.id) if run.status == "stopped" else ""
    try:
        run = store.runs.get_run(run.id)
        if run.result:
            status = "finished"
            return Replayed.model_validate_json(run.result)
        if not allow_changed:
            check_unchanged(store, run, backends)
        try_programs(store, tasks_of(store, run))
        caps = caps_of(models.caps, run)
        check_caps(caps, backends)
        if caps != run.caps:
            store.runs.set_caps(run.id, caps)
        run = note_answering(store, run, backends)
        models.note_caller(run.id, tasks_of(store, run))
        store.runs.set_status(run.id, "running")
        higher = ""
        plan = planned(store, place.secrets, run)
        asker = functools.partial(
            Asker, store, concurrency=models.concurrency, on_reply=models.on_reply, on_pause=pause_reporter(notify)
        )
        price = price_of_run(store, models, run, tasks_of(store, run))
        kept_back = caps_of_search(store, models, caps, price) or caps

        def search(limits: Caps) -> Best:
            with asker(backends, run.id, budget=Budget(run.id, limits)) as ask:
                state = answered(
                    run_or_wait(ask, store, lambda: train(plan, store, ask, notify, stop_when_perfect=True))
                )
            return Best(state.best, state.best_score, state.best_other)

        def try_test(test: Test) -> Standing:
            backends = models.backends_for(test.tasks)
            budget = Budget(run.id, caps)
            models.note_caller(test.row.id, test.tasks)
            with only_here(store, test, notify), asker(backends, test.row.id, budget=budget) as ask:
                return answered(run_or_wait(ask, store, lambda: run_test(test, store, ask, notify)))

        with span("run", run=run.id, skill=skill.name):
            reason = ""
            try:
                best = search(kept_back)
            except CapReached:
                steps = store.runs.list_steps(run.id)
                if kept_back == caps:
                    raise
                if run.count_better(steps):
                    best, reason = _best_of(store, run), SEARCH_CAPPED
                else:  # there is nothing to test yet
                    best = search(caps)
            result = finish(store, models, place, run, plan, best, try_test)
            result = result.model_copy(update={"reason": result.reason or reason})
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


def caps_of(caps: Caps, run: Run) -> Caps:
    """Return the caps that a run resumes under: those that it was given last, replaced by the workspace's."""
    return run.caps.replace_given(caps)


def run_reach(store: Store, models: Models, secrets: KnownSecrets, run: Run) -> str:
    """Whether the caps of a run reach a verdict, by what it has spent; "" without caps, or without held-out tasks."""
    spent = store.budgets.get_spent(run.id)
    price = price_of_run(store, models, run, tasks_of(store, run))
    n_done = sum(map(store.tests.count_attempts, store.runs.list_finishes(run.id)))
    if not run.count_better(store.runs.list_steps(run.id)):
        # The search has to find a better version first, after the live one on the val tasks.
        spent = spent._replace(calls=1 + max(spent.calls, len(planned(store, secrets, run).val)))
    left = price._replace(n_runs=max(0, price.n_runs - n_done))
    return describe_reach(store, models, caps_of(models.caps, run), left, spent)


class Best(NamedTuple):
    """The best version of a search, and its score on val; with a memory file, the best pair."""

    files: SkillFiles
    score: float
    memory: SkillFiles | None = None


def _best_of(store: Store, run: Run) -> Best:
    """The best version of the finished steps of a run, of which there are some."""
    last, skills = store.runs.list_steps(run.id)[-1], store.skills
    memory = skills.get_files(run.memory.skill_id, last.best_memory) if run.memory and last.best_memory else None
    return Best(skills.get_files(run.skill_id, last.best_version), last.best, memory)


def _made_of(plan: RunPlan, best: Best) -> list[tuple[RunPlan, SkillFiles]]:
    """Each document of a run, as a plan of its own, with its best version: the skill, then the memory file."""
    return [(plan, best.files), *([(plan.turned(), best.memory)] if best.memory else [])]


def finish(
    store: Store,
    models: Models,
    place: Place,
    run: Run,
    plan: RunPlan,
    best: Best,
    try_test: Callable[[Test], Standing],
) -> Replayed:
    """Return the outcome: the best version becomes a candidate, and the promotion gate looks at it once.

    A memory file is looked at after the skill, with that as its own gate left it.
    """
    proven = [
        (document, *_prove(store, models, place, run, document, (files, best.score), try_test))
        for document, files in _made_of(plan, best)
    ]
    result, *of_memory = [replayed(store, models, place, run, *each) for each in proven]
    for each in of_memory:
        own = MemoryOutcome.model_validate(each.model_dump(include=set(MemoryOutcome.model_fields)))
        is_open = result.next_step is None or result.next_step.action == "inspect"
        result = result.model_copy(update={"memory": own, "next_step": each.next_step if is_open else result.next_step})
    return result


def _prove(
    store: Store,
    models: Models,
    place: Place,
    run: Run,
    plan: RunPlan,
    best: tuple[SkillFiles, float],
    try_test: Callable[[Test], Standing],
) -> tuple[Candidate | None, TestReport | str]:
    """The candidate that a run made of one of its documents, None without one, and its test, or why there is none."""
    skill = store.skills.get_skill(plan.skill_id)
    if best[0] == plan.base:
        own = plan.skill_id == run.skill_id
        return None, why_none([step for step in store.runs.list_steps(run.id) if (step.kind != "memory") == own])
    # Another run, or a host, may have made the same candidate before, and without the other document.
    made = replace(_candidate(store, place.secrets, run, plan, best), run_id=run.id)
    decided = store.decisions.latest(skill.id, GATE, made.base_version, made.version_id)
    if not decided and (moved := _describe_moved(place, skill, made)):
        return made, f"it was not tested, as it could not be promoted: {moved}"
    asked = Asked(graded=plan.config.metric == "soft")
    try:
        held = tasks_to_test(store, models, run.skill_id, tasks_of(store, run))
    except (BadInput, Refused) as error:
        return made, str(error)
    # The test that the run began before it stopped goes on.
    begun = [row for test_id in store.runs.list_finishes(run.id) if (row := store.tests.find(test_id))]
    of_run = next((stored_test(store, row) for row in reversed(begun) if row.version_id == made.version_id), None)
    if not of_run and plan.other and (trouble := place.trouble(store.skills.get_skill(plan.other_id))):
        return made, f"it was not tested, as the other document of the run is missing: {trouble}"
    test = of_run or current_test(store, models, place, made, asked, among=held)
    if test.foreseen:
        test = opened(store, models, place, made, asked, held)
    # A process may die between the verdict and the end of its run: its test is not another one then.
    store.runs.add_finish(run.id, test.row.id)
    return made, report_of(store, test, try_test(test))


def best_candidate(store: Store, secrets: KnownSecrets, run_id: str) -> Candidate:
    """Return the best version of a run, finished or not, as a candidate. Raises NotFound, BadInput without one.

    Of a run with a memory file it is that of the skill, and once this is decided, or not better, that of the file.
    """
    run = store.runs.get_run(run_id)
    if run.kind != "replay" or not run.count_better(store.runs.list_steps(run_id)):
        raise BadInput(f"run '{run_id}' has no version that is better than its base: there is nothing to test")
    best = _best_of(store, run)
    made = [
        _candidate(store, secrets, run, plan, (files, best.score))
        for plan, files in _made_of(planned(store, secrets, run), best) if files != plan.base
    ]  # fmt: skip
    latest = store.decisions.latest
    return next((c for c in made if not latest(c.skill_id, GATE, c.base_version, c.version_id)), made[0])


def _candidate(
    store: Store, secrets: KnownSecrets, run: Run, plan: RunPlan, best: tuple[SkillFiles, float]
) -> Candidate:
    # The candidates of the accepted steps that led to this version, oldest first.
    files, score = best
    accepted, version = list[Candidate](), files.digest
    for step in reversed(store.runs.list_steps(run.id)):
        if step.candidate_id and step.candidate_version == version and step.verdict in ("accept", "accept_best"):
            accepted.insert(0, store.candidates.get_candidate(step.candidate_id))
            version = step.parent_version
    held = [finding for each in accepted for finding in keep_findings(each.findings)]
    made = Candidate(
        id=candidate_id(plan.skill_id, plan.base.digest, files.digest),
        skill_id=plan.skill_id,
        base_version=plan.base.digest,
        version_id=files.digest,
        origin="run",
        reasoning="; ".join([*(each.reasoning for each in accepted), f"best version of {run.id}, {score:.2f} on val"]),
        findings=(*findings(plan.base, files, secrets), *dict.fromkeys(held)),
        run_id=run.id,
    )
    return store.candidates.add_candidate(NewCandidate(made, files))


def _describe_moved(place: Place, skill: Skill, made: Candidate) -> str:
    """How what is live differs from what a run began with, "" where it does not, or is what the run made of it."""
    if trouble := place.trouble(skill):
        return trouble
    live = place.again(skill).live_version
    if live in (made.base_version, made.version_id):
        return ""
    began = short(made.base_version)
    return f"the live file of '{skill.name}' is version {short(live)} now, the run began with {began}"


def replayed(
    store: Store,
    models: Models,
    place: Place,
    run: Run,
    plan: RunPlan,
    made: Candidate | None,
    outcome: TestReport | str,
) -> Replayed:
    """What became of the document of a plan; `outcome` is what its promotion test found, or why there was none."""
    test, skill = None if isinstance(outcome, str) else outcome, store.skills.get_skill(plan.skill_id)
    used = account(store, run.id)
    own, tests = add_up(used.own), used.of_tests
    steps, config = store.runs.list_steps(run.id), Config.of_run(run.config)
    start = steps[0].baseline if steps else stored_baseline(store, models, place.secrets, run)
    return Replayed(
        run_id=run.id,
        skill=skill.name,
        status="finished",
        steps=[step_row(step) for step in steps],
        best_version=short(made.version_id if made else plan.base.digest),
        candidate_id=made.id if made else None,
        verdict=test.verdict if test else None,
        accepted=test.accepted if test else None,
        reason=outcome if isinstance(outcome, str) else "",
        test=test,
        n_calls=own.n_calls,
        n_missing=own.n_missing,
        tokens_in=own.tokens_in,
        tokens_out=own.tokens_out,
        usd=own.usd,
        n_test_calls=tests.n_calls,
        test_tokens=tests.tokens_in + tests.tokens_out,
        test_usd=tests.usd if used.tests else None,
        backend=run.target,
        changes=describe_changes(run),
        metric=config.metric,
        baseline=metric_value(start, config.metric, config.mixed_weight) if start else None,
        baseline_hard=start.hard if start else None,
        baseline_soft=start.soft if start else None,
        simulated=is_simulated(evidence_of(models.backends_for(tasks_of(store, run), "optimizer"))),
        next_step=_next_step(store, place, run, skill, made, test.verdict if test else None),
    )


def why_none(steps: Sequence[StepRecord]) -> str:
    """Why no version of a run is better than its base: it may never have made one, or never measured one."""
    if not steps:
        return TOPPED
    if any(step.candidate is not None for step in steps):
        return NO_BETTER
    notes = [note for step in steps for note in (*step.unusable, *step.unmatched)]
    if notes:
        said = "1 reply or edit was" if len(notes) == 1 else f"{len(notes)} replies or edits were"
        return f"no candidate was ever made: {said} unusable, the first so: {notes[0].rstrip('.')}"
    return "no candidate was ever made: the optimizer proposed nothing that changes the skill"


def stored_baseline(store: Store, models: Models, secrets: KnownSecrets, run: Run) -> Mean | None:
    """What the base version scored by the replies in the store, asking no model; None without all of them."""
    backends = models.backends_for(tasks_of(store, run), "optimizer")

    def ask(calls: Sequence[Call], /) -> list[Reply]:
        keys = [call.key(backends[call.role].fingerprint) for call in calls]
        replies = store.calls.get_replies(keys)
        if len(replies) < len(set(keys)):
            raise Waiting(len(set(keys)) - len(replies))
        return [replies[key] for key in keys]

    plan = planned(store, secrets, run)
    try:
        mean = measured(plan, ask_next_to(ask, plan.other), plan.base, is_current=True).mean
    except Waiting:
        return None
    return mean if mean.n else None


def _next_step(
    store: Store, place: Place, run: Run, skill: Skill, made: Candidate | None, verdict: Verdict | None
) -> NextStep:
    """What to do after a run with its best version, which may have been promoted before the run ended."""
    if made is None:
        return NextStep(action="inspect", arguments={"id": run.id}, why="nothing to promote")
    changes = store.promotions.list_promotions(made.skill_id)
    if any(change.to_version == made.version_id for change in changes):
        return NextStep(action="inspect", arguments={"id": made.id}, why="the best version was promoted before")
    arguments: dict[str, JsonValue] = {"candidate_id": made.id}
    decided = store.decisions.latest(made.skill_id, GATE, made.base_version, made.version_id)
    is_accepted = "better" in (verdict, decided.verdict if decided else None)
    if (is_accepted or verdict is None) and (moved := _describe_moved(place, skill, made)):
        return NextStep(action="evaluate_candidate", arguments={**arguments, "rebase": True}, why=moved)
    if is_accepted:
        apart = find_apart(store, made)
        return apart[1] if apart else NextStep(action="promote_skill", arguments=arguments, why="accepted")
    why = "its best version was not accepted" if verdict else "nothing to promote"
    return NextStep(action="inspect", arguments={"id": run.id}, why=why)


def describe_running(store: Store, place: Place, name: str) -> str:
    """Which run of the skill another process advances, as a new run repeats its calls; "" for none."""
    for run_id, started_at in store.runs.list_running(place.recorded(name).id):
        if is_locked(store.locks_path, run_id):
            since = f"is running since {started_at[:16]}Z"
            return f"run {run_id} of this skill {since}; a new run pays for all of its own calls"
    return ""
