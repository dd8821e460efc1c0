"""The vendors over loopback: what is sent, what is read, and of each fault its kind and its way out, without a key."""

import asyncio
import gzip
import importlib
import json
import pkgutil
import socket
import traceback
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from api_calls import (
    ENVIRON,
    REFLECT,
    ROLLOUT,
    SKILL,
    TASK,
    Opener,
    anthropic_at,
    ask,
    auto_at,
    chat_at,
    fault_of,
    openai_at,
)
from loopback import KEY, Act, Request, Said, Sent, _chat, _message, _responses, loopback

from skillopt_mcp.backends.anthropic import AnthropicBackend, open_anthropic
from skillopt_mcp.backends.api.clients import BODY_BYTES, sdk_faults
from skillopt_mcp.backends.api.faults import ApiKey, Endpoint, Origin, retry_after_s
from skillopt_mcp.backends.api.prompts import strict_schema
from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.base import FATAL, BackendFault
from skillopt_mcp.backends.openai import OpenAIBackend, open_openai
from skillopt_mcp.core.calls import Call, Message, Reply, Rollout, Usage
from skillopt_mcp.core.errors import BackendError
from skillopt_mcp.core.replies import PatchReply
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile
from skillopt_mcp.store.opening import Store

OPENERS = [openai_at, chat_at, anthropic_at]
JSON = {"content-type": "application/json"}
HTML = {"content-type": "text/html"}
ORIGIN = Origin("m", Endpoint("http://h/v1", ApiKey("SOME_KEY", KEY), "h", "h/v1"))
REQUEST = httpx2.Request("POST", "http://h/v1/x")
SEAMS = {
    "openai": (openai, partial(sdk_faults, OpenAIBackend.sdk)),
    "anthropic": (anthropic, partial(sdk_faults, AnthropicBackend.sdk)),
}
BASES = (openai.OpenAIError, anthropic.AnthropicError, httpx2.HTTPError)
CACHED = {"type": "ephemeral"}
LONG = SKILL.replaced(SkillFile(MAIN_FILE, b"# Skill\n" + b"- Be exact about every single number.\n" * 200))
PRICED = ("price_in=1", "price_out=2", "max_tokens=50")


def rejected(status: int, message: str, type_: str = "error") -> Sent:
    """Return an error as both vendors write it, which quotes the key."""
    content = {"type": "error", "error": {"type": type_, "message": f"{message} (asked with {KEY})"}}
    return Sent(status, json.dumps(content).encode(), JSON)


# What is sent, and what is read


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


def is_held(request: Request) -> bool:
    """Return whether a request asks for a reply by a schema."""
    return bool(request.body.keys() & {"text", "response_format", "output_config"})


@pytest.mark.parametrize(
    ("opener", "call", "is_known", "no"),
    [
        *(
            (opener, REFLECT, lambda sent: not is_held(sent), rejected(400, "json_schema is unavailable now"))
            for opener in OPENERS
        ),
        (auto_at, ROLLOUT, lambda sent: "/chat/" not in sent.path, Sent(404, b'{"detail": "Not Found"}', JSON)),
        (
            chat_at,
            ROLLOUT,
            lambda sent: "max_completion_tokens" in sent.body,
            rejected(400, "Unsupported parameter: 'max_tokens' is not supported"),
        ),
    ],
    ids=["no schema, responses", "no schema, chat", "no schema, messages", "no chat", "another limit"],
)
def test_what_a_server_does_not_understand_is_asked_once(opener: Opener, call: Call, is_known: Any, no: Sent) -> None:
    with loopback(lambda _, request: '{"edits": []}' if is_known(request) else no) as server:
        backend = opener(server.url, "max_tokens=99")
        assert [ask(backend, call).text for _ in range(3)] == ['{"edits": []}'] * 3
        assert [is_known(request) for request in server.requests] == [False, True, True, True]


