from collections.abc import Iterator
from pathlib import Path

import pytest

from skillopt_mcp.store.opening import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "kept" / "skillopt.db") as store:
        yield store
