from collections.abc import Iterator
from pathlib import Path

import pytest
from children import SKILL

from skillopt_mcp.core.skills import Skill
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool


@pytest.fixture(autouse=True)
def disk() -> None:
    """Wait for the disk: durability is tested here."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "skillopt.db"


@pytest.fixture
def pool(path: Path) -> Iterator[Pool]:
    pool = Pool(path)
    yield pool
    pool.close()


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(path) as store:
        yield store


@pytest.fixture
def skill(store: Store) -> Skill:
    return store.skills.track("s", "/s", SKILL)
