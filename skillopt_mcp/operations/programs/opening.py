"""Opening: the store, the backends and the environment that a program gives to a function of the Python API."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar, cast

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.environment import PREFIX, Rolling
from skillopt_mcp.backends.given import checked_backend
from skillopt_mcp.backends.names import is_spec
from skillopt_mcp.environments.base import Environment, rolls_out
from skillopt_mcp.environments.registry import checked, open_environment
from skillopt_mcp.errors import BadInput
from skillopt_mcp.operations.changes.advising import by_a_person
from skillopt_mcp.operations.programs.stopping import Stop
from skillopt_mcp.operations.programs.words import advice
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.runs.concluding import on_store
from skillopt_mcp.operations.runs.simulating import advised
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.budgets import Caps
from skillopt_mcp.records.calls import Role
from skillopt_mcp.store.locations import store_path

Found = TypeVar("Found", bound=Result)
_PROMOTE = re.compile(r"\bskillopt-mcp promote c-\w+")


@dataclass(frozen=True)
class Given:
    """What every function takes beside what it is about: who answers, where it is kept, and how far it may go."""

    environment: Environment | str | None
    backends: Mapping[Role, Backend | str | None]
    store: str | os.PathLike[str] | None
    caps: Caps
    n_slots: int | None
    stop: Stop

    def __post_init__(self) -> None:
        """Raise BadInput for what is no backend, and for caps that are none."""
        for role, backend in self.backends.items():
            checked_backend(role, backend)
        caps = cast(object, self.caps)
        if not isinstance(caps, Caps):
            raise BadInput(
                f"the caps are of type {type(caps).__name__}: give skillopt_mcp.Caps(calls=, tokens=, usd=, minutes=)"
            )

    @cached_property
    def path(self) -> Path:
        """Return where the store is."""
        return store_path(os.fspath(self.store) if self.store is not None else None, os.environ)

    @cached_property
    def opened(self) -> Environment | None:
        """Return the environment, opened. Raises BadInput when it is none."""
        given = self.environment
        return open_environment(given) if isinstance(given, str) else None if given is None else checked(given)

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """Lend a workspace on the store with the backends. Raises BadInput when two would attempt the tasks."""
        with Workspace(
            self.path, target=self._target, optimizer=self.backends.get("optimizer"), judge=self.backends.get("judge"),
            caps=self.caps, n_slots=self.n_slots,
        ) as workspace:  # fmt: skip
            workspace.on_reply = self.stop.on_reply
            yield workspace

    @property
    def _target(self) -> Backend | str | None:
        """Return who attempts the tasks: the environment itself where it does that."""
        target, environment = self.backends.get("target"), self.opened
        if environment is None or not rolls_out(environment):
            return target
        if target is not None:
            raise BadInput(f"the environment '{environment.name}' attempts its tasks itself: leave out the target")
        return Rolling(environment, self.environment if isinstance(self.environment, str) else None)

    def told(self, workspace: Workspace, skill_id: int, found: Found, *, simulated: bool | None = None) -> Found:
        """Return a result whose next step is one that a program, or whoever runs it, can take on this store."""
        found = advised(workspace, skill_id, found)
        step = advice(by_a_person(workspace, found.next_step), self._test)
        if simulated:
            step = _PROMOTE.sub(r"\g<0> --simulated", step)
        return found.model_copy(update={"next_step": on_store(step, self.path)})

    def _test(self, candidate_id: str) -> str:
        """Return how a candidate is tested with what was given: a command, where one can spell that, or a function."""
        spelled = self.spelled
        if spelled:
            options = " ".join(f"--{role} {shlex.quote(name)}" for role, name in spelled.items())
            return f"skillopt-mcp evaluate {candidate_id} {options}"
        arguments = [repr(candidate_id)]
        if self.opened is not None and rolls_out(self.opened):
            arguments.append(repr(self.environment) if isinstance(self.environment, str) else "environment")
        for role in ("target", "judge"):
            backend = self.backends.get(role)
            if backend is not None:
                arguments.append(f"{role}={backend!r}" if isinstance(backend, str) else f"{role}={role}")
        if self.store is not None:
            arguments.append(f"store={str(self.path)!r}")
        return f"skillopt_mcp.evaluate({', '.join(arguments)})"

    @property
    def spelled(self) -> dict[Role, str] | None:
        """Return target and judge as a command line spells them; None where one of them is a program's own."""
        found: dict[Role, str] = {}
        if self.opened is not None and rolls_out(self.opened):
            if not isinstance(self.environment, str):
                return None
            found["target"] = f"{PREFIX}{self.environment}"
        for role in ("target", "judge"):
            backend = self.backends.get(role)
            if backend is None:
                continue
            name = backend if isinstance(backend, str) else backend.name
            if not is_spec(name):
                return None
            found[role] = name
        return found
