"""Appearing: a file is there whole, or not at all."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skillopt_mcp.admin.backup import write_new
from skillopt_mcp.core.errors import BadInput


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file become longer than 1,000 bytes, as on a disk that is full by then: nor the log of the tests."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_that_the_disk_has_no_room_for_is_not_there_at_all(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(BadInput, match=f"'{tmp_path}/tasks.jsonl' cannot be written"):
        write_new(tmp_path / "tasks.jsonl", b"x" * 5_000)
    assert list(tmp_path.iterdir()) == []
    with full_disk():
        write_new(tmp_path / "tasks.jsonl", b"x" * 500)
    assert (tmp_path / "tasks.jsonl").read_bytes() == b"x" * 500


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(BadInput, match="is there already"):
        write_new(tmp_path / "mine", b"yours")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
