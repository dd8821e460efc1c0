"""From sessions: what a person corrected in two real hosts becomes tasks, a baseline, and an edit that they promote."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from agent_models import Asked, answering
from agent_replaying import is_rollout, opening
from installed_host import PROGRAM, PROMPT, Setting, setting_in
from real_hosts import LOOPBACK_KEY
from scripted_model import Json, ToolCall, Turn
from terminals import in_terminal

pytestmark = pytest.mark.hosts

MOST_CALLS, MOST_RUNS = 8, 160
RIGHT, EFFECT = 0.95, 0.5  # how often an answer is right with the lesson in the skill; without it, that much less often
LESSON = "Say the total in whole cents."
SKILL = """---
name: clerk
description: Use when closing the ledger of a month.
---
# Clerk

- Add all entries of the month, also those that were booked late.
- Leave out entries that were refunded within the month.
- Count entries in another currency at the rate that is named with them.
- Ask nobody for an entry that has no receipt, and count it.
"""
CORRECTION, THANKS = "No, say the total in whole cents.", "Thanks, that is right."
_SUBJECT = re.compile(r"^## Subject (\d+): a (\w+)[^\n]*\n\n(.*?)(?=^## Subject|\Z)", re.MULTILINE | re.DOTALL)
_ENTRIES = re.compile(r"entries (\d+)\.00 and (\d+)\.00")


def request(n: int) -> str:
    return f"Close the ledger of month {n}: entries {100 + 7 * n}.00 and {200 + 13 * n}.00."


ASKED = {"claude-code": request(1), "codex": request(2)}


def answer_to(prompt: str, *, is_right: bool) -> str:
    [(one, two)] = _ENTRIES.findall(prompt)
    return f"The total is {int(one) + int(two)}{'00 cents' if is_right else '.00 EUR'}."


@dataclass
class World:
    """The models that two hosts ask: what they answer, what each was asked for, and what a session was shown."""

    setting: Setting
    runs: Counter[str] = field(default_factory=Counter)
    attempts: Counter[tuple[str, bool]] = field(default_factory=Counter)
    calls: list[str] = field(default_factory=list)
    results: list[Json] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    def talk(self, asked: Asked) -> Turn:
        """Open the skill, answer what a person asks, and do as they correct it."""
        host = "codex" if "input" in asked.body else "claude-code"
        if not asked.tools:
            return ["ok"]
        if not asked.n_results:
            return [opening(host, "clerk")]
        is_right = CORRECTION in asked.text
        return ["You are welcome." if THANKS in asked.text else answer_to(ASKED[host], is_right=is_right)]

    def work(self, asked: Asked) -> Turn:
        """Train in a session of the host, or do the work of one of its runs: draft, attempt a task, or reflect."""
        if PROMPT in asked.text:
            self.shown.append(asked.text)
            return self._train(asked) if asked.tools else ["ok"]
        if is_rollout(asked):
            if not asked.n_results:
                return [opening("codex", "clerk")]
            self.runs["attempts"] += 1
            [prompt] = set(_ENTRIES.findall(asked.text))
            attempted = f"entries {prompt[0]}.00 and {prompt[1]}.00", LESSON in asked.text
            self.attempts[attempted] += 1
            chance = random.Random(f"{attempted} {self.attempts[attempted]}").random()
            return [answer_to(attempted[0], is_right=chance < RIGHT - (0 if attempted[1] else EFFECT))]
        if "## Subject" in asked.text:
            self.runs["drafting"] += 1
            return [json.dumps({"tasks": [self._draft(*found) for found in _SUBJECT.findall(asked.text)]})]
        self.runs["optimizer"] += 1
        self.shown.append(asked.text)
        return [json.dumps({"edits": [{"op": "append", "content": LESSON, "evidence": [1]}]})]

    def _draft(self, number: str, kind: str, text: str) -> Json:
        self.runs["drafted"] += 1
        prompt = next(each for each in ASKED.values() if each in text) if kind == "session" else ""
        prompt = prompt or request(10 + self.runs["drafted"])
        right = answer_to(prompt, is_right=True)
        return {
            "number": int(number), "prompt": f"{prompt} Reply with one line.", "kind": "contains",
            "expected": [right.removeprefix("The total is ").rstrip(".")], "accepted": right,
            "rejected": answer_to(prompt, is_right=False),
        }  # fmt: skip

    def _train(self, asked: Asked) -> Turn:
        """Do what each result's `next_step` says, up to the one that waits for a person."""
        self.results[:] = self.setting.results(asked.body)
        last = self.results[-1] if self.results else {"next_step": {"action": "list_skills", "arguments": {}}}
        step = last["next_step"]
        if (last.get("status") in ("held", "needs_approval") and step["command"]) or len(self.results) > MOST_CALLS:
            return ["done"]
        self.calls[len(self.results) :] = [step["action"]]
        return [ToolCall(step["action"], step["arguments"])]


