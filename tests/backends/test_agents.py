"""Agents: the output of a command line becomes a reply or a fault, and its spec says how it is opened."""

from __future__ import annotations

import hashlib
import json
import signal
import tomllib
from pathlib import Path

import pytest
from agent_calls import KEY, ask, fault, opened, rollout

from skillopt_mcp.backends.agents.backend import fault_of
from skillopt_mcp.backends.agents.claude_events import read_claude
from skillopt_mcp.backends.agents.codex_events import read_codex
from skillopt_mcp.backends.agents.events import AgentEvents
from skillopt_mcp.backends.base import worst_case
from skillopt_mcp.backends.claude_code import open_claude_code
from skillopt_mcp.backends.codex import open_codex
from skillopt_mcp.backends.registry import without_options
from skillopt_mcp.core.budgets import Caps
from skillopt_mcp.core.calls import TOOL_CALL, Fault, Message, Reply, Usage
from skillopt_mcp.core.errors import BackendError, BadInput
from skillopt_mcp.workspace.models import check_caps
from tests.fake_host import FakeHost, claude_lines, codex_lines


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
            Message("skill", "not opened", "clerk"),
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
    assert backend.name == f"claude-code:opus,timeout=30.0,binary={claude.path},tools=Read+Bash"
    place = f"at=api.anthropic.com,program={claude.path}@{hashlib.sha256(claude.path.read_bytes()).hexdigest()[:12]}"
    assert backend.fingerprint == f"claude-code:opus,tools=Read+Bash,sandbox=on,{place},version=9.8.7"
    assert opened(claude, "opus,tools=Read+Bash").fingerprint == backend.fingerprint


@pytest.mark.parametrize("text", ['{"model": "opus"}', "{}", "{", None])
def test_without_a_model_the_persons_current_one_answers(text: str | None, claude: FakeHost, tmp_path: Path) -> None:
    claude.play(*claude_lines())
    if text is not None:
        (tmp_path / "settings.json").write_text(text)
    backend = opened(claude, "timeout=30", CLAUDE_CONFIG_DIR=str(tmp_path))
    assert (backend.name, without_options(backend.name)) == (
        f"claude-code:timeout=30.0,binary={claude.path}", "claude-code",
    )  # fmt: skip
    assert backend.fingerprint.startswith("claude-code:tools=")
    ask(backend)
    line = claude.seen["argv"]
    assert "--model" not in line
    assert json.loads(line[line.index("--settings") + 1]).get("model") == ("opus" if text and "opus" in text else None)


@pytest.mark.parametrize("model", ["", "gpt-6"])
def test_codex_without_a_model_is_given_the_one_of_the_persons_configuration(
    model: str, codex: FakeHost, tmp_path: Path
) -> None:
    codex.play(*codex_lines())
    (tmp_path / "config.toml").write_text(f'model = "{model}"\nmodel_reasoning_effort = "high"\n' if model else "")
    ask(opened(codex, "timeout=30", CODEX_HOME=str(tmp_path)))
    config = tomllib.loads(codex.seen["files"]["home/.codex/config.toml"][0])
    assert config.get("model", "") == model
    assert "model_reasoning_effort" not in config


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


_FAILED: dict[str, object] = {"is_error": True, "stop_reason": "stop_sequence"}


def claude_events(code: str | None, **result: object) -> AgentEvents:
    message = {"type": "assistant", "error": code, "message": {"content": [{"type": "text", "text": "failed"}]}}
    ending: dict[str, object] = {"type": "result", "subtype": "success", **_FAILED, **result}
    return read_claude(f"{json.dumps(message)}\n{json.dumps(ending)}\n")


@pytest.mark.parametrize(
    ("code", "result", "wanted"),
    [
        ("authentication_failed", {"result": "Not logged in · Please run /login"}, "auth"),
        ("billing_error", {"result": "Credit balance is too low", "api_error_status": 400}, "auth"),
        ("model_not_found", {"result": "There's an issue", "api_error_status": 404}, "model_not_found"),
        ("rate_limit", {"result": "API Error: Request rejected (429)", "api_error_status": 429}, "rate_limit"),
        ("server_error", {"result": "API Error: 529 Overloaded.", "api_error_status": 529}, "overloaded"),
        ("server_error", {"result": "API Error: 500 boom", "api_error_status": 500}, "server"),
        ("server_error", {"result": "API Error: anything", "api_error": "connection_failed"}, "connection"),
        ("server_error", {"result": "API Error: Request timed out."}, "connection"),
        ("invalid_request", {"result": "Prompt is too long", "api_error_status": 400}, "context_too_long"),
        ("invalid_request", {"result": "API Error: no", "stop_reason": "refusal"}, "refusal"),
        ("max_output_tokens", {"result": "API Error: exceeded"}, "truncated"),
        (None, {"subtype": "error_max_budget_usd", "result": ""}, "truncated"),
        ("unknown", {"result": "API Error: API returned an empty or malformed response (HTTP 200)"}, "connection"),
        (None, {"subtype": "error_during_execution", "errors": ["Sandbox required but unavailable"]}, "unsupported"),
    ],
)
def test_a_failure_of_claude_code_is_a_fault(code: str | None, result: dict[str, object], wanted: Fault) -> None:
    assert claude_events(code, **result).fault == wanted


