from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.doors import command
from benchmarks.report import CHROMIUM, browser, hostile_store
from tests.processes import Script


def printed(folder: Path, *arguments: object) -> str:
    """Return what the console script prints in a folder."""
    script = Script(command(None, *map(str, arguments)), folder, os.environ)
    assert script.wait() == 0, script.err
    return script.out


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


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Return a real Chromium without a window."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with browser() as opened:
        yield opened
