"""Install: the real hosts use what install wrote, their hooks record a session, and uninstall leaves no trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from agent_models import AgentModel, Asked, answering
from fake_anthropic import Messages
from fake_openai import Responses
from real_hosts import CODEX_CONFIG, TIMEOUT_S, host_environment
from scripted_model import Json, Model, ToolCall, Turn, serving

from skillopt_mcp.tasks import add_tasks
from skillopt_mcp.workspace import Workspace

pytestmark = pytest.mark.hosts

PROGRAM = str(Path(sys.executable).with_name("skillopt-mcp"))
SKILL = "---\nname: clerk\ndescription: Use when closing the ledger.\n---\n\n# Clerk\n\nAlways sum.\n"
PROMPT = "Close the ledger of March."


@dataclass(frozen=True)
class Setting:
    """A home and a project with a tracked skill, in which one host runs as its user's would."""

    place: Path
    variable: str

    @property
    def home(self) -> Path:
        return self.place / "home"

    @property
    def project(self) -> Path:
        return self.place / "project"

    @property
    def is_claude(self) -> bool:
        return self.variable != "CODEX"

    @property
    def name(self) -> str:
        return "claude-code" if self.is_claude else "codex"

    @property
    def config(self) -> Path:
        return self.home / (".claude/.claude.json" if self.is_claude else ".codex/config.toml")

    @property
    def hooks(self) -> Path:
        return self.home / (".claude/settings.json" if self.is_claude else ".codex/hooks.json")

    @property
    def skill(self) -> Path:
        return self.project / (".claude/skills" if self.is_claude else ".agents/skills") / "clerk"

    @property
    def environment(self) -> dict[str, str]:
        told = {
            "CLAUDE_CONFIG_DIR": str(self.home / ".claude"),
            "CODEX_HOME": str(self.home / ".codex"),
            "CODEX_API_KEY": "loopback-only",
            "SKILLOPT_STORE": str(self.place / "store.db"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
        }
        found = host_environment(self.home, told)
        return found | {"PATH": f"{self.place / 'bin'}{os.pathsep}{found['PATH']}"}

    @property
    def api(self) -> type[Messages] | type[Responses]:
        return Messages if self.is_claude else Responses

    def results(self, request: Json) -> list[Json]:
        """Return the tool results that a request carries."""
        return self.api.results(self.api.__new__(self.api), request)

    def ours(self, *arguments: str) -> Json:
        """Return what a command of ours prints, run by the user of this home."""
        done = self._run([PROGRAM, *arguments, "--json"], self.environment)
        assert done.returncode == 0, done.stdout + done.stderr
        printed: Json = json.loads(done.stdout)
        return printed

    def told(self, *arguments: str) -> str:
        """Return what a command of the host prints."""
        done = self._run([os.environ[self.variable], *arguments], self.environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def session(self, model: Model | AgentModel) -> None:
        """Run a session of the host, with all that its own files configure."""
        environment, binary = self.environment, os.environ[self.variable]
        if self.is_claude:
            environment |= {
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.port}",
                "ANTHROPIC_API_KEY": "loopback-only",
            }
            command = [binary, "-p", PROMPT, "--model", "claude-sonnet-4-5", "--allowedTools", "mcp__skillopt"]
        else:
            environment |= {"LOOPBACK_KEY": "loopback-only", "OPENAI_BASE_URL": ""}
            provider = f'model_providers.loopback.base_url="http://127.0.0.1:{model.port}/v1"'
            command = [binary, "--strict-config", "--dangerously-bypass-hook-trust", "exec", "-c", provider]
            command += ["--skip-git-repo-check", PROMPT]
        done = self._run(command, environment)
        assert done.returncode == 0, done.stdout + done.stderr

    def script(self, results: list[Json]) -> Turn:
        """List the skills by our server, open one, and answer."""
        read = ToolCall("Skill", {"skill": "clerk"}, "")
        if not self.is_claude:
            read = ToolCall("exec_command", {"cmd": f"cat {self.skill}/SKILL.md"}, "")
        turns: list[Turn] = [[ToolCall("list_skills", {})], [read], ["The sum is 42."]]
        return turns[min(len(results), 2)]

    def _run(self, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.project, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip


@pytest.fixture(params=["CLAUDE", "CLAUDE_OLDER", "CODEX"])
def setting(request: pytest.FixtureRequest, tmp_path: Path) -> Setting:
    if not os.environ.get(request.param):
        pytest.skip(f"{request.param} names no binary: see .ci/hosts")
    made = Setting(tmp_path, request.param)
    for folder in (made.home / ".claude", made.home / ".codex", made.skill):
        folder.mkdir(parents=True)
    (made.skill / "SKILL.md").write_text(SKILL)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / ("claude" if made.is_claude else "codex")).symlink_to(os.environ[request.param])
    if not made.is_claude:
        made.config.write_text(f"# mine\n{CODEX_CONFIG}")
    with Workspace(made.place / "store.db") as workspace:
        workspace.skill(str(made.skill))
    return made


def test_a_host_calls_the_installed_server_and_its_hooks_record_the_session(setting: Setting) -> None:
    installed = setting.ours("install", setting.name, "--hooks", "--skill", "--yes")
    assert installed["status"] == "installed"
    assert "record_trajectory" in installed["tools"]
    with serving(setting.api, setting.script) as model:
        setting.session(model)
    results = setting.results(model.requests[-1])
    assert results[0]["skills"][0]["name"] == "clerk", results
    [row] = [row for row in setting.ours("skills")["skills"] if row["name"] == "clerk"]
    assert row["n_trajectories"] == 1
    shown = setting.ours("show", "trajectory:1")["text"]
    assert PROMPT in shown
    assert "The sum is 42." in shown
    # What our own tools said is none of the attempt.
    assert "list_skills" not in shown
    assert setting.ours("harvest")["recorded"] == 0


def test_the_installed_server_trains_by_the_host_that_started_it_with_the_persons_model(setting: Setting) -> None:
    with Workspace(setting.place / "store.db") as workspace:
        task = {"prompt": "Sum 20 and 22.", "judge": {"kind": "exact", "expected": "42"}, "split": "train"}
        add_tasks(workspace, str(setting.skill), [task])
    if setting.is_claude:
        setting.hooks.write_text('{"model": "claude-haiku-4-5"}')

    def answer(asked: Asked) -> Turn:
        if PROMPT in asked.text:
            results = setting.results(asked.body)
            is_open = not results or results[-1].get("status") == "running"
            return [ToolCall("propose_edits", {"skill": "clerk", "rollouts": 1})] if is_open else ["done"]
        inner.append(asked.body["model"])
        edit = {"op": "append", "content": "Say the sum alone.", "evidence": [1]}
        return ["It is 42."] if "Sum 20 and 22." in asked.text and len(inner) == 1 else [json.dumps({"edits": [edit]})]

    inner: list[str] = []
    with answering(setting.name, answer) as model:
        spec = f"codex:base_url=http://127.0.0.1:{model.port}/v1"
        named = [] if setting.is_claude else ["--target", spec, "--optimizer", spec]
        installed = setting.ours("install", setting.name, "--yes", *named)
        setting.session(model)
    assert f"{setting.name} does the work in runs of its own" in installed["notes"][0]
    proposed = next(setting.results(asked.body)[-1] for asked in reversed(model.asked) if PROMPT in asked.text)
    assert (proposed["status"], "Say the sum alone." in proposed["diff"]) == ("candidate", True), proposed
    assert set(inner) == {"claude-haiku-4-5" if setting.is_claude else "gpt-5-codex"}


def test_the_host_itself_lists_the_server_and_after_uninstall_it_does_not(setting: Setting) -> None:
    before = setting.config.read_bytes() if setting.config.exists() else None
    setting.ours("install", setting.name, "--hooks", "--skill", "--yes")
    assert "skillopt" in setting.told("mcp", "list")
    written = setting.config.read_bytes()
    taken_out = setting.ours("uninstall", setting.name, "--hooks", "--skill", "--yes")
    assert taken_out["status"] == "uninstalled"
    assert not setting.hooks.exists()
    if setting.is_claude:
        # Claude Code keeps its own state in the same file, and has written to it meanwhile.
        assert b"skillopt-mcp" in written
        assert b"skillopt-mcp" not in setting.config.read_bytes()
    else:
        assert setting.config.read_bytes() == before
    assert "skillopt" not in setting.told("mcp", "list")
