"""No test may touch the user's own folders: whatever a test does not name lies in a temporary place."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

# Started behind a shell, a process ignores Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

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
