"""The common prefix: what all questions of a step begin with is marked for a vendor's cache, and is most of them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from memory_ask import BRIEF, PROMPTS, SKILL, MemoryAsk, attempt

from skillopt_mcp.backends import anthropic, openai
from skillopt_mcp.backends.api.prompts import prompt_of
from skillopt_mcp.core.calls import Call, Message, Question
from skillopt_mcp.core.evidence import Longitudinal, Mean
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.prompts.rendering import FORMS, UpdateMode, fence
from skillopt_mcp.training.stages.aggregate import aggregate
from skillopt_mcp.training.stages.longitudinal import VersionComparison, meta_skill, slow_update
from skillopt_mcp.training.stages.reflect import ReflectSettings, reflect
from skillopt_mcp.training.stages.select import autonomous_budget, select
from skillopt_mcp.training.stages.update import update

LONG = SkillFiles((SkillFile(MAIN_FILE, b"# Clerk\n\n" + b"- Read every line of the page twice.\n" * 162),))
REPLY = json.dumps(
    {
        "edits": [{"op": "append", "content": f"- Rule {n}: compare the total with its parts.\n"} for n in range(8)],
        "suggestions": [{"instruction": f"Rule {n}: compare the total with its parts.", "where": ""} for n in range(8)],
        "skill": LONG.text + "- New.\n", "merged_from": [], "ranking": [1], "n": 2, "guidance": "- Mind it.",
        "notes": "- Less.",
    }
)  # fmt: skip


def step_calls(files: SkillFiles, mode: UpdateMode = "patch") -> list[Call]:
    """Return all optimizer calls of a step over 40 attempts, whose transcripts have 4 KB, and of its epoch's end."""
    ask = MemoryAsk(lambda call: REPLY)
    said = (Message("assistant", "I read the entry of the ledger, and carry it to the next line. " * 64),)
    attempts = [replace(attempt(n, n % 2 == 0), messages=said, task_id=n) for n in range(40)]
    brief = replace(BRIEF, mode=mode, history="- step 1: reject")
    reflection = reflect(ask, files, attempts, brief, ReflectSettings())
    patch = aggregate(ask, files, reflection.patches, brief, 8).patch
    autonomous_budget(ask, files, patch, brief, Mean(0.5, 0.5, 40), fallback=2)
    update(ask, files, select(ask, files, patch, brief).patch, brief)
    pair = Longitudinal(attempts[0], attempts[1])
    slow_update(ask, VersionComparison(SKILL, files, (pair,), ()), brief, 12_000)
    meta_skill(ask, files, None, replace(brief, history="- step 1: reject; tried: x"), 12_000)
    return ask.sent


@pytest.mark.parametrize("mode", FORMS)
def test_all_questions_of_a_step_begin_with_one_marked_prefix_that_holds_the_skill(mode: UpdateMode) -> None:
    options = anthropic.AnthropicOptions(model="m")
    calls = step_calls(LONG, mode)
    bodies = [anthropic.request_body(prompt_of(call), options, structured=True) for call in calls]
    systems = [[block["text"] for block in body["system"]] for body in bodies]  # type: ignore[attr-defined]
    [first] = {system[0] for system in systems}
    assert {"reflect", "merge", "slow_update", "meta_skill"} <= {call.stage for call in calls}
    assert first.startswith(PROMPTS.preamble)
    assert first.endswith(f"## Skill\n\n{fence(LONG.text, 'skill')}\n\n")
    assert all("cache_control" in block for body in bodies for block in body["system"])  # type: ignore[attr-defined]
    # What earlier steps tried has a mark of its own: it is another in the next step, and where notes are written.
    assert sorted(Counter(system[1] for system in systems).values()) == [1, len(calls) - 1]
    for call, body in zip(calls, bodies, strict=True):
        [message] = body["messages"]  # type: ignore[misc]
        [block] = message["content"]
        assert "cache_control" not in block
        assert isinstance(call.request, Question)
        assert call.request.instructions.endswith(block["text"].partition("\n\n## Evidence\n\n")[0])
        assert call.request.evidence.endswith(block["text"].partition("\n\n## Evidence\n\n")[2])


def test_most_of_what_the_questions_about_a_skill_of_6_kb_send_lies_in_the_prefix() -> None:
    prompts = [prompt_of(call) for call in step_calls(LONG)]
    shared = sum(len(prompt.system) for prompt in prompts)
    assert len(LONG.text) < 6_050
    assert shared / (shared + sum(len(prompt.user) for prompt in prompts)) >= 0.6


def test_reflection_sends_less_than_half_of_what_its_attempts_hold() -> None:
    sent = sum(len(prompt_of(call).user) for call in step_calls(SKILL) if call.stage == "reflect")
    assert 40 * 800 < sent < 40 * 4_096 / 2


def test_whole_texts_are_merged_by_what_they_change() -> None:
    calls = [call for call in step_calls(LONG, "full_rewrite_minibatch") if call.stage == "merge"]
    bodies = [prompt_of(call).user.partition("## Evidence\n\n")[2] for call in calls]
    assert [body.count("```diff\n") for body in bodies] == [3, 3, 2]
    assert [body.count("\n+- New.\n") for body in bodies] == [3, 3, 2]
    assert max(map(len, bodies)) < 2_000
    another = SkillFiles((SkillFile(MAIN_FILE, b"# Clerk\n\nGuess.\n"),))
    merges = [call for call in step_calls(another, "full_rewrite_minibatch") if call.stage == "merge"]
    assert all(f"```text\n{LONG.text}- New.\n```" in prompt_of(call).user for call in merges)


def test_openai_is_given_one_key_for_all_questions_about_a_skill() -> None:
    backend = openai.open_openai("m", {"OPENAI_API_KEY": "k"})
    keys = []
    for files in (SKILL, LONG):
        prompts = [prompt_of(call) for call in step_calls(files)]
        dialects = [replace(backend.dialect, api=api) for api in ("responses", "chat")]
        bodies = [openai.request_body(each, backend.options, way) for each in prompts for way in dialects]
        [key] = {str(body["prompt_cache_key"]) for body in bodies}
        keys.append(key)
    assert keys[0] != keys[1]
    assert max(map(len, keys)) <= 64
