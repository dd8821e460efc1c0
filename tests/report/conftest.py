from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.doors import run
from benchmarks.report import CHROMIUM, browser, hostile_store


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the outcome of a demo, whose store every test may look at."""
    return run(None, "demo", "--dir", str(tmp_path_factory.mktemp("demo") / "demo"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a store whose every text attacks the page, and the id of its promotion test."""
    return hostile_store(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Return a real Chromium without a window."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with browser() as opened:
        yield opened
