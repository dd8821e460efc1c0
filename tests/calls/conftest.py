from collections.abc import Iterator
from pathlib import Path

import pytest

from skillopt_mcp.store.opening import Store
from tests.processes import Spawn, spawning


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "kept" / "skillopt.db") as store:
        yield store


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    with spawning() as spawn:
        yield spawn
