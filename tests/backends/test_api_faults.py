"""Faults of the backends over HTTP: every failure has its kind and its way out, and no message holds the key."""

import asyncio
import gzip
import importlib
import pkgutil
import socket
import traceback
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import anthropic
import httpx2
import openai
import pytest
from api_calls import REFLECT, ROLLOUT, anthropic_at, ask, chat_at, fault_of, openai_at
from loopback import KEY, Act, Request, Said, Sent, loopback

from skillopt_mcp.backends import spending as retrying
from skillopt_mcp.backends.anthropic import AnthropicBackend
from skillopt_mcp.backends.api.clients import BODY_BYTES, sdk_faults
from skillopt_mcp.backends.api.faults import ApiKey, Endpoint, Origin, retry_after_s
from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.base import FATAL, BackendFault
from skillopt_mcp.backends.openai import OpenAIBackend
from skillopt_mcp.backends.spending import POLICIES
from skillopt_mcp.core.calls import Usage
from skillopt_mcp.store.opening import Store

ORIGIN = Origin("m", Endpoint("http://h/v1", ApiKey("SOME_KEY", KEY), "h", "h/v1"))
REQUEST = httpx2.Request("POST", "http://h/v1/x")
SEAMS = {
    "openai": (openai, partial(sdk_faults, OpenAIBackend.sdk)),
    "anthropic": (anthropic, partial(sdk_faults, AnthropicBackend.sdk)),
}
BASES = (openai.OpenAIError, anthropic.AnthropicError, httpx2.HTTPError)
OPENERS = [openai_at, chat_at, anthropic_at]
JSON = {"content-type": "application/json"}


def error(message: str, type_: str = "error") -> bytes:
    return f'{{"type": "error", "error": {{"type": "{type_}", "message": "{message}"}}}}'.encode()


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(
    ("act", "fault"),
    [
        (Sent(429, error("slow down")), "rate_limit"),
        (Sent(429, error("You exceeded your current quota, check your billing details")), "rate_limit"),
        (Sent(429, error("no credit", "insufficient_quota")), "auth"),
        (Sent(529, error("busy", "overloaded_error")), "overloaded"),
        (Sent(503, b"<html>busy</html>", {"content-type": "text/html"}), "overloaded"),
        (Sent(401, error("no such key")), "auth"),
        (Sent(404, error("model: test-model")), "model_not_found"),
        (Sent(307, b"", {"location": "http://elsewhere/"}), "model_not_found"),
        (Sent(413, error("request too large")), "context_too_long"),
        (Sent(400, error("prompt is too long: 300000 tokens")), "context_too_long"),
        (Sent(400, error("max_tokens: 99999 > 8192, the maximum")), "unsupported"),
        (Sent(400, error("triggered our content management policy")), "refusal"),
        (Sent(400, error("Your credit balance is too low")), "auth"),
        (Sent(400, error("messages must not be empty")), "internal"),
        (Sent(200, b'{"output": [', JSON), "connection"),
        (Sent(200, b"{}", JSON), "connection"),
        (Sent(200, b"<html>log in</html>", {"content-type": "text/html"}), "connection"),
        (Sent(200, b'{"output": [', JSON, promised=1000), "connection"),
        ("reset", "connection"),
        ("reset mid-body", "connection"),
        (Said("  \n"), "empty"),
    ],
)
def test_each_failure_has_its_kind(opener, act: Act, fault: str) -> None:
    with loopback(act) as server:
        found = fault_of(opener(server.url))
    assert found.fault == fault
    assert found.message.startswith(f"{server.host} (test-model): ")


LONG = b" " * (BODY_BYTES + 1)
COMPRESSED = Sent(200, gzip.compress(LONG), JSON | {"content-encoding": "gzip"})


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(
    "act", [Sent(200, LONG, JSON), COMPRESSED, replace(COMPRESSED, status=400), replace(COMPRESSED, status=500)]
)
def test_a_body_that_is_too_long_ends_the_run_at_once(opener, act: Sent) -> None:
    with loopback(act) as server:
        found = fault_of(opener(server.url))
    assert (found.fault in FATAL, "over 1.5 MB; check the base URL" in found.message) == (True, True)
    assert len(server.requests) == 1


@pytest.mark.parametrize("opener", OPENERS)
def test_a_compressed_reply_is_read(opener) -> None:
    with loopback("42") as plain, loopback(lambda _, request: compressed(plain.answer(request))) as server:
        assert ask(opener(server.url)).text == "42"


def compressed(sent: Sent | str) -> Sent:
    assert isinstance(sent, Sent)
    return replace(sent, body=gzip.compress(sent.body), headers=sent.headers | {"content-encoding": "gzip"})


