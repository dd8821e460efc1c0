"""Workspace: what a door opens and closes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from skillopt_mcp.core.budgets import NO_CAPS, Caps
from skillopt_mcp.store.opening import Store
from skillopt_mcp.workspace.jobs import Jobs
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import recover

if TYPE_CHECKING:
    from skillopt_mcp.backends.base import Backend
    from skillopt_mcp.core.calls import RayOptions, Role
    from skillopt_mcp.workspace.models import Models


class Workspace:
    """A store with its place, its models and its jobs; use it as a context manager.

    The store is opened on first use, so that making one costs nothing. `target`, `optimizer` and `judge` are backends
    (made, or as BACKEND:MODEL) or None; `project` is the folder whose skills are found; `clock` returns the seconds
    since 1970 by which leases end; `caps`, `concurrency`, `hands_out` and `ray` are those of `Models`.
    """

    def __init__(
        self,
        store_path: Path,
        *,
        target: str | Backend | None = None,
        optimizer: str | Backend | None = None,
        judge: str | Backend | None = None,
        project: Path | None = None,
        caps: Caps = NO_CAPS,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] | None = None,
        hands_out: bool = False,
        concurrency: int | None = None,
        ray: RayOptions | None = None,
    ) -> None:
        self.store = Store(store_path, recover)
        if clock:
            self.store.leases.clock = clock
        self.place = Place(self.store, project, environ)
        self._specs: dict[Role, str | Backend | None] = {"target": target, "optimizer": optimizer, "judge": judge}
        self._caps, self._concurrency, self._hands_out, self._ray = caps, concurrency, hands_out, ray
        self._models: Models | None = None
        self._lock = threading.Lock()
        if any(spec is not None for spec in self._specs.values()):
            # What needs a backend loads it here and below, for listing skills takes none.
            from skillopt_mcp.backends.registry import check_no_secret  # noqa: PLC0415

            for role, spec in self._specs.items():
                if spec is not None:
                    check_no_secret(spec if isinstance(spec, str) else spec.name, self.place.secrets, f"the {role}")

    @cached_property
    def jobs(self) -> Jobs:
        """The jobs of a server in the background."""
        return Jobs()

    @property
    def models(self) -> Models:
        """Who answers in which role."""
        from skillopt_mcp.workspace.models import Models  # noqa: PLC0415

        with self._lock:
            if self._models is None:
                self._models = Models(
                    self.store, self.place, self._specs, hands_out=self._hands_out, caps=self._caps,
                    concurrency=self._concurrency, ray=self._ray,
                )  # fmt: skip
            return self._models

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store if it was opened; what was handed out here is free for others then."""
        if self._models:
            self._models.close()
        self.store.close()
