"""Runs: what one was frozen to, the rows of its steps, and how it goes on; no backend is loaded for that."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import NamedTuple

from skillopt_mcp.core.advice import advise_resume
from skillopt_mcp.core.budgets import Cost
from skillopt_mcp.core.calls import Call, Rollout
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.notes import describe_note, note_unanswered
from skillopt_mcp.core.redacting import KnownSecrets
from skillopt_mcp.core.results import StepRow
from skillopt_mcp.core.runs import Answering, Run, StepRecord
from skillopt_mcp.core.skills import Skill
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.prompts.loading import Prompts, load_prompts, parse_prompts
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.environments.registry import environment_names
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.plan import RunPlan, check_splits, search_splits
from skillopt_mcp.workspace.costs import add_up
from skillopt_mcp.workspace.evidence import is_host, shown_origin
from skillopt_mcp.workspace.leases import describe_leases
from skillopt_mcp.workspace.skill_folders import quote_handle


def tasks_of(store: Store, run: Run) -> list[Task]:
    """Return the tasks that a run was frozen with, in the order in which they were added."""
    frozen = set(run.tasks)
    return [task for task in store.tasks.list_tasks(run.skill_id) if task.id in frozen]


def draft_run(
    skill: Skill, config: Config, tasks: Sequence[Task], sessions: Sequence[int], prompts: Prompts | None = None
) -> Run:
    """A run of the live version that is frozen to these, not stored; it has no id yet, and names no backends."""
    return Run(
        id="",
        skill_id=skill.id,
        base_version=skill.live_version,
        config=config.model_dump_json(),
        prompts=json.dumps(asdict(prompts or load_prompts())),
        tasks=tuple(task.id for task in tasks),
        sessions=tuple(sessions),
        target="",
        optimizer="",
        status="running",
    )


def make_plan(store: Store, secrets: KnownSecrets, run: Run) -> RunPlan:
    """Return the plan that a run was frozen to. Raises BadInput when it cannot be trained on."""
    by_id = {task.id: task for task in store.tasks.list_tasks(run.skill_id)}
    tasks = [by_id[task_id] for task_id in run.tasks]
    config = Config.of_run(run.config)
    train_tasks, val_tasks = search_splits(tasks, config) if run.kind == "replay" else (tuple(tasks), ())
    found = (store.trajectories.get_trajectory(trajectory_id) for trajectory_id in run.sessions)
    plan = RunPlan(
        run_id=run.id,
        skill_id=run.skill_id,
        base=store.skills.get_files(run.skill_id, run.base_version),
        config=config,
        prompts=parse_prompts(run.prompts),
        train=train_tasks,
        val=val_tasks,
        sessions=tuple(each[1] for each in found if each),
        note=run.note,
        known=secrets,
        other_id=run.memory.skill_id if run.memory else 0,
        other=store.skills.get_files(*run.memory) if run.memory else None,
    )
    if run.kind == "replay":
        check_splits(plan)
    return plan


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
        at_most=step.at_most,
    )


def resume_step(store: Store, run: Run) -> NextStep | None:
    """How to go on with a run; None when it is over, or cannot be resumed."""
    skill = store.skills.get_skill(run.skill_id)
    name = shlex.split(quote_handle(store, skill))[0]
    if run.kind == "replay":
        if run.status == "finished" or describe_own_backend(run):
            return None
        # A run that stopped at a cap has reported by which options its next call is within them.
        higher = store.runs.get_higher(run.id)
        words = (higher or run.caps.raise_above(store.budgets.get_spent(run.id).plus(*Cost())).options).split()
        caps = {option[2:].replace("-", "_"): value for option, value in zip(words[::2], words[1::2], strict=True)}
        return advise_resume(name, run.id, caps)
    if run.status != "running" or run.base_version != skill.live_version:
        return None
    if not any(map(is_host, (run.target, run.optimizer, run.judge))):
        return NextStep(action="propose_edits", arguments={"skill": name}, why=f"{run.id} goes on")
    why = describe_leases(store, run.id) or "nothing is handed out yet"
    return NextStep(action="submit_work", arguments={"job_id": run.id}, why=why)


def find_attempted(
    store: Store, run: Run, plan: RunPlan, target: str, in_baseline: Mapping[int, str]
) -> dict[int, str]:
    """The draws of attempts at a plan's tasks on the same text that a run need not make, by task id.

    They are those `in_baseline`, of which it has none of its own, and those of earlier proposals. `target` is the
    fingerprint of who attempts them.
    """

    def answered(tasks: Sequence[Task], draw: str) -> set[int]:
        keys = {task.id: Call("target", "rollout", Rollout(plan.base, task), draw).key(target) for task in tasks}
        replies = store.calls.get_replies([*keys.values()])
        return {id for id, key in keys.items() if (reply := replies.get(key)) and not reply.missing}

    own = answered(plan.train, run.id)  # a baseline may have been measured since the run began
    draws = {id: draw for id, draw in in_baseline.items() if id not in own}
    for earlier in store.runs.list_runs(run.skill_id):
        if earlier.id == run.id:
            break
        if earlier.kind == "proposal" and earlier.base_version == run.base_version:
            asked = [task for task in plan.train if task.id in earlier.tasks and task.id not in draws]
            draws |= dict.fromkeys(answered(asked, earlier.id), earlier.id)
    return draws


def asks_host_first(run: Run) -> bool:
    """Whether a host has the first calls of a proposal: attempts come before any question on them."""
    return is_host(run.target if run.tasks else run.optimizer)


def list_erased(store: Store, run: Run) -> frozenset[int]:
    """Those of a run's recorded attempts that were erased."""
    return frozenset(store.table(Erasing).find_erased(run.sessions))


