"""Agents: the output of a command line becomes a reply, and its spec says how it is opened."""

from __future__ import annotations

import json

import pytest
from agent_calls import ask, opened, rollout
from fake_host import FakeHost, claude_lines, codex_lines

from skillopt_mcp.backends.base import worst_case
from skillopt_mcp.backends.claude_code import open_claude_code
from skillopt_mcp.backends.codex import open_codex
from skillopt_mcp.costs import check_caps
from skillopt_mcp.errors import BackendError, BadInput
from skillopt_mcp.records.budgets import Caps
from skillopt_mcp.records.calls import TOOL_CALL, Message, Reply, Usage


def test_claude_code_gives_answer_transcript_tokens_and_cost(claude: FakeHost) -> None:
    tools = [("Skill", {"skill": "clerk"}, "Launching"), ("Read", {"file_path": "CWD/in/a.txt"}, "alpha in CWD/in")]
    claude.play(*claude_lines("the end", *tools))
    assert ask(opened(claude)) == Reply(
        "the end",
        (
            Message("skill", "opened", "clerk"),
            Message(TOOL_CALL, '{"skill":"clerk"}', "Skill"),
            Message("tool", "Launching", "Skill"),
            Message(TOOL_CALL, '{"file_path":"./in/a.txt"}', "Read"),
            Message("tool", "alpha in ./in", "Read"),
        ),
        Usage(tokens_in=43, tokens_out=6, usd=0.25, tokens_cached=30),
    )


def test_a_count_that_cannot_be_is_as_good_as_none(claude: FakeHost, codex: FakeHost) -> None:
    *lines, ending = claude_lines("the end")
    claude.play(*lines, {**ending, "total_cost_usd": -0.25})
    assert ask(opened(claude))[2] == Usage(estimated=True)
    *lines, ending = codex_lines("the end")
    codex.play(*lines, {**ending, "usage": {"input_tokens": -40, "output_tokens": 6}})
    assert ask(opened(codex))[2] == Usage(estimated=True)


def test_codex_gives_answer_transcript_and_tokens(codex: FakeHost) -> None:
    commands = [("/bin/bash -lc 'cat .agents/skills/clerk/SKILL.md'", "# Clerk\n", 0), ("false", "", 1)]
    codex.play(*codex_lines("the end", *commands))
    assert ask(opened(codex)) == Reply(
        "the end",
        (
            Message("skill", "opened", "clerk"),
            Message(TOOL_CALL, '{"command":"cat .agents/skills/clerk/SKILL.md"}', "shell"),
            Message("tool", "# Clerk\n", "shell"),
            Message(TOOL_CALL, '{"command":"false"}', "shell"),
            Message("tool", "\n[exit code 1]", "shell"),
        ),
        Usage(tokens_in=40, tokens_out=6, tokens_cached=30),
    )


def test_what_codex_does_not_print_is_found_in_its_session(codex: FakeHost) -> None:
    command = json.dumps({"cmd": "cat CWD/.agents/skills/clerk/SKILL.md"})
    items: list[dict[str, object]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Do it."}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "x"},
        {"type": "function_call", "name": "exec_command", "arguments": command, "call_id": "1"},
        {"type": "function_call_output", "call_id": "1", "output": "Process exited with code 2\nOutput:\nno\n"},
        {"type": "function_call", "name": "shell", "arguments": '{"command": ["bash", "-lc", "ls"]}', "call_id": "2"},
        {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "a.txt"}]},
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin", "call_id": "3"},
        {"type": "custom_tool_call_output", "call_id": "3", "output": "Done"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "the end"}]},
    ]
    used = {"input_tokens": 50, "cached_input_tokens": 20, "output_tokens": 7}
    counts = [{"type": "token_count", "info": {"total_token_usage": used}}, {"type": "token_count", "info": None}]
    rows = [{"type": "response_item", "payload": item} for item in items]
    rows += [{"type": "event_msg", "payload": payload} for payload in counts]
    rows += [{"type": "event_msg", "payload": {"type": "task_complete", "last_agent_message": "the end"}}]
    session = "\n".join(json.dumps(row) for row in rows)
    codex.play(*list(codex_lines("the end"))[-1:], files={"../../home/.codex/sessions/1/rollout-a.jsonl": session})
    assert ask(opened(codex)) == Reply(
        "the end",
        (
            Message("skill", "opened", "clerk"),
            Message("assistant", "Hm.", "thinking"),
            Message(TOOL_CALL, '{"command":"cat ./.agents/skills/clerk/SKILL.md"}', "shell"),
            Message("tool", "no\n\n[exit code 2]", "shell"),
            Message(TOOL_CALL, '{"command":"ls"}', "shell"),
            Message("tool", "a.txt", "shell"),
            Message(TOOL_CALL, '{"input":"*** Begin"}', "apply_patch"),
            Message("tool", "Done", "apply_patch"),
        ),
        Usage(tokens_in=50, tokens_out=7, tokens_cached=20),
    )


