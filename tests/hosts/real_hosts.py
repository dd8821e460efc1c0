"""Real hosts: run the Claude Code and Codex command lines in a scrubbed home, against a scripted model on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fake_anthropic import Messages
from fake_openai import Responses
from scripted_model import Json, Script, Team, serving

TIMEOUT_S = 180
LOOPBACK_KEY = "sk-ant-loopback-only"
_PROMPT = "Use the skillopt tools."


@dataclass(frozen=True)
class Session:
    """One finished session of a host: what it printed, and what the model was asked."""

    exit_code: int
    stdout: str
    stderr: str
    requests: list[Json]

    def results(self) -> list[Json]:
        """Return the tool results that the model saw last."""
        request = self.requests[-1]
        api = Messages if "messages" in request else Responses
        return api.results(api.__new__(api), request)


def run_claude(
    binary: str, place: Path, server: list[str] | None, script: Script | Team, *, allowed: str = "mcp__skillopt"
) -> Session:
    """Run Claude Code in `place`/project with a script as its model, and one MCP server or what is installed.

    Without a person at hand, it uses no tool but what is `allowed` here or in its settings.
    """
    home, project = folders(place)
    config = place / "mcp.json"
    if server:
        config.write_text(json.dumps({"mcpServers": {"skillopt": {"command": server[0], "args": server[1:]}}}))
    with serving(Messages, script) as model:
        command = [binary, "-p", _PROMPT, "--model", "claude-sonnet-4-5"]
        command += ["--allowedTools", allowed] if allowed else []
        command += ["--mcp-config", str(config), "--strict-mcp-config"] if server else []
        command += ["--output-format", "stream-json", "--verbose"]
        return _finished(_run(command, project, home, claude_settings(home, model.port)), model.requests)


def run_codex(binary: str, place: Path, server: list[str], script: Script) -> Session:
    """Run Codex in `place`/project, its sandbox on, with one MCP server and a script as its model."""
    return run_configured_codex(binary, place, codex_server(server), script)


def run_configured_codex(
    binary: str, place: Path, config: str, script: Script, install: Callable[[], object] = str
) -> Session:
    """Run Codex in `place`/project with the text of a configuration that it must understand to the last key.

    `install` may change the configuration before it is read.
    """
    home, project = folders(place)
    with serving(Responses, script) as model:
        (home / ".codex").mkdir(exist_ok=True)
        (home / ".codex" / "config.toml").write_text(CODEX_CONFIG.replace("PORT", str(model.port)) + config)
        install()
        settings = {"CODEX_HOME": str(home / ".codex"), "LOOPBACK_KEY": "loopback-only"}
        command = [binary, "--strict-config", "exec", "--json", "--skip-git-repo-check", _PROMPT]
        return _finished(_run(command, project, home, settings), model.requests)


def claude_settings(home: Path, port: int) -> dict[str, str]:
    """Return the settings by which Claude Code asks a model on loopback, and nobody else."""
    return {
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": LOOPBACK_KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        # An agent that has submitted its work still counts for a moment.
        "CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS": "64",
    }


def host_environment(home: Path, settings: dict[str, str]) -> dict[str, str]:
    """Return an environment with nothing of the caller's in it but the search path, the console script first."""
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    plain = {"PATH": search, "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8"}
    return {**plain, "NO_PROXY": "127.0.0.1,localhost", **settings}


def folders(place: Path) -> tuple[Path, Path]:
    """Return the home and the project in `place`, made when they are not there."""
    home, project = place / "home", place / "project"
    home.mkdir(parents=True, exist_ok=True)
    project.mkdir(exist_ok=True)
    return home, project


def _run(command: list[str], cwd: Path, home: Path, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = host_environment(home, settings)
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def _finished(done: subprocess.CompletedProcess[str], requests: list[Json]) -> Session:
    return Session(done.returncode, done.stdout, done.stderr, requests)


# With PORT for where the model listens.
CODEX_CONFIG = """\
model = "gpt-5-codex"
model_provider = "loopback"
approval_policy = "never"
sandbox_mode = "workspace-write"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.loopback]
name = "loopback"
base_url = "http://127.0.0.1:PORT/v1"
env_key = "LOOPBACK_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

"""


def codex_server(server: list[str]) -> str:
    """Return the part of a configuration that names one MCP server."""
    return f"""\
[mcp_servers.skillopt]
command = {json.dumps(server[0])}
args = {json.dumps(server[1:])}
required = true

[mcp_servers.skillopt.tools.promote_skill]
approval_mode = "approve"
"""
