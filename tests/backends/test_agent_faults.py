"""Agent faults: what goes wrong with a command line is named, with what to do, and never holds a secret."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from agent_calls import KEY, ask, fault, opened
from fake_host import FakeHost, claude_lines, codex_lines

from skillopt_mcp.backends.agents.backend import fault_of
from skillopt_mcp.backends.agents.claude_events import read_claude
from skillopt_mcp.backends.agents.codex_events import read_codex
from skillopt_mcp.backends.agents.events import AgentEvents
from skillopt_mcp.records.calls import Fault, Usage

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
