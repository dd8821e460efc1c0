"""Agent calls: tasks and questions for a fake host, and what is asked of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from skillopt_mcp.backends.base import Backend, BackendFault
from skillopt_mcp.backends.claude_code import open_claude_code
from skillopt_mcp.backends.codex import open_codex
from skillopt_mcp.core.calls import Call, Reply, Rollout
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.core.tasks import Task, TaskFile
from skillopt_mcp.tasks.judges.kinds.text import Exact
from tests.fake_host import FakeHost

KEY = "sk-ant-planted-0123456789"
REFERENCE = "the-secret-reference"
SKILL = SkillFiles(
    (
        SkillFile("SKILL.md", b"---\nname: clerk\ndescription: Does things.\n---\n# Clerk\n"),
        SkillFile("scripts/run.sh", b"#!/bin/sh\n", executable=True),
    )
)


def environ(host: FakeHost, **more: str) -> Mapping[str, str]:
    home = str(host.path.parent.parent / "home")
    return {"PATH": f"{host.path.parent}:/usr/bin:/bin", "HOME": home, **more}


def opened(host: FakeHost, spec: str = "m", **more: str) -> Backend:
    open_host = open_claude_code if host.path.name == "claude" else open_codex
    keys = {"ANTHROPIC_API_KEY": KEY} if host.path.name == "claude" else {"CODEX_API_KEY": KEY}
    return open_host(f"{spec},binary={host.path}", environ(host, **{**keys, **more}))


def task(*files: TaskFile) -> Task:
    return Task(7, 1, "t", "Do it.", Exact(expected=REFERENCE), "val", "digest", files=files)


def rollout(*files: TaskFile, skill: SkillFiles = SKILL) -> Call:
    return Call("target", "rollout", Rollout(skill, task(*files)), "draw")


def ask(backend: Backend, call: Call | None = None) -> Reply:
    return asyncio.run(backend.complete(call or rollout(TaskFile("in/a.txt", "alpha"))))


def fault(backend: Backend, call: Call | None = None) -> BackendFault:
    with pytest.raises(BackendFault) as caught:
        ask(backend, call)
    return caught.value
