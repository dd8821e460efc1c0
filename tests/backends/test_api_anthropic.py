"""The anthropic backend: what is sent, what is read, and what a batch shares is paid once."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from api_calls import ENVIRON, REFLECT, ROLLOUT, SKILL, TASK, anthropic_at, ask, fault_of
from loopback import KEY, Act, Request, Said, Sent, loopback

from skillopt_mcp.backends.anthropic import open_anthropic
from skillopt_mcp.backends.api.prompts import strict_schema
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.errors import BackendError
from skillopt_mcp.records.calls import Call, Message, Reply, Rollout
from skillopt_mcp.records.replies import PatchReply
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile

LONG = SKILL.replaced(SkillFile(MAIN_FILE, b"# Skill\n" + b"- Be exact about every single number.\n" * 200))
CACHED = {"type": "ephemeral"}


def rollouts(n: int) -> list[Call]:
    return [ROLLOUT._replace(request=Rollout(LONG, replace(TASK, prompt=f"Do {i}")), draw=f"{i}") for i in range(n)]


def gathered(backend: Any, calls: list[Call]) -> list[Reply]:
    async def all_of() -> list[Reply]:
        return await asyncio.gather(*(backend.complete(call) for call in calls))

    return asyncio.run(all_of())


def test_a_rollout() -> None:
    with loopback(Said("42", thinking="six times seven")) as server:
        reply = ask(anthropic_at(server.url, "thinking=2000", "effort=low"))
        sent = server.requests[0]
    assert (reply.text, reply.messages) == ("42", (Message("assistant", "six times seven", "thinking"),))
    assert (sent.path, sent.headers["authorization"]) == ("/v1/messages", f"Bearer {KEY}")
    assert sent.body == {
        "model": "test-model",
        "max_tokens": 16_000,
        "system": [{"type": "text", "text": sent.system, "cache_control": CACHED}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": sent.user}]}],
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "output_config": {"effort": "low"},
    }
    assert "- Be exact." in sent.system
    assert sent.user == "What is 6 x 7?\n\n## Files\n\n### a.txt\n\n```\nsix\n```"


def test_a_question_is_held_to_its_schema_with_the_skill_cached_behind_the_instructions() -> None:
    with loopback('{"edits": []}') as server:
        assert ask(anthropic_at(server.url), REFLECT).text == '{"edits": []}'
        body = server.requests[0].body
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": strict_schema(PatchReply)}}
    assert body["system"] == [{"type": "text", "text": "Propose edits."}]
    shared, own = body["messages"][0]["content"]
    assert (shared["cache_control"], "cache_control" in own) == (CACHED, False)
    assert shared["text"].endswith("## Evidence\n\n")
    assert shared["text"] + own["text"] == REFLECT.request.evidence


def test_a_server_without_schemas_is_asked_once_with_and_then_without() -> None:
    error = b'{"type": "error", "error": {"type": "invalid_request_error", "message": "output_config: unknown"}}'

    def act(n: int, request: Request) -> Act:
        return Sent(400, error) if "output_config" in request.body else '{"edits": []}'

    with loopback(act) as server:
        backend = anthropic_at(server.url)
        assert [ask(backend, REFLECT).text for _ in range(3)] == ['{"edits": []}'] * 3
        assert len(server.requests) == 4


def test_a_batch_that_is_sent_at_once_pays_its_skill_once() -> None:
    with loopback("42", latency_s=0.05) as server:
        replies = gathered(anthropic_at(server.url), rollouts(12))
    n_skill = len(LONG.text) // 4
    in_full = [reply for reply in replies if reply.usage.tokens_cached == 0]
    assert len(in_full) == 1
    assert all(reply.usage.tokens_cached > n_skill for reply in replies if reply not in in_full)
    assert len({reply.usage.tokens_in for reply in replies}) <= 2


def test_a_batch_does_not_queue_behind_a_failure() -> None:
    async def all_of() -> list[object]:
        return await asyncio.gather(*(backend.complete(call) for call in rollouts(6)), return_exceptions=True)

    with loopback(Sent(500), latency_s=0.1) as server:
        backend = anthropic_at(server.url)
        assert [type(reply) for reply in asyncio.run(all_of())] == [BackendFault] * 6
        assert server.most_at_once > 1


def test_cached_tokens_cost_less(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    with loopback("42") as server:
        prices = tmp_path / "prices.toml"
        line = "test-model = { input = 4.0, cached = 0.4, cache_write = 5.0, output = 20.0 }"
        prices.write_text(f'as_of = "2026-01-01"\n["{server.host}"]\n{line}\n')
        backend = anthropic_at(server.url, environ=ENVIRON | {"SKILLOPT_PRICES": str(prices)})
        first, second = (ask(backend, call).usage for call in rollouts(2))
    n_cached, n_fresh = second.tokens_cached, second.tokens_in - second.tokens_cached
    assert second.usd == pytest.approx((n_cached * 0.4 + n_fresh * 4.0 + second.tokens_out * 20.0) / 1e6)
    assert first.usd == pytest.approx((n_cached * 5.0 + n_fresh * 4.0 + first.tokens_out * 20.0) / 1e6)


@pytest.mark.parametrize(
    ("end", "fault"),
    [("max_tokens", "truncated"), ("refusal", "refusal"), ("model_context_window_exceeded", "context_too_long")],
)
def test_an_answer_that_did_not_end_is_a_fault_with_what_it_cost(end: str, fault: str) -> None:
    with loopback(Said("4", end=end)) as server:
        found = fault_of(anthropic_at(server.url, "price_in=1", "price_cache_write=1", "price_out=1"))
    assert found.fault == fault
    assert found.usage is not None
    assert found.usage.usd == pytest.approx((found.usage.tokens_in + found.usage.tokens_out) / 1e6)


@pytest.mark.parametrize("thinking", ["1000", "16000"])
def test_a_thinking_budget_that_the_api_refuses_is_refused_before(thinking: str) -> None:
    with pytest.raises(BackendError, match=r"'thinking' of 'anthropic:m' must be at least 1024, and less than max_tok"):
        open_anthropic(f"m,thinking={thinking}", ENVIRON)
