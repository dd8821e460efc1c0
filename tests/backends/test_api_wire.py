"""The backends over HTTP: what is sent, what is read, and how they give way to servers that understand less."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from api_calls import ENVIRON, REFLECT, ROLLOUT, SKILL, TASK, Opener, anthropic_at, ask, chat_at, fault_of, openai_at
from loopback import KEY, Act, Request, Said, Sent, _chat, _message, _responses, loopback

from skillopt_mcp.backends.anthropic import open_anthropic
from skillopt_mcp.backends.api.prompts import strict_schema
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.openai import open_openai
from skillopt_mcp.core.calls import Call, Message, Reply, Rollout, Usage
from skillopt_mcp.core.errors import BackendError
from skillopt_mcp.core.replies import PatchReply
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile

OPENERS = [openai_at, chat_at, anthropic_at]
JSON = {"content-type": "application/json"}
CACHED = {"type": "ephemeral"}
LONG = SKILL.replaced(SkillFile(MAIN_FILE, b"# Skill\n" + b"- Be exact about every single number.\n" * 200))
PRICED = ("price_in=1", "price_out=2", "max_tokens=50")


def rejected(message: str) -> Sent:
    return Sent(400, json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode(), JSON)


@pytest.mark.parametrize(
    ("opener", "options", "path", "body"),
    [
        (
            openai_at,
            ("effort=low", "temperature=0.5", "max_tokens=100"),
            "/v1/responses",
            {"temperature": 0.5, "max_output_tokens": 100, "reasoning": {"effort": "low"}, "store": False},
        ),
        (
            chat_at,
            ("effort=low", "max_tokens=100"),
            "/v1/chat/completions",
            {"reasoning_effort": "low", "max_tokens": 100},
        ),
        (
            anthropic_at,
            ("thinking=2000", "effort=low"),
            "/v1/messages",
            {
                "max_tokens": 16_000,
                "thinking": {"type": "enabled", "budget_tokens": 2000},
                "output_config": {"effort": "low"},
            },
        ),
    ],
)
def test_a_rollout(opener: Opener, options: tuple[str, ...], path: str, body: dict[str, object]) -> None:
    with loopback(Said("42", thinking="six times seven")) as server:
        reply = ask(opener(server.url, *options))
        sent = server.requests[0]
    assert (reply.text, reply.messages) == ("42", (Message("assistant", "six times seven", "thinking"),))
    assert (sent.path, sent.headers["authorization"]) == (path, f"Bearer {KEY}")
    prompt = ("instructions", "input", "messages", "system")
    assert {name: value for name, value in sent.body.items() if name not in prompt} == {"model": "test-model", **body}
    assert "- Be exact." in sent.system
    assert sent.user == "What is 6 x 7?\n\n## Files\n\n### a.txt\n\n```\nsix\n```"
    assert opener is anthropic_at or reply.usage == Usage(1000, 20, None, 0.0, 600)


@pytest.mark.parametrize("opener", OPENERS)
def test_a_question_is_held_to_the_schema_of_its_reply(opener: Opener) -> None:
    with loopback('{"edits": []}') as server:
        assert ask(opener(server.url), REFLECT).text == '{"edits": []}'
        body = server.requests[0].body
    if opener is anthropic_at:
        assert body["output_config"] == {"format": {"type": "json_schema", "schema": strict_schema(PatchReply)}}
        return
    found = body["text"]["format"] if "text" in body else body["response_format"]["json_schema"]
    assert (found["name"], found["strict"], found["schema"]) == ("PatchReply", True, strict_schema(PatchReply))


@pytest.mark.parametrize("opener", OPENERS)
def test_a_server_without_schemas_is_asked_once_with_and_then_without(opener: Opener) -> None:
    def act(n: int, request: Request) -> Act:
        has_schema = request.body.keys() & {"text", "response_format", "output_config"}
        return rejected("json_schema is unavailable now") if has_schema else '{"edits": []}'

    with loopback(act) as server:
        backend = opener(server.url)
        assert [ask(backend, REFLECT).text for _ in range(3)] == ['{"edits": []}'] * 3
        assert len(server.requests) == 4


def test_a_server_without_responses_is_asked_once_and_then_by_chat() -> None:
    def act(n: int, request: Request) -> Act:
        return Sent(404, b'{"detail": "Not Found"}', JSON) if request.path.endswith("/responses") else "42"

    with loopback(act) as server:
        backend = openai_at(server.url)
        assert [ask(backend).text for _ in range(3)] == ["42"] * 3
        assert [request.path.rpartition("/")[2] for request in server.requests] == ["responses"] + ["completions"] * 3


def test_a_missing_model_is_not_taken_for_a_missing_api() -> None:
    gone = Sent(404, b'{"error": {"message": "The model `test-model` does not exist", "code": "model_not_found"}}')
    with loopback(gone) as server:
        fault = fault_of(openai_at(server.url))
        assert len(server.requests) == 1
    assert (fault.fault, "check the model's name and the base URL" in fault.message) == ("model_not_found", True)


def test_a_server_that_answers_responses_in_the_shape_of_chat_is_a_fault_with_its_fix() -> None:
    body = {"choices": [{"message": {"content": "42"}, "finish_reason": "stop"}]}
    with loopback(Sent(200, json.dumps(body).encode(), JSON)) as server:
        fault = fault_of(openai_at(server.url))
        assert ask(chat_at(server.url)).text == "42"
    assert (fault.fault, "name that API in the spec: openai:test-model,api=chat" in fault.message) == (
        "unsupported",
        True,
    )


def test_a_limit_is_sent_by_the_name_that_the_server_knows() -> None:
    def act(n: int, request: Request) -> Act:
        known = "max_completion_tokens" in request.body
        return "42" if known else rejected("Unsupported parameter: 'max_tokens' is not supported")

    with loopback(act) as server:
        backend = chat_at(server.url, "max_tokens=9")
        assert [ask(backend).text for _ in range(2)] == ["42", "42"]
        assert len(server.requests) == 3


def test_thoughts_in_the_text_are_taken_out_of_the_answer() -> None:
    with loopback("<think>\nsix times seven\n</think>\n\n42") as server:
        reply = ask(chat_at(server.url))
    assert (reply.text, reply.messages) == ("42", (Message("assistant", "six times seven", "thinking"),))


def test_azure_is_asked_at_its_deployment_with_a_key_or_an_identity_token() -> None:
    def environ(**more: str) -> dict[str, str]:
        return {"AZURE_OPENAI_ENDPOINT": server.url, "OPENAI_API_VERSION": "2026-01-01", **more}

    with loopback("42") as server:
        assert ask(open_openai("mine,azure=on", environ(AZURE_OPENAI_API_KEY=KEY))).text == "42"
        assert ask(open_openai("mine,azure=on,api=chat", environ(AZURE_OPENAI_AD_TOKEN=KEY))).text == "42"
        by_key, by_token = server.requests
    assert by_key.path == "/openai/responses?api-version=2026-01-01"
    assert (by_key.headers["api-key"], by_key.headers.get("authorization")) == (KEY, None)
    assert by_token.path == "/openai/deployments/mine/chat/completions?api-version=2026-01-01"
    assert (by_token.headers.get("api-key"), by_token.headers["authorization"]) == (None, f"Bearer {KEY}")


def test_many_calls_at_once_share_one_client_and_each_event_loop_has_its_own() -> None:
    async def many() -> list[str]:
        return [reply.text for reply in await asyncio.gather(*(backend.complete(ROLLOUT) for _ in range(60)))]

    with loopback("42", latency_s=0.05) as server:
        backend = open_openai(f"m,base_url={server.url}/v1", ENVIRON)
        with asyncio.Runner() as one:
            assert one.run(many()) == ["42"] * 60
            assert one.run(many()) == ["42"] * 60
            assert len(backend.pools._held) == 1
        with asyncio.Runner() as other:
            assert other.run(many()) == ["42"] * 60
        assert len(backend.pools._held) == 0


def rollouts(n: int) -> list[Call]:
    return [ROLLOUT._replace(request=Rollout(LONG, replace(TASK, prompt=f"Do {i}")), draw=f"{i}") for i in range(n)]


def gathered(backend: Any, calls: list[Call]) -> list[Reply | BaseException]:
    async def all_of() -> list[Reply | BaseException]:
        return await asyncio.gather(*(backend.complete(call) for call in calls), return_exceptions=True)

    return asyncio.run(all_of())


def test_what_many_calls_share_is_cached_behind_the_instructions() -> None:
    with loopback('{"edits": []}') as server:
        ask(anthropic_at(server.url), REFLECT)
        body = server.requests[0].body
    assert body["system"] == [{"type": "text", "text": "Propose edits."}]
    shared, own = body["messages"][0]["content"]
    assert (shared["cache_control"], "cache_control" in own) == (CACHED, False)
    assert shared["text"].endswith("## Evidence\n\n")
    assert shared["text"] + own["text"] == REFLECT.request.evidence


def test_calls_that_are_sent_at_once_pay_their_skill_once() -> None:
    with loopback("42", latency_s=0.05) as server:
        replies = gathered(anthropic_at(server.url), rollouts(12))
    n_skill = len(LONG.text) // 4
    cached = [reply.usage.tokens_cached for reply in replies if isinstance(reply, Reply)]
    assert sorted(n > n_skill for n in cached) == [False] + [True] * 11


def test_calls_do_not_queue_behind_a_failure() -> None:
    with loopback(Sent(500), latency_s=0.1) as server:
        assert [type(reply) for reply in gathered(anthropic_at(server.url), rollouts(6))] == [BackendFault] * 6
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


@pytest.mark.parametrize("thinking", ["1000", "16000"])
def test_a_thinking_budget_that_the_api_refuses_is_refused_before(thinking: str) -> None:
    with pytest.raises(BackendError, match=r"'thinking' of 'anthropic:m' must be at least 1024, and less than max_tok"):
        open_anthropic(f"m,thinking={thinking}", ENVIRON)


BODIES = {
    openai_at: _responses, chat_at: _chat, anthropic_at: lambda request, said: _message(request, said, was_cached=False)
}  # fmt: skip
NONE = {"input_tokens": 0, "output_tokens": 0, "prompt_tokens": 0, "completion_tokens": 0}


def using(opener: Opener, usage: Any, said: Said) -> Act | Any:
    """Return an act that answers with this usage, None for without one."""

    def act(_: int, request: Request) -> Act:
        body = BODIES[opener](request, said) | {"usage": usage}
        if usage is None:
            del body["usage"]
        return Sent(body=json.dumps(body).encode(), headers=JSON)

    return act


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(
    "usage",
    [
        None,
        NONE,
        NONE | {"input_tokens": 900, "prompt_tokens": 900},
        dict.fromkeys(NONE, -5),
        dict.fromkeys(NONE, 10**30),
    ],
)
def test_a_usage_that_is_missing_or_impossible_is_estimated_and_has_no_price(opener: Opener, usage: object) -> None:
    with loopback(using(opener, usage, Said("forty-two " * 30))) as server:
        reply = ask(opener(server.url, *PRICED))
    assert (reply.usage.estimated, reply.usage.usd, reply.usage.tokens_out) == (True, None, 100)
    assert 10 < reply.usage.tokens_in < 1000


@pytest.mark.parametrize("opener", OPENERS)
def test_a_usage_that_is_reported_is_taken_with_its_price(opener: Opener) -> None:
    with loopback("42") as server:
        usage = ask(opener(server.url, *PRICED)).usage
    assert not usage.estimated
    assert usage.usd


ENDS = [
    (openai_at, Said("4", end="max_output_tokens"), "truncated"),
    (openai_at, Said("4", end="content_filter"), "refusal"),
    (openai_at, Said("", refusal="I cannot."), "refusal"),
    (chat_at, Said("4", end="length"), "truncated"),
    (chat_at, Said("", refusal="I cannot."), "refusal"),
    (anthropic_at, Said("4", end="max_tokens"), "truncated"),
    (anthropic_at, Said("4", end="refusal"), "refusal"),
    (anthropic_at, Said("4", end="model_context_window_exceeded"), "context_too_long"),
]


@pytest.mark.parametrize(("opener", "said", "fault"), ENDS)
def test_an_answer_that_is_not_whole_is_a_fault_with_its_cost_where_that_is_known(
    opener: Opener, said: Said, fault: str
) -> None:
    with loopback(said) as server:
        found = fault_of(opener(server.url, *PRICED))
    assert found.fault == fault
    assert found.usage
    assert found.usage.usd
    with loopback(using(opener, None, said)) as server:
        found = fault_of(opener(server.url, *PRICED))
    assert (found.fault, found.usage) == (fault, None)