def describe_unanswered(store: Store, run: Run) -> list[str]:
    """Why calls of a run stayed without an answer, a sentence each."""
    return [describe_note(each) for each in note_unanswered(store.calls.count_faults(run.id))]


def is_lost(store: Store, run: Run) -> bool:
    """Whether every analyst that a proposal asked stayed without an answer."""
    asked = add_up([row for row in store.ledger.list_rows(run.id) if row.stage == "reflect"])
    return 0 < asked.n_missing == asked.n_calls - asked.n_again


def describe_own_backend(run: Run) -> str:
    """How to resume a run that a program began with its own backend; "" where a command can name them all."""
    from skillopt_mcp.backends.registry import is_spec  # noqa: PLC0415

    for own in filter(None, (run.target, run.optimizer, run.judge)):
        name, _, rest = own.strip().partition(":")
        if not is_spec(own) or (name == "env" and rest.partition(":")[0] not in environment_names()):
            return f"{run.id} uses a program's own backend ('{own}'): call train(...) again with the same arguments"
    return ""


class ChangedBackend(NamedTuple):
    """A role whose backend has another fingerprint than before."""

    role: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"the {self.role} was '{self.before}' and is '{self.now}' now"


def list_changes(before: Answering, now: Answering) -> list[ChangedBackend]:
    """Return the roles whose backends have changed."""
    roles = sorted(before.fingerprints.keys() | now.fingerprints.keys())
    origins = [[shown_origin(each.fingerprints.get(role, "none")) for each in (before, now)] for role in roles]
    return [ChangedBackend(role, *pair) for role, pair in zip(roles, origins, strict=True) if pair[0] != pair[1]]


def describe_changed(run: Run, others: Iterable[ChangedBackend]) -> str:
    """The notice that backends have changed since a run began."""
    return f"run '{run.id}' began with another model, or another state of it: {'; '.join(map(str, others))}"


def describe_changes(run: Run) -> list[str]:
    """Which backends changed during a run, and after which of its steps."""
    return [
        f"{f'after step {now.after}' if now.after else 'before its first step'}, the {each.role} changed from "
        f"'{each.before}' to '{each.now}'"
        for before, now in pairwise(run.answering)
        for each in list_changes(before, now)
    ]