def correct_answers(world: World) -> None:
    """Ask for one thing in Claude Code and for one in Codex, as a person at a terminal, and correct both answers."""
    setting = world.setting
    projects = {str(setting.project): {"hasTrustDialogAccepted": True}}
    known = {"hasCompletedOnboarding": True, "customApiKeyResponses": {"approved": [LOOPBACK_KEY], "rejected": []}}
    (setting.home / ".claude/.claude.json").write_text(json.dumps(known | {"projects": projects}))
    with setting.config.open("a") as config:
        config.write(f'\n[projects.{json.dumps(str(setting.project))}]\ntrust_level = "trusted"\n')
    for host, asked in ASKED.items():
        with answering(host, world.talk) as model:
            address = f"http://127.0.0.1:{model.port}"
            environment = setting.environment | {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": LOOPBACK_KEY}
            command = [os.environ["CLAUDE"], "--model", "claude-sonnet-4-5", "--allowedTools=Skill", asked]
            if host == "codex":
                environment["LOOPBACK_KEY"] = "loopback-only"
                command = [os.environ["CODEX"], "--no-daemon", "-c", 'sandbox_mode="danger-full-access"']
                command += ["-c", f'model_providers.loopback.base_url="{address}/v1"', asked]
            with in_terminal(command, setting.project, environment) as terminal:
                terminal.wait_for(answer_to(asked, is_right=False))
                for words, reply in ((CORRECTION, answer_to(asked, is_right=True)), (THANKS, "You are welcome.")):
                    terminal.press(words, until=words, again_s=5)
                    terminal.press("\r", until=reply, again_s=5)


def at_terminal(setting: Setting, *arguments: str, keys: dict[str, str], until: str) -> str:
    """What a person reads of a command of ours that asks for keys, up to a text."""
    with in_terminal([PROGRAM, *arguments], setting.project, setting.environment) as terminal:
        for question, pressed in keys.items():
            terminal.wait_for(question)
            os.write(terminal.descriptor, pressed.encode())
        return terminal.wait_for(until)


def promote_from_sessions(place: Path) -> tuple[World, dict[str, float]]:
    """The way from two sessions to a promoted edit; what it took, as the models on loopback and the host saw it."""
    begin, setting = time.monotonic(), setting_in(place, "CODEX")
    (setting.skill / "SKILL.md").write_text(SKILL)
    (setting.project / ".claude").mkdir()
    (setting.project / ".claude/skills").symlink_to("../.agents/skills")
    world = World(setting)
    correct_answers(world)
    with answering("codex", world.work) as model:
        spec = f"codex:base_url=http://127.0.0.1:{model.port}/v1"
        setting.ours("install", "codex", "--yes", "--target", spec, "--optimizer", spec)
        mined = {"Enter for nothing": "\n", "[y/N]": "y\n"}
        at_terminal(setting, "tasks", "mine", "clerk", "--sessions", "--optimizer", spec, keys=mined, until="Next:")
        at_terminal(setting, "tasks", "review", "clerk", keys={"[q]uit?": "a"}, until="Write them into")
        at_terminal(setting, "evaluate", "clerk", "--baseline", "--target", spec, keys={"[y/N]": "y\n"}, until="Next:")
        setting.session(model)
        step = world.results[-1]["next_step"]
        assert (setting.skill / "SKILL.md").read_text() == SKILL, "no agent alone"
        command = step["command"].split()
        assert command[:2] == ["skillopt-mcp", "promote"], world.results[-1]
        at_terminal(setting, *command[1:], keys={"[y/N]": "y\n"}, until="Promoted:")
    n_runs = sum(world.runs[each] for each in ("attempts", "drafting", "optimizer"))
    took = {
        "tool_calls": len(world.calls), "agent_runs": n_runs, **world.runs, "model_calls": len(model.asked),
        "seconds": round(time.monotonic() - begin, 1),
    }  # fmt: skip
    return world, took


def test_two_corrected_answers_become_a_promoted_edit_within_few_calls_and_runs(tmp_path: Path) -> None:
    for variable in ("CLAUDE", "CODEX"):
        _ = os.environ.get(variable) or pytest.skip(f"{variable} names no binary: see .ci/hosts")
    world, took = promote_from_sessions(tmp_path / "user")
    setting = world.setting
    assert (setting.skill / "SKILL.md").read_text() == f"{SKILL}\n{LESSON}\n"
    [row] = setting.ours("show", "clerk")["history"]["rows"]
    assert (row["kind"], row["verdict"], row["by"].split(",")[0]) == ("promote", "better", "person")
    assert len(world.calls) <= MOST_CALLS, world.calls
    assert int(took["agent_runs"]) <= MOST_RUNS, took
    tasks = setting.ours("tasks", "list", "clerk")["tasks"]
    entries: dict[str, set[str]] = {"train": set(), "test": set()}
    for each in tasks:
        entries[each["split"]] |= {found[0] for found in _ENTRIES.finditer(each["prompt"])}
    # The baseline attempted each once; the proposal learned from these attempts, and made none of its own.
    assert {world.attempts[each, False] for each in entries["train"]} == {1}
    assert {world.attempts[each, True] for each in entries["train"]} == {0}
    assert [each for each in entries["test"] if any(each in text for text in world.shown)] == []
    assert any(each in text for each in entries["train"] for text in world.shown)
