"""Answering: which backends answer in a run, and what has changed of them since it began."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from skillopt_mcp import __version__
from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.registry import without_options
from skillopt_mcp.backends.wrappers import judge_named
from skillopt_mcp.core.calls import Role
from skillopt_mcp.core.errors import Busy, Refused
from skillopt_mcp.core.runs import Answering, Run
from skillopt_mcp.store.files import Lock, lock_run
from skillopt_mcp.store.opening import Store
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.runs import ChangedBackend, changes, tasks_of

ALLOWED = "--allow-changed"


def answering(backends: Mapping[Role, Backend], after: int = 0) -> Answering:
    """Who answers in a run from now on, when so many of its steps are finished."""
    return Answering(after, {role: backend.fingerprint for role, backend in sorted(backends.items())}, __version__)


class Names(NamedTuple):
    """How target, optimizer and judge model of a run are spelled; the judge is empty where none is needed."""

    target: str
    optimizer: str
    judge: str

    @classmethod
    def of(cls, backends: Mapping[Role, Backend]) -> Names:
        """Return the names of backends."""
        return cls(backends["target"].name, backends["optimizer"].name, judge_named(backends))

    def fit(self, run: Run) -> bool:
        """Whether a run was begun with the same models, however they are asked; fingerprints show the rest."""
        begun = (run.target, run.optimizer, run.judge)
        return all(without_options(one) == without_options(other) for one, other in zip(begun, self, strict=True))


def backends_of(store: Store, models: Models, run: Run) -> dict[Role, Backend]:
    """Return the backends that answer in a run. Raises Refused when it was begun with other models."""
    backends = models.backends_for(tasks_of(store, run), "optimizer")
    if not Names.of(backends).fit(run):
        judge = f" and judge '{run.judge}'" if run.judge else ""
        raise Refused(
            f"run '{run.id}' has target '{run.target}' and optimizer '{run.optimizer}'{judge}: resume it with these"
        )
    return backends


def changed_since(store: Store, run: Run, now: Answering) -> list[ChangedBackend]:
    """Return the roles whose backends have changed since the run so far.

    A change after which no step was finished does not count: nothing of it stays.
    """
    others = changes(run.answering[-1], now)
    if not others or run.status == "finished":
        return others
    return others if changes(_list_lasting(store, run)[-1], now) else []


def check_unchanged(
    store: Store, run: Run, backends: Mapping[Role, Backend],
    command: str = f"the same command with --resume {ALLOWED}"
) -> None:  # fmt: skip
    """Raise Refused when a backend of a run has changed; `command` is how a person allows that."""
    if others := changed_since(store, run, answering(backends)):
        then = "take its outcome as it is" if run.status == "finished" else "continue it and measure its versions again"
        raise Refused(f"{describe_changed(run, others)}: start a new run, or {then}: {command}")


def describe_changed(run: Run, others: Iterable[ChangedBackend]) -> str:
    """The notice that backends have changed since a run began."""
    return f"run '{run.id}' began with another model, or another state of it: {'; '.join(map(str, others))}"


def lock_of(store: Store, run: Run) -> Lock:
    """Return the held lock of a run. Raises Busy when another process or thread holds it."""
    lock = lock_run(store.locks_path, run.id)
    if lock is None:
        raise Busy(f"run '{run.id}' is locked by another process or thread: wait for it, or stop it")
    return lock


def note_answering(store: Store, run: Run, backends: Mapping[Role, Backend]) -> Run:
    """Return a run whose lock is held, once it is stored who answers from now on, and how these are spelled.

    After a change no answer of before is used: the current and the best version are measured again. Changes without a
    finished step after them are forgotten.
    """
    runs = store.runs
    lasting = _list_lasting(store, run)
    now = answering(backends, len(runs.list_steps(run.id)))
    noted = lasting if not changes(lasting[-1], now) else (*lasting, now)
    if noted != run.answering:
        runs.set_answering(run.id, noted)
    names = Names.of(backends)
    if names != (run.target, run.optimizer, run.judge):
        runs.set_backends(run.id, *names)
    return replace(run, answering=noted, **names._asdict())


def _list_lasting(store: Store, run: Run) -> tuple[Answering, ...]:
    """Who answered first, and then in finished steps of a run, the latest last."""
    n_steps = len(store.runs.list_steps(run.id)) if len(run.answering) > 1 else 0
    return run.answering[:1] + tuple(each for each in run.answering[1:] if each.after < n_steps)