def test_a_server_that_answers_responses_in_the_shape_of_chat_is_a_fault_with_its_fix() -> None:
    body = {"choices": [{"message": {"content": "42"}, "finish_reason": "stop"}]}
    with loopback(Sent(200, json.dumps(body).encode(), JSON)) as server:
        fault = fault_of(openai_at(server.url))
        assert ask(chat_at(server.url)).text == "42"
    assert (fault.fault, "name that API in the spec: openai:test-model,api=chat" in fault.message) == (
        "unsupported",
        True,
    )


def test_thoughts_in_the_text_are_taken_out_of_the_answer() -> None:
    with loopback("<think>\nsix times seven\n</think>\n\n42") as server:
        reply = ask(chat_at(server.url))
    assert (reply.text, reply.messages) == ("42", (Message("assistant", "six times seven", "thinking"),))


@pytest.mark.parametrize("text", ["<think>\nsix times seven is 42", " <THINK>42", "<thinking>42\n"])
def test_a_thinking_block_that_is_not_closed_is_no_answer(text: str) -> None:
    with loopback(text) as server:
        fault = fault_of(chat_at(server.url))
    assert (fault.fault, "the thinking block is not closed" in fault.message) == ("empty", True)


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


def test_what_many_calls_share_is_the_system_prompt_and_is_cached() -> None:
    with loopback('{"edits": []}') as server:
        ask(anthropic_at(server.url), REFLECT)
        body = server.requests[0].body
    shared, mark, own = REFLECT.request.evidence.partition("## Evidence")
    assert body["system"] == [{"type": "text", "text": f"Propose edits.\n\n{shared}", "cache_control": CACHED}]
    assert body["messages"][0]["content"] == [{"type": "text", "text": mark + own}]


def test_only_openai_itself_is_given_the_key_of_a_cache() -> None:
    assert open_openai("m", ENVIRON).dialect.keyed
    with loopback('{"edits": []}') as server:
        for opener in (openai_at, chat_at):
            ask(opener(server.url), REFLECT)
    assert not any("prompt_cache_key" in request.body for request in server.requests)


def test_calls_that_are_sent_at_once_pay_their_skill_once() -> None:
    with loopback("42", latency_s=0.05) as server:
        replies = gathered(anthropic_at(server.url), rollouts(12))
    n_skill = len(LONG.text) // 4
    cached = [reply.usage.tokens_cached for reply in replies if isinstance(reply, Reply)]
    assert sorted(n > n_skill for n in cached) == [False] + [True] * 11


def test_no_call_waits_for_the_whole_answer_to_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillopt_mcp.backends.anthropic.READ_S", 0.1)
    with loopback("42", latency_s=1.0) as server:
        gathered(anthropic_at(server.url), rollouts(6))
        assert server.most_at_once == 6


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


# Faults

