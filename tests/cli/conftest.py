from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from skillopt_mcp.backends.world import make_skill, make_tasks
from skillopt_mcp.operations.permitting import add_root
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.splits import EQUAL_SHARES

SCRIPT = str(Path(sys.executable).with_name("skillopt-mcp"))
SEED = 3
TARGET = f"simulated:honest,seed={SEED}"
BACKENDS = ("--target", TARGET, "--optimizer", TARGET)


@dataclass(frozen=True)
class Place:
    """A skill of the simulated world in a registered skill root, with its tasks in a store of its own."""

    skill_path: Path
    store_path: Path

    @property
    def main(self) -> Path:
        return self.skill_path / "SKILL.md"

    @property
    def command(self) -> list[str]:
        return [SCRIPT, "--store", str(self.store_path)]


Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Return what runs the installed console script in an empty folder."""
    (tmp_path / "here").mkdir()

    def run(*arguments: object, store: Path | None = None) -> subprocess.CompletedProcess[str]:
        before = ["--store", str(store)] if store else []
        return subprocess.run(
            [SCRIPT, *before, *map(str, arguments)],
            cwd=tmp_path / "here", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

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
            add_root(workspace, str(folder / "skills"))
            skill = workspace.skill(str(place.skill_path))
            workspace.store.tasks.add_tasks(skill.id, make_tasks(n_tasks, SEED), EQUAL_SHARES)
        return place

    return make


def parsed(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """Return the one JSON object that a command printed."""
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    value = json.loads(line)
    assert isinstance(value, dict)
    return value
