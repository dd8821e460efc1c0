from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import CHROMIUM, browser, hostile_store
from tests.cli.console import run_forked


def printed(folder: Path, *arguments: object) -> str:
    """Return what the console script prints for a person in a folder."""
    done = run_forked(list(map(str, arguments)), folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the outcome of a demo, whose store every test may look at."""
    return make_demo(tmp_path_factory.mktemp("demo"))


def make_demo(folder: Path) -> dict[str, Any]:
    """Return the outcome of a demo in a folder."""
    found: dict[str, Any] = json.loads(printed(folder, "demo", "--json", "--dir", folder / "demo"))
    return found


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a store whose every text attacks the page, and the id of its promotion test."""
    return hostile_store(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Return a real Chromium without a window."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with browser() as opened:
        yield opened