TOO_LONG = b" " * (BODY_BYTES + 1)
COMPRESSED = Sent(200, gzip.compress(TOO_LONG), JSON | {"content-encoding": "gzip"})
WAYS = {
    "rate_limit": "raise the account's limits", "overloaded": "it is asked again later",
    "server": "it is asked again later", "auth": "to a key that may use this model",
    "model_not_found": "check the model's name and the base URL", "refusal": "reword the task",
    "context_too_long": "start the server with a larger context (its slots divide it)",
    "unsupported": "leave out that option",
    "internal": "see what the server says",
    "connection": "check the network and the base URL, or raise timeout=SECONDS", "empty": "use another model",
    "slow": "send less at once (--concurrency N), limit the answer (max_tokens=N), or raise timeout=SECONDS",
    "too long": "is over 1.5 MB; check the base URL",
}  # fmt: skip


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(
    ("act", "fault"),
    [
        (rejected(429, "slow down"), "rate_limit"),
        (rejected(429, "You exceeded your current quota, check your billing details"), "rate_limit"),
        (rejected(429, "no credit", "insufficient_quota"), "auth"),
        (rejected(529, "busy", "overloaded_error"), "overloaded"),
        (Sent(503, b"<html>busy</html>", HTML), "overloaded"),
        (rejected(500, "at fault"), "server"),
        (rejected(401, "no such key"), "auth"),
        (rejected(404, "model: test-model"), "model_not_found"),
        (rejected(404, "The model `test-model` does not exist", "model_not_found"), "model_not_found"),
        (Sent(307, b"", {"location": "http://elsewhere/"}), "model_not_found"),
        (rejected(413, "request too large"), "context_too_long"),
        (rejected(400, "prompt is too long: 300000 tokens"), "context_too_long"),
        (rejected(400, "max_tokens: 99999 > 8192, the maximum"), "unsupported"),
        (rejected(400, "triggered our content management policy"), "refusal"),
        (rejected(400, "Your credit balance is too low"), "auth"),
        (rejected(400, "messages must not be empty"), "internal"),
        (Sent(400, KEY.encode()), "internal"),
        (Sent(200, b'{"output": [', JSON), "connection"),
        (Sent(200, b"{}", JSON), "connection"),
        (Sent(200, f"<html>log in with {KEY}</html>".encode(), HTML), "connection"),
        (Sent(200, b'{"output": [', JSON, promised=1000), "connection"),
        ("reset", "connection"),
        ("reset mid-body", "connection"),
        ("hang", "slow"),
        (Said("  \n"), "empty"),
        (Sent(200, TOO_LONG, JSON), "too long"),
        (COMPRESSED, "too long"),
        (replace(COMPRESSED, status=400), "too long"),
        (replace(COMPRESSED, status=500), "too long"),
    ],
)
def test_each_failure_has_its_kind_and_its_way_out_and_shows_no_key(
    opener: Opener, act: Act, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with loopback(act) as server:
        found = fault_of(opener(server.url, *["timeout=0.2"] * (act == "hang")))
    assert found.fault == {"too long": "unsupported", "slow": "connection"}.get(fault, fault)
    assert found.message.startswith(f"{server.host} (test-model): ")
    assert WAYS[fault] in found.message
    assert len(server.requests) == 1
    assert caplog.records
    assert KEY not in caplog.text + "".join(traceback.format_exception(found))


@pytest.mark.parametrize("opener", OPENERS)
def test_a_compressed_reply_is_read(opener: Opener) -> None:
    with loopback("42") as plain, loopback(lambda _, request: compressed(plain.answer(request))) as server:
        assert ask(opener(server.url)).text == "42"


def compressed(sent: Sent | str) -> Sent:
    assert isinstance(sent, Sent)
    return replace(sent, body=gzip.compress(sent.body), headers=sent.headers | {"content-encoding": "gzip"})


@pytest.mark.parametrize("opener", OPENERS)
def test_an_attempt_at_a_task_outlives_four_faults_of_the_wire(opener: Opener, tmp_path: Path, impatient: None) -> None:
    acts: list[Act] = [
        "hang",
        Sent(200, b'{"output": [', JSON),
        Sent(200, b"<html>a proxy's page</html>", HTML),
        Sent(408, b""),
        "42",
    ]
    with loopback(lambda n, _: acts[n - 1]) as server, Store(tmp_path / "kept" / "skillopt.db") as store:
        with Asker(store, {"target": opener(server.url, "timeout=0.3")}, "run") as target:
            [reply] = target([ROLLOUT])
        assert (reply.text, reply.fault, len(server.requests)) == ("42", None, len(acts))


@pytest.mark.parametrize("opener", OPENERS)
def test_an_address_without_a_server_is_a_failed_connection(opener: Opener) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        found = fault_of(opener(f"http://127.0.0.1:{taken.getsockname()[1]}"))
    assert (found.fault, "check the network and the base URL" in found.message) == ("connection", True)
    assert found.usage == Usage(usd=0.0)


UNSENT = [httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError]
SENT = [httpx2.ReadError, httpx2.ReadTimeout, httpx2.RemoteProtocolError]


@pytest.mark.parametrize("vendor", SEAMS)
@pytest.mark.parametrize("kind", [*UNSENT, *SENT])
def test_what_never_left_costs_nothing_and_what_may_have_arrived_may_have_been_paid(
    vendor: str, kind: type[Exception]
) -> None:
    sdk, faults = SEAMS[vendor]
    wrapped = sdk.APITimeoutError(REQUEST)
    wrapped.__cause__ = kind("gone")
    for raised in (kind("gone"), wrapped):
        with pytest.raises(BackendFault) as caught, faults(ORIGIN):
            raise raised
        assert (caught.value.fault, caught.value.usage) == ("connection", Usage(usd=0.0) if kind in UNSENT else None)


@pytest.mark.parametrize("opener", OPENERS)
def test_a_key_that_is_taken_away_stops_the_calls_after_it(opener: Opener) -> None:
    def act(n: int, request: Request) -> Act:
        return "42" if n <= 3 else rejected(401, "Incorrect API key provided")

    with loopback(act) as server:
        backend = opener(server.url)
        assert [ask(backend).text for _ in range(3)] == ["42"] * 3
        found = fault_of(backend)
    name = "ANTHROPIC_API_KEY" if opener is anthropic_at else "OPENAI_API_KEY"
    assert found.message == (
        f"{server.host} (test-model): 401 Incorrect API key provided (asked with ${name}); "
        f"set {name} in the environment to a key that may use this model"
    )
    assert found.fault in FATAL


def subclasses(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for each in kind.__subclasses__():
        yield from subclasses(each)


def thrown(kind: type[Exception]) -> Exception:
    """Return an instance of an SDK's exception, past the constructor that each has of its own."""
    instance = kind.__new__(kind)
    instance.request_id = None  # type: ignore[attr-defined]
    if isinstance(instance, openai.APIStatusError | anthropic.APIStatusError):
        instance.status_code = getattr(kind, "status_code", 500)
        instance.response, instance.body = httpx2.Response(instance.status_code, request=REQUEST), None
    return instance


@pytest.mark.parametrize("vendor", SEAMS)
def test_every_exception_of_an_sdk_is_a_fault(vendor: str) -> None:
    sdk, faults = SEAMS[vendor]
    for module in pkgutil.iter_modules(sdk.__path__):
        if module.name in ("_exceptions", "_error_classes", "_streaming"):
            importlib.import_module(f"{sdk.__name__}.{module.name}")
    everything = {kind for base in (*BASES, TimeoutError) for kind in subclasses(base)}
    kinds = [kind for kind in everything if kind.__module__.partition(".")[0] in (sdk.__name__, "httpx2", "builtins")]
    assert len(kinds) > 30
    found = {}
    for kind in kinds:
        with pytest.raises(BackendFault) as caught, faults(ORIGIN):
            raise thrown(kind)
        found[kind.__name__] = caught.value.fault
    known = {
        "APITimeoutError": "connection", "APIConnectionError": "connection", "APIResponseValidationError": "connection",
        "AuthenticationError": "auth", "NotFoundError": "model_not_found", "RateLimitError": "rate_limit",
        "ConflictError": "server", "InternalServerError": "server", "BadRequestError": "internal",
        "ReadError": "connection", "TimeoutError": "connection",
    }  # fmt: skip
    assert {name: found[name] for name in known} == known


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:10 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 10.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:28:10 GMT"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "inf"}, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


@pytest.mark.parametrize("opener", OPENERS)
def test_a_call_that_is_cancelled_leaves_nothing_open(opener: Opener) -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(backend.complete(REFLECT))
        await asyncio.to_thread(server.arrived.wait, 10)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    with loopback("hang") as server:
        backend = opener(server.url)
        asyncio.run(cancelled())


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(
    "said",
    ["bad key sk-abc123", "bad key sk-abc...", f"bad key {KEY[:16]}", "no such token: Bearer 0af3", "sk-proj-1_2-x*9"],
)
def test_a_key_that_a_server_quotes_is_never_shown_not_even_a_part_or_another_one(opener: Opener, said: str) -> None:
    with loopback(Sent(401, json.dumps({"error": {"message": said}}).encode(), JSON)) as server:
        found = fault_of(opener(server.url))
    shown = found.message.partition("401 ")[2].partition(";")[0]
    assert not any(part in shown for part in ("sk-", KEY[:16], "0af3", "abc", "proj"))
    assert "[redacted]" in shown or "API_KEY" in shown
