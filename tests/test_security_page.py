"""The security page: whatever it points at is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text("utf-8")


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:tests|benchmarks|skillopt_mcp)/[\w/]+\.py)`", PAGE))))
def test_a_test_that_is_named_exists(path: str) -> None:
    assert (ROOT / path).is_file()


def test_what_is_measured_is_named_as_the_benchmark_names_it() -> None:
    faults = set(re.findall(r"`benchmarks/faults\.py` \((\w+)\)", PAGE))
    source = (ROOT / "benchmarks" / "faults.py").read_text("utf-8")
    assert faults
    assert all(f'"{key}": ' in source for key in faults)
