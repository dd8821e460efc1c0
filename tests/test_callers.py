"""Callers: a mark wins over all else, its value does not count, and configuration of a host's CLI is no mark."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skillopt_mcp.workspace.callers import find_caller, find_editor, find_mark

MARKS = (
    "AI_AGENT", "AGENT", "CLAUDECODE", "CLAUDE_CODE", "COPILOT_AGENT", "CURSOR_AGENT", "GEMINI_CLI", "OPENCODE",
    "GOOSE_TERMINAL", "AUGMENT_AGENT", "AMP_CURRENT_THREAD_ID", "ANTIGRAVITY_AGENT",
)  # fmt: skip
CODEX_SHELL = ("CODEX_CI", "CODEX_THREAD_ID", "CODEX_SESSION_ID", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED")
CONFIGURATION = (
    "CODEX_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_SQLITE_HOME", "CODEX_CA_CERTIFICATE", "CODEX",
    "CODEX_OSS_BASE_URL", "CODEX_OSS_PORT", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CONFIG_DIR", "GEMINI_API_KEY", "CI", "AGENTS", "COPILOT_HOME",
)  # fmt: skip


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", [*MARKS, *CODEX_SHELL])
@pytest.mark.parametrize("value", ["1", ""])
def test_a_mark_makes_an_agent_of_a_person_at_a_terminal_and_of_a_ci_job(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", _Terminal())
    assert find_caller({name: value, "CI": "true"}) == "agent"
    assert find_mark({name: value}) == name


def test_without_a_mark_the_terminal_on_standard_input_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    configured = dict.fromkeys(CONFIGURATION, "1")
    monkeypatch.setattr("sys.stdin", _Terminal())
    assert find_caller(configured) == "person"
    for stdin in (io.StringIO(), None, open(os.devnull)):  # noqa: SIM115
        monkeypatch.setattr("sys.stdin", stdin)
        assert find_caller(configured) == "unattended"
    stdin.close()
    assert find_caller({}) == "unattended"


@pytest.mark.parametrize("given", ["TERM_PROGRAM=vscode", "TERM_PROGRAM=zed", "TERMINAL_EMULATOR=JetBrains-JediTerm"])
def test_an_editors_terminal_is_known_by_its_own_variable(given: str) -> None:
    name, _, value = given.partition("=")
    assert find_editor({name: value, "TERM": "xterm"}) == given
    assert find_editor({name: "another", "TERM": value}) == ""


@pytest.mark.parametrize("value", [None, "1"])
def test_a_program_that_opens_a_workspace_is_no_person_by_that(tmp_path: Path, value: str | None) -> None:
    code = (
        "from pathlib import Path; from skillopt_mcp.workspace.workspace import Workspace;"
        f"print(Workspace(Path({str(tmp_path / 'store.db')!r})).place.caller)"
    )
    environ = {**os.environ, **({"CLAUDECODE": value} if value else {})}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == ("agent" if value else "unattended")
