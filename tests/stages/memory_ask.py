"""Memory ask: an `Ask` without a store, which answers by a function of the call, each key once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from skillopt_mcp.core.calls import Call, Question, Reply
from skillopt_mcp.core.edits import Edit
from skillopt_mcp.core.evidence import Trajectory
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.prompts.loading import load_prompts
from skillopt_mcp.prompts.rendering import Brief

SKILL = SkillFiles((SkillFile(MAIN_FILE, b"# Clerk\n\n- Read the page.\n- Answer.\n"),))
PROMPTS = load_prompts()
BRIEF = Brief(PROMPTS, budget=4, draw="r/e1s1")


class MemoryAsk:
    """Keeps `rounds`, what each `ask` was given, and `sent`, the calls that had no reply yet."""

    def __init__(self, answer: Callable[[Call], str | Reply]) -> None:
        self.rounds: list[list[Call]] = []
        self.sent: list[Call] = []
        self._answer = answer
        self._replies: dict[bytes, Reply] = {}

    def __call__(self, calls: Sequence[Call], /) -> list[Reply]:
        self.rounds.append(list(calls))
        for call in calls:
            if call.key("memory") not in self._replies:
                self.sent.append(call)
                answer = self._answer(call)
                reply = Reply(answer) if isinstance(answer, str) else answer
                self._replies[call.key("memory")] = reply._replace(id=len(self.sent))
        return [self._replies[call.key("memory")] for call in calls]


def silent(call: Call) -> str:
    """Fail the test: nothing was to be asked."""
    raise AssertionError(f"asked {call.stage}, though nothing was to be asked")


def question(call: Call) -> Question:
    """Return the question of an optimizer call."""
    assert isinstance(call.request, Question)
    return call.request


def attempt(n: int, hard: bool | None, soft: float | None = None) -> Trajectory:
    """Return the n-th attempt, which ended so."""
    return Trajectory(f"trial:{n}", f"task number <{n}>", f"answer <{n}>", (), hard, soft, "", "rollout")


def adds(content: str, *sources: str, from_failure: bool = True) -> Edit:
    """Return an edit that appends `content`, and cites its sources."""
    return Edit("append", None, content, MAIN_FILE, sources, from_failure, sources)


def patch_json(*contents: str, **more: object) -> str:
    """Return a reply that appends `contents`."""
    edits = [{"op": "append", "content": content} for content in contents]
    return json.dumps({"reasoning": "because", "edits": edits, **more})
