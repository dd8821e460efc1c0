"""Installed host: a home and a project in which a real host runs with what install wrote, as its user's does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from agent_models import AgentModel, Asked, answering
from agent_replaying import is_rollout, opening
from fake_anthropic import Messages
from fake_openai import Responses
from real_hosts import CODEX_CONFIG, TIMEOUT_S, host_environment
from scripted_model import Json, Model, ToolCall, Turn

from benchmarks.doors import run_as_person
from skillopt_mcp.backends.world import make_tasks, right_answer
from skillopt_mcp.core.judging import judge_json
from skillopt_mcp.workspace.workspace import Workspace

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

    def ours(self, *arguments: str, **environ: str) -> Json:
        """Return what a command of ours prints, run by the user of this home."""
        done = self._run([PROGRAM, *arguments, "--json"], {**self.environment, **environ})
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
            # Its own sandbox does not start in every place that tests run in.
            command += ["-c", 'sandbox_mode="danger-full-access"', "--skip-git-repo-check", PROMPT]
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
        return run_as_person(command, adds=True, cwd=self.project, env=environment, timeout=TIMEOUT_S)


def setting_in(place: Path, variable: str) -> Setting:
    """Return a new setting in a folder for the host whose binary a variable names."""
    made = Setting(place, variable)
    for folder in (made.home / ".claude", made.home / ".codex", made.skill, place / "bin"):
        folder.mkdir(parents=True)
    (made.skill / "SKILL.md").write_text(SKILL)
    (place / "bin" / ("claude" if made.is_claude else "codex")).symlink_to(os.environ[variable])
    if not made.is_claude:
        made.config.write_text(f"# mine\n{CODEX_CONFIG}")
    with Workspace(made.place / "store.db") as workspace:
        workspace.place.skill(str(made.skill))
    return made


LESSON = "Answer with the bare number."
N_HELD_OUT = 20  # three attempts with each text: a gain on all of the first eight decides
MOST_CALLS = 40
SEED = 5


def calls_to_promotion(setting: Setting) -> list[str]:
    """Return the tools that a session calls, from its first call to the promoted file.

    It does what each result's `next_step` says. Its server runs the same command line, with the user's login, as target
    and optimizer, as install wrote it; its model answers those runs, and knows a task's answer where the skill that it
    was given holds the lesson, which the optimizer finds. A person gave a standing permission before.
    """
    tasks = make_tasks(N_HELD_OUT + 1, SEED)
    rows = [
        {"prompt": task.prompt, "judge": json.loads(judge_json(task.judge)), "split": "test" if n else "train"}
        for n, task in enumerate(tasks)
    ]
    (setting.place / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    setting.ours("tasks", "add", str(setting.skill), str(setting.place / "tasks.jsonl"))
    setting.ours("skills", "permit", str(setting.skill), "--yes")
    called: list[str] = []
    results: list[Json] = []

    def next_turn() -> Turn:
        if setting.variable == "CLAUDE" and not results:
            names = ("list_skills", "propose_edits", "evaluate_candidate", "promote_skill")
            return [
                ToolCall("ToolSearch", {"query": f"select:{','.join(f'mcp__skillopt__{name}' for name in names)}"}, "")
            ]
        ours = [result for result in results if "next_step" in result or "skills" in result]
        if not ours:
            return [ToolCall("list_skills", {})]
        last = ours[-1]
        step = last["skills"][0]["next_step"] if "skills" in last else last["next_step"]
        is_over = last.get("status") == "promoted" or step is None or len(results) == MOST_CALLS
        return ["done"] if is_over else [ToolCall(step["action"], step["arguments"])]

    def answer(asked: Asked) -> Turn:
        if PROMPT in asked.text:
            if not asked.tools:
                return ["ok"]
            results[:] = setting.results(asked.body)
            turn = next_turn()
            called[len(results) :] = [each.tool for each in turn if isinstance(each, ToolCall)]
            return turn
        if not is_rollout(asked):
            return [json.dumps({"edits": [{"op": "append", "content": LESSON, "evidence": [1]}]})]
        if not asked.n_results:
            return [opening(setting.name, setting.skill.name)]
        prompt = next(task.prompt for task in tasks if task.prompt in asked.text)
        return [right_answer(SEED, prompt) if LESSON in asked.text else "I cannot tell."]

    with answering(setting.name, answer) as model:
        spec = f"codex:base_url=http://127.0.0.1:{model.port}/v1"
        named = [] if setting.is_claude else ["--target", spec, "--optimizer", spec]
        setting.ours("install", setting.name, "--yes", *named, ANTHROPIC_BASE_URL=f"http://127.0.0.1:{model.port}")
        setting.session(model)
    assert results[-1].get("status") == "promoted", results
    assert LESSON in (setting.skill / "SKILL.md").read_text()
    return called
