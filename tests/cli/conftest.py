from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from console import SEED, Cli, Place, run_forked

from skillopt_mcp.actions.promotions.consent import add_root
from skillopt_mcp.backends.world import make_skill, make_tasks
from skillopt_mcp.tasks.splits import DEFAULT_SHARES
from skillopt_mcp.workspace.workspace import Workspace


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Return what runs the console script in an empty folder."""
    (tmp_path / "here").mkdir()

    def run(*arguments: object, store: Path | None = None) -> subprocess.CompletedProcess[str]:
        before = ["--store", str(store)] if store else []
        return run_forked([*before, *map(str, arguments)], tmp_path / "here")

    return run


@pytest.fixture
def make_place(tmp_path: Path) -> Callable[..., Place]:
    """Return what makes a place with `n_tasks` tasks."""

    def make(name: str = "place", n_tasks: int = 60) -> Place:
        folder = tmp_path / name
        place = Place(folder / "skills" / "ledger-clerk", folder / "store.db")
        place.skill_path.mkdir(parents=True)
        for file in make_skill(SEED).files:
            (place.skill_path / file.path).write_bytes(file.content)
        with Workspace(place.store_path) as workspace:
            add_root(workspace.store, str(folder / "skills"))
            skill = workspace.place.skill(str(place.skill_path))
            workspace.store.tasks.add_tasks(skill.id, make_tasks(n_tasks, SEED), DEFAULT_SHARES)
        return place

    return make