@pytest.mark.parametrize("opener", OPENERS)
def test_a_server_that_hangs_is_left_in_time(opener) -> None:
    with loopback("hang") as server:
        found = fault_of(opener(server.url, "timeout=0.2"))
    assert (found.fault, "timeout=SECONDS" in found.message) == ("connection", True)


@pytest.mark.parametrize("opener", OPENERS)
def test_an_attempt_at_a_task_outlives_four_faults_of_the_wire(
    opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {fault: policy._replace(wait_s=0.001) for fault, policy in POLICIES.items()}
    monkeypatch.setattr(retrying, "POLICIES", quick)
    acts: list[Act] = [
        "hang",
        Sent(200, b'{"output": [', JSON),
        Sent(200, b"<html>a proxy's page</html>", {"content-type": "text/html"}),
        Sent(408, b""),
        "42",
    ]
    with loopback(lambda n, _: acts[n - 1]) as server, Store(tmp_path / "kept" / "skillopt.db") as store:
        with Asker(store, {"target": opener(server.url, "timeout=0.3")}, "run") as target:
            [reply] = target([ROLLOUT])
        assert (reply.text, reply.fault, len(server.requests)) == ("42", None, len(acts))


@pytest.mark.parametrize("opener", OPENERS)
def test_an_address_without_a_server_is_a_failed_connection(opener) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        found = fault_of(opener(f"http://127.0.0.1:{taken.getsockname()[1]}"))
    assert (found.fault, "check the network and the base URL" in found.message) == ("connection", True)
    assert found.usage == Usage(usd=0.0)


@pytest.mark.parametrize("vendor", SEAMS)
@pytest.mark.parametrize("kind", [httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError])
def test_what_never_left_is_a_failed_connection_that_costs_nothing(vendor: str, kind: type[Exception]) -> None:
    sdk, faults = SEAMS[vendor]
    for wrapped in (kind("gone"), sdk.APITimeoutError(REQUEST)):
        if not isinstance(wrapped, kind):
            wrapped.__cause__ = kind("gone")
        with pytest.raises(BackendFault) as caught, faults(ORIGIN):
            raise wrapped
        assert (caught.value.fault, caught.value.usage) == ("connection", Usage(usd=0.0))


@pytest.mark.parametrize("vendor", SEAMS)
@pytest.mark.parametrize("kind", [httpx2.ReadError, httpx2.ReadTimeout, httpx2.RemoteProtocolError])
def test_what_may_have_arrived_may_have_been_paid(vendor: str, kind: type[Exception]) -> None:
    with pytest.raises(BackendFault) as caught, SEAMS[vendor][1](ORIGIN):
        raise kind("gone")
    assert caught.value.usage is None


@pytest.mark.parametrize("opener", OPENERS)
def test_a_key_that_is_taken_away_stops_the_calls_after_it(opener) -> None:
    def act(n: int, request: Request) -> Act:
        return "42" if n <= 3 else Sent(401, error(f"Incorrect API key provided: {KEY}"))

    with loopback(act) as server:
        backend = opener(server.url)
        assert [ask(backend).text for _ in range(3)] == ["42"] * 3
        found = fault_of(backend)
    name = "ANTHROPIC_API_KEY" if opener is anthropic_at else "OPENAI_API_KEY"
    assert found.message == (
        f"{server.host} (test-model): 401 Incorrect API key provided: ${name}; "
        f"set {name} in the environment to a key that may use this model"
    )
    assert found.fault in FATAL


@pytest.mark.parametrize("opener", OPENERS)
def test_no_fault_and_no_log_shows_the_key(opener, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    for act in (Sent(500, error(f"at {KEY}")), Sent(400, KEY.encode()), Sent(200, KEY.encode()), "reset", ""):
        with loopback(act) as server:
            fault = fault_of(opener(server.url), REFLECT)
            assert KEY not in "".join(traceback.format_exception(fault))
    assert caplog.records
    assert KEY not in caplog.text


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
def test_a_call_that_is_cancelled_leaves_nothing_open(opener) -> None:
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
def test_a_key_that_a_server_quotes_is_never_shown_not_even_a_part_or_another_one(opener, said: str) -> None:
    with loopback(Sent(401, error(said))) as server:
        found = fault_of(opener(server.url))
    shown = found.message.partition("401 ")[2].partition(";")[0]
    assert not any(part in shown for part in ("sk-", KEY[:16], "0af3", "abc", "proj"))
    assert "[redacted]" in shown or "API_KEY" in shown
