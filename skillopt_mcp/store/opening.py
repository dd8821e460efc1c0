"""Opening: the store as one object, with an attribute per family of tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

from skillopt_mcp.store.calls import Budgets, Calls, Ledger
from skillopt_mcp.store.candidates import Candidates
from skillopt_mcp.store.decisions import Decisions
from skillopt_mcp.store.events import Events
from skillopt_mcp.store.leases import Leases
from skillopt_mcp.store.permissions import Commands, Permissions
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.promotion_tests import PromotionTests
from skillopt_mcp.store.promotions import Approvals, Promotions
from skillopt_mcp.store.runs import Runs
from skillopt_mcp.store.skills import Arrivals, Skills
from skillopt_mcp.store.tasks import Retirements, Tasks
from skillopt_mcp.store.trajectories import Trajectories

_Table = TypeVar("_Table")


class Store:
    """An open store. Raises StoreError and its kinds when it cannot be opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.locks_path = path.with_name(path.name + ".locks")
        self._pool = Pool(path)
        self.skills = Skills(self._pool)
        self.permissions = Permissions(self._pool)
        self.tasks = Tasks(self._pool)
        self.retirements = Retirements(self._pool)
        self.trajectories = Trajectories(self._pool)
        self.calls = Calls(self._pool)
        self.ledger = Ledger(self._pool)
        self.leases = Leases(self._pool)
        self.budgets = Budgets(self._pool)
        self.runs = Runs(self._pool)
        self.candidates = Candidates(self._pool)
        self.decisions = Decisions(self._pool)
        self.tests = PromotionTests(self._pool)
        self.promotions = Promotions(self._pool)
        self.approvals = Approvals(self._pool)
        self.commands = Commands(self._pool)
        self.events = Events(self._pool)
        self.arrivals = Arrivals(self._pool)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def table(self, make: Callable[[Pool], _Table]) -> _Table:
        """Return tables that few need, so that opening a store does not load them."""
        return make(self._pool)

    def compact(self, wait_ms: int) -> bool:
        """Rewrite the store's file, and empty its log; return whether no other process prevented that."""
        return self._pool.compact(wait_ms)

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()
