"""Opening: the store as one object, with an attribute per family of tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from skillopt_mcp.store.pool import Pool

if TYPE_CHECKING:
    from skillopt_mcp.store.calls import Arrivals, Budgets, Calls, Ledger
    from skillopt_mcp.store.candidates import Candidates
    from skillopt_mcp.store.decisions import Decisions
    from skillopt_mcp.store.events import Events
    from skillopt_mcp.store.leases import Leases
    from skillopt_mcp.store.permissions import Permissions
    from skillopt_mcp.store.promotion_tests import PromotionTests
    from skillopt_mcp.store.promotions import Approvals, Promotions
    from skillopt_mcp.store.runs import Runs
    from skillopt_mcp.store.skills import Skills
    from skillopt_mcp.store.tasks import Commands, Retirements, Tasks
    from skillopt_mcp.store.trajectories import Trajectories

_Table = TypeVar("_Table")


def _tables(module: str, name: str) -> Any:
    """An attribute that loads its tables when it is first used: listing skills takes a third of them."""
    return cached_property(lambda store: store.table(getattr(import_module(f"{__package__}.{module}"), name)))


class Store:
    """A store; with `settle` it is opened on its first use, when that is called, so that making one costs nothing.

    Raises StoreError and its kinds when it cannot be opened.
    """

    skills: Skills = _tables("skills", "Skills")
    permissions: Permissions = _tables("permissions", "Permissions")
    tasks: Tasks = _tables("tasks", "Tasks")
    retirements: Retirements = _tables("tasks", "Retirements")
    commands: Commands = _tables("tasks", "Commands")
    trajectories: Trajectories = _tables("trajectories", "Trajectories")
    calls: Calls = _tables("calls", "Calls")
    budgets: Budgets = _tables("calls", "Budgets")
    ledger: Ledger = _tables("calls", "Ledger")
    arrivals: Arrivals = _tables("calls", "Arrivals")
    leases: Leases = _tables("leases", "Leases")
    runs: Runs = _tables("runs", "Runs")
    candidates: Candidates = _tables("candidates", "Candidates")
    decisions: Decisions = _tables("decisions", "Decisions")
    tests: PromotionTests = _tables("promotion_tests", "PromotionTests")
    promotions: Promotions = _tables("promotions", "Promotions")
    approvals: Approvals = _tables("promotions", "Approvals")
    events: Events = _tables("events", "Events")

    def __init__(self, path: Path, settle: Callable[[Store], None] | None = None) -> None:
        self.path = path
        self.locks_path = Path(f"{path}.locks")
        self._pool = Pool(path, partial(settle, self) if settle else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_made(self) -> bool:
        """Whether the store is there, so that opening it makes none; what cannot be looked at may be there."""
        return self._pool.is_made

    def open(self) -> None:
        """Open the store (make it) unless it is open. Raises StoreError and its kinds."""
        self._pool.open()

    def table(self, make: Callable[[Pool], _Table]) -> _Table:
        """Return tables that few need, so that opening a store does not load them."""
        return make(self._pool)

    def compact(self, wait_ms: int) -> bool:
        """Rewrite the store's file, and empty its log; return whether no other process prevented that."""
        return self._pool.compact(wait_ms)

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()
