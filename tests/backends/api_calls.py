"""Api calls: a rollout and a question to ask the backends over HTTP, and the ways to open them at a loopback server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from loopback import KEY

from skillopt_mcp.backends.anthropic import AnthropicBackend, open_anthropic
from skillopt_mcp.backends.base import Backend, BackendFault
from skillopt_mcp.backends.openai import OpenAIBackend, open_openai
from skillopt_mcp.core.calls import Call, Question, Reply, Rollout
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.core.tasks import Task, TaskFile
from skillopt_mcp.prompts.rendering import render_evidence
from skillopt_mcp.tasks.judges.kinds.text import Exact

ENVIRON = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
SKILL = SkillFiles((SkillFile(MAIN_FILE, b"# Skill\n- Be exact.\n"),))
JUDGE = Exact(expected="the judge's own 42")
TASK = Task(1, 1, "one", "What is 6 x 7?", JUDGE, "train", "0" * 64, files=(TaskFile("a.txt", "six"),))
ROLLOUT = Call("target", "rollout", Rollout(SKILL, TASK), "run:1")
REFLECT = Call(
    "optimizer", "reflect", Question("Propose edits.", render_evidence("# Skill", "It failed."), "patch"), "r"
)

Opener = Callable[..., Backend]


def auto_at(url: str, *options: str, environ: Mapping[str, str] = ENVIRON) -> OpenAIBackend:
    """Return the openai backend that finds out which API a loopback server speaks."""
    return open_openai(",".join(["test-model", f"base_url={url}/v1", *options]), environ)


def openai_at(url: str, *options: str, environ: Mapping[str, str] = ENVIRON) -> OpenAIBackend:
    """Return the openai backend that speaks the Responses API."""
    return auto_at(url, "api=responses", *options, environ=environ)


def chat_at(url: str, *options: str) -> OpenAIBackend:
    """Return the openai backend that speaks the Chat Completions API."""
    return auto_at(url, "api=chat", *options)


def anthropic_at(url: str, *options: str, environ: Mapping[str, str] = ENVIRON) -> AnthropicBackend:
    """Return the anthropic backend at a loopback server."""
    return open_anthropic(",".join(["test-model", f"base_url={url}", *options]), environ)


def ask(backend: Backend, call: Call = ROLLOUT) -> Reply:
    """Return the reply to one call, in an event loop of its own."""
    return asyncio.run(backend.complete(call))


def fault_of(backend: Backend, call: Call = ROLLOUT) -> BackendFault:
    """Return the fault that a call ends in."""
    try:
        reply = ask(backend, call)
    except BackendFault as fault:
        return fault
    raise AssertionError(f"no fault, but {reply}")
