"""No test may touch the user's own folders: whatever a test does not name lies in a temporary place."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from skillopt_mcp.store import migrating
from tests.schemas import lay_down

# Started behind a shell, a process ignores Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

if sys.dont_write_bytecode:
    # Told to keep nothing that it compiled, each process would compile everything again: it is kept until the end.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="bytecode-")
    atexit.register(shutil.rmtree, os.environ["PYTHONPYCACHEPREFIX"], ignore_errors=True)

_OWN = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "SKILLOPT_STORE", "APPDATA", "LOCALAPPDATA", "USERPROFILE")
# What hosts set in the shells of their models, where no person's command runs.
_AGENTS = ("CLAUDECODE", "AI_AGENT", "CODEX_THREAD_ID", "CODEX_CI")


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the empty folder that is home for this test and for every process that it starts."""
    folder = tmp_path_factory.mktemp("home")
    for name in (*_OWN, *_AGENTS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    for name, inner in (
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_STATE_HOME", ".local/state"),
    ):
        monkeypatch.setenv(name, str(folder / inner))
    monkeypatch.setenv("SKILLOPT_STORE", str(folder / "store" / "skillopt.db"))
    return folder


@pytest.fixture(autouse=True)
def schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lay a new store's schema down at once; tests/store, and all other processes, run the migrations."""
    monkeypatch.setattr(migrating, "_apply", lay_down)
