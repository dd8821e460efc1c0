from collections.abc import Iterator
from pathlib import Path

import pytest
from training_world import SKILL, Bench, new_tasks, simulated

from skillopt_mcp.backends.base import Backend


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Lend a bench of the small skill and 12 tasks."""
    with Bench(tmp_path, SKILL, new_tasks(12)) as bench:
        yield bench


@pytest.fixture
def simulation(tmp_path: Path) -> Iterator[tuple[Bench, Backend]]:
    """Lend a bench of the simulated world, with its backend."""
    bench, backend = simulated(tmp_path)
    with bench:
        yield bench, backend