def test_a_fault_names_the_program_the_cause_the_fix_and_the_cost(claude: FakeHost) -> None:
    [*_, ending] = claude_lines()
    claude.play({**ending, **_FAILED, "result": "Not logged in · Please run /login"}, exit=1)
    found = fault(opened(claude))
    assert (found.fault, found.usage) == ("auth", Usage(tokens_in=43, tokens_out=6, usd=0.25, tokens_cached=30))
    assert str(found) == (
        "Claude Code: Not logged in · Please run /login; log in (run `claude`, then /login), or set ANTHROPIC_API_KEY "
        "in the environment; settings files are not read"
    )


@pytest.mark.parametrize(
    "words",
    [
        "API Error: Can't reach the API server — check your internet or DNS (ENOTFOUND)",
        "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
        "API Error: Couldn't connect through your proxy (ERR_PROXY_TUNNEL)",
        "Request timed out. Check your internet connection and proxy settings",
        "connect ETIMEDOUT 192.0.2.1:443",
        "TypeError: fetch failed",
        "Connection failed: error sending request",
        "dns error: failed to lookup address information: Temporary failure in name resolution",
    ],
)
def test_a_lost_network_is_a_connection_fault(words: str) -> None:
    assert fault_of(words) == "connection"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("unexpected status 401 Unauthorized: no, url: http://x", "auth"),
        ("Quota exceeded. Check your plan and billing details.", "auth"),
        ("The model `nope` does not exist or you do not have access to it.", "model_not_found"),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limit"),
        ("unexpected status 503 Service Unavailable: busy", "overloaded"),
        ("Codex ran out of room in the model's context window.", "context_too_long"),
        ("Incomplete response returned, reason: max_output_tokens", "truncated"),
        ("stream disconnected before completion: Incomplete response returned, reason: content_filter", "refusal"),
        ("stream disconnected before completion: stream closed before response.completed", "connection"),
        ("unexpected status 502 Bad Gateway", "server"),
        ('{"error": {"code": "unsupported_parameter"}}', "unsupported"),
    ],
)
def test_a_failure_of_codex_is_a_fault(words: str, wanted: Fault) -> None:
    assert read_codex(json.dumps({"type": "turn.failed", "error": {"message": words}}), "").fault == wanted


def test_a_turn_that_failed_and_was_made_good_is_no_fault(codex: FakeHost) -> None:
    codex.play({"type": "turn.failed", "error": {"message": "no"}}, *codex_lines("good"))
    assert ask(opened(codex)).text == "good"


@pytest.mark.parametrize(
    ("plan", "wanted", "words"),
    [
        ({}, "malformed", "have no end"),
        ({"exit": 1, "errors": "error: unknown option '--tools'"}, "unsupported", "unknown option"),
        ({"exit": 3, "errors": f"panic, {KEY}"}, "internal", "exit code 3: panic, $ANTHROPIC_API_KEY"),
        ({"signal": signal.SIGKILL}, "malformed", "signal 9"),
        ({"exit": 1, "errors": "Error: connection refused"}, "connection", "connection refused"),
    ],
)
def test_a_program_that_ends_without_a_word_is_a_fault(
    plan: dict[str, object], wanted: Fault, words: str, claude: FakeHost
) -> None:
    claude.play({"type": "system"}, **plan)
    found = fault(opened(claude))
    assert (found.fault, words in str(found), KEY in str(found)) == (wanted, True, False)


def test_no_part_of_a_secret_is_left_in_a_fault_that_is_cut(claude: FakeHost, codex: FakeHost) -> None:
    secret = "ghp_QmZxWkVtRjabQmZxWkcdVtRjefQmZxWkVtRjab"
    parts = {secret[at : at + 6] for at in range(4, len(secret) - 5)}
    for back in range(1, len(secret) + 6, 6):
        words = f"{'words ' * 30} {secret} {'so it ended ' * 60}"
        tail = words[: words.index(secret) + back + 250].rstrip()  # its last 250 characters begin within the secret
        claude.play({"type": "system"}, exit=3, errors=tail)
        codex.play({"type": "turn.failed", "error": {"message": f"{'x ' * 150}"[: 297 - back] + f" {secret} ended"}})
        for host in (claude, codex):
            said = str(fault(opened(host)))
            assert (len(said) < 500, [part for part in parts if part in said]) == (True, [])


def test_a_failure_that_a_transcript_quotes_is_no_reason_to_retry(claude: FakeHost) -> None:
    for quoted in ("connection refused", "rate limit reached", "request timed out", "API Error: 503"):
        claude.play({"type": "assistant", "message": {"content": [{"type": "text", "text": quoted}]}}, exit=1)
        assert fault(opened(claude)).fault == "internal"


def test_no_secret_comes_back_in_answers_transcripts_or_faults(claude: FakeHost, tmp_path: Path) -> None:
    login = tmp_path / "home" / ".claude" / ".credentials.json"
    login.parent.mkdir(parents=True)
    login.write_text('{"claudeAiOauth": {"accessToken": "sk-ant-oat01-of-the-login"}}')
    claude.play(*claude_lines(f"it is {KEY}", ("Bash", {"command": f"echo {KEY}"}, "sk-ant-oat01-of-the-login")))
    kept = repr(ask(opened(claude)))
    assert KEY not in kept
    assert "oat01" not in kept
    assert "it is $ANTHROPIC_API_KEY" in kept
