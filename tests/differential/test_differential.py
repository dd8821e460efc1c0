"""Differential: `replay` asks, learns and decides as it did at the commit that this rebuilding began with."""

import os

import pytest
from compare import differences

OLD = os.environ.get("SKILLOPT_OLD", "")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not OLD, reason="SKILLOPT_OLD names no environment: see compare.py")
def test_replay_does_what_it_did() -> None:
    assert differences(OLD) == []