def test_a_skill_that_was_not_opened_is_recorded_as_such(claude: FakeHost) -> None:
    claude.play(*claude_lines("done", ("Glob", {"pattern": "skills/clerk/*"}, "SKILL.md")))
    assert ask(opened(claude)).messages[0] == Message("skill", "not opened", "clerk")


def test_a_spec_is_spelled_back_and_the_version_is_part_of_the_fingerprint(claude: FakeHost) -> None:
    backend = opened(claude, "opus,tools=Read+Bash,timeout=30")
    assert backend.name == f"claude-code:opus,timeout=30.0,tools=Read+Bash,binary={claude.path}"
    assert backend.fingerprint == ("claude-code:opus,tools=Read+Bash,sandbox=on,at=api.anthropic.com,version=9.8.7")
    assert opened(claude, "opus,tools=Read+Bash").fingerprint == backend.fingerprint


def test_bash_is_confined_unless_said_otherwise(claude: FakeHost) -> None:
    claude.play(*claude_lines())
    lines = []
    for spec in ("m,tools=Read+Bash", "m,tools=Read+Bash,sandbox=off", "m"):
        ask(opened(claude, spec))
        line = claude.seen["argv"]
        settings = json.loads(line[line.index("--settings") + 1])
        allowed = line[line.index("--allowedTools") + 1] if "--allowedTools" in line else ""
        lines.append((settings.get("sandbox", {}).get("failIfUnavailable"), allowed))
    assert lines == [(True, ""), (None, "Bash"), (None, "Skill")]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("m,tools=rm -rf", "'tools' of 'claude-code:m' cannot be used"),
        ("m,binary=/nowhere/claude", r"the program '/nowhere/claude' is not found: install Claude Code \(npm install"),
    ],
)
def test_a_spec_that_cannot_be_used_is_explained(spec: str, words: str) -> None:
    with pytest.raises(BackendError, match=words):
        open_claude_code(spec, {"PATH": "/usr/bin:/bin"})


def test_codex_sends_no_key_unencrypted(codex: FakeHost) -> None:
    with pytest.raises(BackendError, match="unencrypted"):
        opened(codex, "m,base_url=http://example.org/v1")


def test_a_cap_on_money_holds_where_a_rollout_has_a_budget_and_none_on_tokens_does(
    claude: FakeHost, codex: FakeHost
) -> None:
    budgeted = open_claude_code(f"m,binary={claude.path},max_usd=0.5")
    check_caps(Caps(usd=10), {"target": budgeted})
    assert worst_case(budgeted, rollout()) == Usage(usd=0.5)
    with pytest.raises(BadInput, match=r"limits money, not tokens: cap the money \(--max-usd\)"):
        check_caps(Caps(tokens=10_000, usd=10), {"target": budgeted})
    with pytest.raises(BadInput, match=r"caps on tokens or money cannot hold: write max_usd=N in its spec"):
        check_caps(Caps(usd=10), {"target": open_claude_code(f"m,binary={claude.path}")})
    with pytest.raises(BadInput, match=r"caps on tokens or money cannot hold: cap the calls \(--max-calls\)"):
        check_caps(Caps(usd=10), {"target": open_codex(f"m,binary={codex.path}")})
