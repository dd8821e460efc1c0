"""Runs: which one is new, unfinished, or frozen to the same as another; how far its caps reach."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from skillopt_mcp.actions.forecasts import describe_reach, price_of_run
from skillopt_mcp.core.advice import BACKENDS
from skillopt_mcp.core.calls import Role
from skillopt_mcp.core.errors import BadInput, NotFound
from skillopt_mcp.core.redacting import KnownSecrets
from skillopt_mcp.core.runs import Run
from skillopt_mcp.core.skills import DocumentVersion, Skill, is_memory
from skillopt_mcp.core.tasks import SPLITS, Task
from skillopt_mcp.core.text import counted, quoted
from skillopt_mcp.prompts.loading import Prompts
from skillopt_mcp.store.files import is_locked
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.splits import stratified
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.models import Models, Names, identify
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.runs import describe_changed, draft_run, make_plan, tasks_of
from skillopt_mcp.workspace.skill_folders import quote_handle
from skillopt_mcp.workspace.skills import check_merged

_RUN_ID = re.compile(r"r-[0-9a-f]{12}")
_NAMED = 5


def start_run(store: Store, models: Models, place: Place, skill: str, config: Config) -> Run:
    """A new run of a skill, stored and frozen: config, prompts, tasks, sessions, base version and backends."""
    run = new_run(store, models, place, skill, config)
    begin(store, place.secrets, run)
    return run


def begin(store: Store, secrets: KnownSecrets, new: Run) -> None:
    """Store a new run. Raises BadInput for one that cannot be trained on."""
    make_plan(store, secrets, new)
    store.runs.add_run(new)


def new_run(
    store: Store, models: Models, place: Place, skill: str, config: Config, prompts: Prompts | None = None,
    only: Collection[str] | None = None
) -> Run:  # fmt: skip
    """A new run of a skill as `start_run` makes it, not yet stored. Raises Refused where git left a conflict.

    It takes the tasks of these digests `only`, or all that are stored.
    """
    tracked = place.find_recorded(skill)
    check_merged(store.skills.get_files(tracked.id, tracked.live_version))
    tasks = chosen_tasks(models, tracked, config, only)
    backends = models.ready_for(tasks, "optimizer")
    sessions = store.trajectories.recent_trajectories(tracked.id, config.sessions)
    draft = replace(
        draft_run(tracked, config, tasks, sessions, prompts),
        **Names.of(backends)._asdict(),
        note=store.runs.note_of_skill(tracked.id) if config.meta_skill else "",
        caps=models.caps,
        answering=(identify(backends),),
    )
    ordinal = len(store.runs.list_runs(tracked.id))
    return replace(draft, id="r-" + hashlib.sha256(f"{ordinal} {draft}".encode()).hexdigest()[:12])


def chosen_tasks(models: Models, skill: Skill, config: Config, only: Collection[str] | None = None) -> list[Task]:
    """The tasks of a run, in the order they were added; a limit keeps each kind (the first tag) in its share.

    With `only`, digests of tasks, it takes no others. Raises BackendError when no target is set.
    """
    found = [task for task in models.list_tasks(skill.id) if only is None or task.digest in only]
    if not found and (left_out := models.describe_left_out(skill.id)):
        raise BadInput(f"'{skill.name}' has no task to train on: {left_out}")
    kept, limits = set[int](), (config.limit_train, config.limit_val, config.limit_test)
    for split, limit in zip(SPLITS, limits, strict=True):
        # By content, so that the same tasks are chosen in whatever order they were added.
        own = sorted((task for task in found if task.split == split), key=lambda task: task.digest)
        kinds = [task.tags[0] if task.tags else "" for task in own]
        kept |= {own[at].id for at in stratified(kinds, limit or len(own), f"limit {split} {config.seed}")}
    return [task for task in found if task.id in kept]


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
    tracked = place.find_recorded(skill)
    for run in reversed(store.runs.list_runs(tracked.id)):
        if run.kind == "replay" and run.status != "finished":
            return run
    new = f"skillopt-mcp replay {quote_handle(store, tracked)} {BACKENDS}"
    raise NotFound(f"no run of '{tracked.name}' is unfinished: start one with '{new}'")


def find_alike(
    store: Store, models: Models, new: Run, *, is_finished: bool = False, allow_changed: bool = False
) -> Run | None:
    """The run frozen to the same as a new one: the newest finished one, or the unfinished one with most calls sent."""
    names, runs = Names(new.target, new.optimizer, new.judge), list[Run]()
    for run_id in store.runs.list_alike(new, is_finished=is_finished):  # the newest first
        run = store.runs.get_run(run_id)
        if names.fit(run) and (allow_changed or not models.list_changed(run, new.answering[-1])):
            runs.append(run)
    if is_finished:
        return next(iter(runs), None)
    return max(runs, key=lambda run: store.budgets.get_spent(run.id).calls, default=None)


def describe_left_changed(store: Store, models: Models, new: Run) -> str:
    """Which newest unfinished run differs from a new one by its backends' fingerprints alone; "" for none."""
    names = Names(new.target, new.optimizer, new.judge)
    for run_id in store.runs.list_alike(new, is_finished=False):
        run = store.runs.get_run(run_id)
        if names.fit(run) and (changed := models.list_changed(run, new.answering[-1])):
            return describe_changed(run, changed)
    return ""


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


def list_lacking(models: Models, config: Config) -> Iterator[str]:
    """Yield which stages that a run may come to a script of replies lacks."""
    ends = ["slow_update"] * config.slow_update + ["meta_skill"] * config.meta_skill
    of_optimizer = ["reflect", "merge", "rank", *(ends if config.epochs > 1 else [])]
    of_optimizer += ["budget"] * (config.schedule == "autonomous") + ["rewrite"] * (
        config.update_mode == "rewrite_from_suggestions"
    )
    stages: dict[Role, list[str]] = {"target": ["rollout"], "optimizer": of_optimizer, "judge": ["judge"]}
    for role, wanted in stages.items():
        backend = models.backend(role) if models.has_backend(role) else None
        there = getattr(backend, "stages", None)
        if backend and there is not None and (lacking := [name for name in wanted if name not in there]):
            yield f"{backend.name} has no reply for {', '.join(lacking)}: a run that comes to one of these stops there."


def run_reach(store: Store, models: Models, secrets: KnownSecrets, run: Run) -> str:
    """Whether the caps of a run reach a verdict, by what it has spent; "" without caps, or without held-out tasks."""
    spent = store.budgets.get_spent(run.id)
    price = price_of_run(store, models, run, tasks_of(store, run))
    n_done = sum(map(store.tests.count_attempts, store.runs.list_finishes(run.id)))
    if not run.count_better(store.runs.list_steps(run.id)):
        # The search has to find a better version first, after the live one on the val tasks.
        spent = spent._replace(calls=1 + max(spent.calls, len(make_plan(store, secrets, run).val)))
    left = price._replace(n_runs=max(0, price.n_runs - n_done))
    return describe_reach(store, models, models.caps_of(run), left, spent)


def describe_running(store: Store, place: Place, name: str) -> str:
    """Which run of the skill another process advances, as a new run repeats its calls; "" for none."""
    for run_id, started_at in store.runs.list_running(place.find_recorded(name).id):
        if is_locked(store.locks_path, run_id):
            since = f"is running since {started_at[:16]}Z"
            return f"run {run_id} of this skill {since}; a new run pays for all of its own calls"
    return ""
