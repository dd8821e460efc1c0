"""Backends: fake hosts, whose private places are made in a folder of the test."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.fake_host import FakeHost, make_host


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that private places are made in."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def claude(tmp_path: Path, places: Path) -> FakeHost:
    return make_host(tmp_path, "claude")


@pytest.fixture
def codex(tmp_path: Path, places: Path) -> FakeHost:
    return make_host(tmp_path, "codex")
