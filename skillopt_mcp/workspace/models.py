"""Models: who answers in which role, opened when first asked."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Mapping
from typing import Protocol

from skillopt_mcp.backends.base import Backend, no_backend
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.backends.resolved import describe_unremembered
from skillopt_mcp.backends.wrappers import Redacting, judges_for
from skillopt_mcp.core.calls import Role
from skillopt_mcp.core.errors import BackendError, Refused
from skillopt_mcp.core.redacting import Redactor
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.judging import missing_programs
from skillopt_mcp.workspace.callers import Caller


class HasStore(Protocol):
    """Whoever opens backends: what they keep, what they take out of it, and who calls, as it is then."""

    caller: Caller

    @property
    def store(self) -> Store: ...
    @property
    def redactor(self) -> Redactor: ...


class Models:
    """Backends by role: made ones, or specs BACKEND:MODEL. Only with `hands_out` can one of them be a host."""

    def __init__(self, owner: HasStore, specs: Mapping[Role, str | Backend | None], *, hands_out: bool) -> None:
        self._owner = owner
        self._specs = specs
        self._hands_out = hands_out
        self._backends: dict[Role, Backend] = {}
        self._lock = threading.RLock()

    def backend(self, role: Role) -> Backend:
        """Return the backend of a role. Raises BackendError when none was named."""
        with self._lock:
            spec = self._specs.get(role)
            if spec is None:
                raise no_backend(role)
            if role not in self._backends:
                if self._owner.caller == "agent" and isinstance(spec, str):
                    self.check_remembered(spec)
                opened = open_backend(spec) if isinstance(spec, str) else spec
                if opened.deferred and not self._hands_out:
                    raise BackendError(
                        f"'{opened.name}' answers through the tools of a server alone: ask the agent that it serves, "
                        "or name another backend, for instance 'claude-code:sonnet'"
                    )
                self._backends[role] = Redacting(opened, self._owner.redactor)
            return self._backends[role]

    def check_remembered(self, spec: str) -> None:
        """Raise Refused for a backend that an agent may not use; nothing of it is opened."""
        if why := describe_unremembered(self._owner.store, spec):
            raise Refused(why)

    def note_caller(self, scope: str, tasks: Iterable[Task]) -> None:
        """Mark a run or test that a script works on, and whether agents might use all who answer in it."""
        if self._owner.caller == "unattended":
            programs = self._owner.store.commands.named(
                name for task in tasks for name in missing_programs(task.judge, ())
            )
            remembered = not any(each.unattended for each in programs.values()) and all(
                isinstance(spec, str) and not describe_unremembered(self._owner.store, spec)
                for spec in self._specs.values() if spec is not None
            )  # fmt: skip
            self._owner.store.permissions.note_unattended(scope, remembered=remembered)

    def backends_for(self, tasks: Iterable[Task]) -> dict[Role, Backend]:
        """Return who attempts these tasks, and who judges them where a judge of theirs has to be asked.

        Raises BackendError when one of them was not named, or a command that a task names cannot be run.
        """
        if self._owner.caller == "agent":
            tasks = list(tasks)
            named = self._owner.store.commands.named(
                name for task in tasks for name in missing_programs(task.judge, ())
            )
            if own := next((each.name for each in named.values() if each.unattended), ""):
                raise Refused(
                    f"a script registered the judge program '{own}', and agents use those of a person alone: a person "
                    f"registers it at a terminal (skillopt-mcp tasks judges add {own} -- PROGRAM)"
                )
        judges = judges_for(
            self._owner.store,
            tasks,
            functools.partial(self.backend, "judge"),
            lambda text: self._owner.redactor.text(text),
        )
        target: dict[Role, Backend] = {"target": self.backend("target")}
        return {**target, "judge": judges} if judges else target
