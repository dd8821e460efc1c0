"""Peers: the published packages that this one is held against, each asked in the interpreter that has them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

PACKAGES = ("skillopt", "skillrl")
_DRIVER = Path(__file__).with_name("peer_driver.py")


def answers(package: str, what: str, cases: Sequence[object]) -> list[Any]:
    """Return what a published package makes of each case; skips where PEERS_PYTHON does not name its interpreter."""
    python = os.environ.get("PEERS_PYTHON")
    if not python:
        pytest.skip(
            "PEERS_PYTHON is not set: it names the interpreter of an environment made with "
            "'pip install skillopt==0.2.0 skillrl==1.0.0'"
        )
    request = json.dumps({"package": package, "what": what, "cases": cases})
    done = subprocess.run([python, str(_DRIVER)], input=request, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answered: list[Any] = json.loads(done.stdout)
    assert len(answered) == len(cases)
    return answered
