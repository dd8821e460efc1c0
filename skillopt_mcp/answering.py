"""Answering: which backends answer in a run, and what has changed of them since it began."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from skillopt_mcp import __version__
from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.registry import is_spec, without_options
from skillopt_mcp.calls.owners import Lock, lock_run
from skillopt_mcp.environments.registry import environment_names
from skillopt_mcp.errors import Busy, Refused
from skillopt_mcp.evidence import judge_named, shown_origin
from skillopt_mcp.records.calls import (
    Role,
)
from skillopt_mcp.records.runs import Answering, Run
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.workspace import Workspace

ALLOWED = "--allow-changed"


def answering(backends: Mapping[Role, Backend], after: int = 0) -> Answering:
    """Return who answers in a run from now on, when so many of its steps are finished."""
    return Answering(after, {role: backend.fingerprint for role, backend in sorted(backends.items())}, __version__)


def tasks_of(workspace: Workspace, run: Run) -> list[Task]:
    """Return the tasks that a run was frozen with, in the order in which they were added."""
    frozen = set(run.tasks)
    return [task for task in workspace.store.tasks.list_tasks(run.skill_id) if task.id in frozen]


def run_backends(workspace: Workspace, run: Run) -> dict[Role, Backend]:
    """Return who would answer in a run, as the backends are named now. Raises BackendError when one is not."""
    return workspace.backends_for(tasks_of(workspace, run)) | {"optimizer": workspace.backend("optimizer")}


class Names(NamedTuple):
    """How target, optimizer and judge model of a run are spelled; an empty judge is none."""

    target: str
    optimizer: str
    judge: str


def are_of(run: Run, names: Names) -> bool:
    """Return whether a run may go on with backends of these names: the same models, however they are asked.

    Whether one that is asked otherwise is another one, fingerprints tell, where those of the run are known.
    """
    started = Names(run.target, run.optimizer, run.judge)
    return all(without_options(one) == without_options(other) for one, other in zip(started, names, strict=True))


def backends_of(workspace: Workspace, run: Run) -> dict[Role, Backend]:
    """Return who answers in a run, however they are spelled. Raises Refused when it was begun with other models."""
    backends = run_backends(workspace, run)
    if not are_of(run, _names(backends)):
        judge = f" and judge '{run.judge}'" if run.judge else ""
        raise Refused(
            f"run '{run.id}' was begun with target '{run.target}' and optimizer '{run.optimizer}'{judge}: "
            "resume it with these"
        )
    return backends


class Changed(NamedTuple):
    """A role that is answered otherwise than before, by the fingerprints of its backends."""

    role: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"the {self.role} was '{self.before}' and is '{self.now}' now"


def changes(before: Answering, now: Answering) -> list[Changed]:
    """Return the roles that others answer for now."""
    roles = sorted(before.fingerprints.keys() | now.fingerprints.keys())
    told = (Changed(role, *(_told(each, role) for each in (before, now))) for role in roles)
    return [each for each in told if each.before != each.now]


def changed_since(workspace: Workspace, run: Run, now: Answering) -> list[Changed]:
    """Return the roles that others answer for now than in the run so far; none where that is not known.

    Whoever answered before the last change is no other until a step was finished after it: nothing of it stays.
    """
    others = changes(run.answering[-1], now)
    if not others or run.status == "finished":
        return others
    return others if changes(_lasting(workspace, run)[-1], now) else []


def describe_changes(run: Run) -> list[str]:
    """Return in words who came to answer otherwise in the midst of a run, and after which of its steps."""
    return [
        f"{_when(now.after)}, the {each.role} changed from '{each.before}' to '{each.now}'"
        for before, now in pairwise(run.answering)
        for each in changes(before, now)
    ]


def check_unchanged(
    workspace: Workspace,
    run: Run,
    backends: Mapping[Role, Backend],
    way: str = f"the same command with --resume {ALLOWED}",
) -> None:
    """Raise Refused when others answer than the run was answered by so far; `way` is how a person allows that."""
    others = changed_since(workspace, run, answering(backends))
    if others:
        on = (
            "take its outcome as it is" if run.status == "finished"
            else "go on all the same, with its current and its best version measured anew"
        )  # fmt: skip
        raise Refused(f"{describe_changed(run, others)}: begin anew with the command that began it, or {on}: {way}")


def describe_changed(run: Run, others: Iterable[Changed]) -> str:
    """Return that others answer now than in the run so far."""
    return f"run '{run.id}' began with another model, or another state of it: {'; '.join(map(str, others))}"


def lock_of(workspace: Workspace, run: Run) -> Lock:
    """Return the held lock of a run. Raises Busy when somebody else holds it."""
    lock = lock_run(workspace.store.locks_path, run.id)
    if lock is None:
        raise Busy(
            f"another process, or another thread of this one, is advancing run '{run.id}': wait for it, or stop it"
        )
    return lock


def note_answering(workspace: Workspace, run: Run, backends: Mapping[Role, Backend]) -> Run:
    """Return a run once it is noted who answers from now on, where these are others, or nobody knows; its lock is held.

    How they are spelled now takes the place of how they were. Nothing that was answered by another serves then: the
    current and the best version are measured anew. Of others that came and went without a finished step nothing is
    kept.
    """
    runs = workspace.store.runs
    lasting = _lasting(workspace, run)
    now = answering(backends, len(runs.list_steps(run.id)))
    noted = lasting if lasting and not changes(lasting[-1], now) else (*lasting, now)
    if noted != run.answering:
        runs.set_answering(run.id, noted)
    names = _names(backends)
    if names != (run.target, run.optimizer, run.judge):
        runs.set_backends(run.id, *names)
    return replace(run, answering=noted, **names._asdict())


def _names(backends: Mapping[Role, Backend]) -> Names:
    return Names(backends["target"].name, backends["optimizer"].name, judge_named(backends))


def _lasting(workspace: Workspace, run: Run) -> tuple[Answering, ...]:
    """Return who answered in finished steps of a run, after whoever was the first, the latest last."""
    n_steps = len(workspace.store.runs.list_steps(run.id)) if len(run.answering) > 1 else 0
    return run.answering[:1] + tuple(each for each in run.answering[1:] if each.after < n_steps)


def _told(who: Answering, role: str) -> str:
    return shown_origin(who.fingerprints.get(role, "nobody"))


def _when(after: int) -> str:
    return f"after step {after}" if after else "before its first step"


def told_own(run: Run) -> str:
    """Return how a run goes on that a program began with a backend of its own; empty where a command can name all."""
    own = next((name for name in (run.target, run.optimizer, run.judge) if name and not _can_be_named(name)), "")
    if not own:
        return ""
    return (
        f"{run.id} was begun by a program with a backend of its own ('{own}'): call train(...) again with the same "
        "arguments"
    )


def _can_be_named(backend: str) -> bool:
    name, _, rest = backend.strip().partition(":")
    return is_spec(backend) and (name != "env" or rest.partition(":")[0] in environment_names())
