"""Local models: a server that behaves as llama.cpp's was seen to, and what becomes of its answers and its waits."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from api_calls import ENVIRON, REFLECT, ROLLOUT, SKILL, TASK, anthropic_at, ask, auto_at, fault_of, openai_at
from loopback import Loopback, Request, Sent, loopback

from skillopt_mcp.backends.api import clients
from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.base import Backend, BackendFault, concurrency_of
from skillopt_mcp.backends.openai import open_openai
from skillopt_mcp.backends.wrappers import Redacting
from skillopt_mcp.core.calls import Call, Reply, Rollout
from skillopt_mcp.core.redacting import Redactor
from skillopt_mcp.store.opening import Store

JSON = {"content-type": "application/json"}
LONG = 'The story of the town is long, and {"edits": []} is no part of it.'


def sent(body: dict[str, object], status: int = 200) -> Sent:
    return Sent(status, json.dumps(body).encode(), JSON)


@dataclass
class Llama:
    """A model of 20 tokens an answer behind so many slots; it loads for the first requests."""

    slots: int = 2
    n_loading: int = 0
    latency_s: float = 0.0

    def act(self, n: int, request: Request) -> Sent:
        if n <= self.n_loading:
            error = {"message": "Loading model", "type": "unavailable_error", "code": 503}
            return sent({"error": error}, 503)
        n_in = len(request.user.split()) + 20
        if n_in > 2048:
            what = f"request ({n_in} tokens) exceeds the available context size (2048 tokens), try increasing it"
            return sent({"error": {"code": 400, "message": what, "type": "exceed_context_size_error"}}, 400)
        limit = request.body.get("max_tokens") or request.body.get("max_output_tokens") or 1000
        n_out = min(20, limit)
        is_held = "response_format" in request.body
        text = '{"edits": []}' if is_held else LONG[: 3 * n_out]
        if request.path.endswith("/responses"):
            content = [{"type": "output_text", "text": LONG[: 3 * n_out], "annotations": []}]
            output = [{"type": "message", "role": "assistant", "status": "completed", "content": content}]
            usage = {"input_tokens": n_in, "output_tokens": n_out, "input_tokens_details": {"cached_tokens": 0}}
            return sent(
                {"object": "response", "status": "completed", "model": "m.gguf", "output": output, "usage": usage}
            )
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "length" if n_out < 20 else "stop"}
        usage = {"prompt_tokens": n_in, "completion_tokens": n_out, "total_tokens": n_in + n_out}
        return sent({"choices": [choice], "model": "m.gguf", "system_fingerprint": "b0-unknown", "usage": usage})

    @contextmanager
    def serve(self) -> Iterator[Loopback]:
        """Serve requests in the order in which they come, as many at once as there are slots."""
        free, answer = threading.Semaphore(self.slots), Loopback.answer

        def in_turn(request: Request) -> Sent | str:
            with free:
                time.sleep(self.latency_s)
                return answer(server, request)

        with loopback(self.act) as server:
            server.answer = in_turn  # type: ignore[method-assign]
            yield server


def rollouts(n: int, prompt: str = "Do") -> list[Call]:
    tasks = [replace(TASK, id=i, prompt=f"{prompt} {i}", files=(), digest=f"{i:064x}") for i in range(n)]
    return [ROLLOUT._replace(request=Rollout(SKILL, task)) for task in tasks]


def asked(backend: Backend, calls: list[Call], folder: Path) -> list[Reply]:
    with Store(folder / "kept" / "skillopt.db") as store, Asker(store, {"target": backend}, "run") as target:
        return target(calls)


# What it is asked, and how its answers end


def test_chat_is_asked_first_where_a_schema_holds_and_a_cut_answer_says_so() -> None:
    with Llama().serve() as server:
        assert ask(auto_at(server.url), REFLECT).text == '{"edits": []}'
        assert fault_of(auto_at(server.url, "max_tokens=9")).fault == "truncated"
        assert {request.path for request in server.requests} == {"/v1/chat/completions"}


@pytest.mark.parametrize(
    ("spec", "api"),
    [
        ("m", "responses"),
        ("m,base_url=https://eu.api.openai.com/v1", "responses"),
        ("m,base_url=https://mine.openai.azure.com/openai/v1", "responses"),
        ("m,base_url=https://gateway.example.com/v1", "chat"),
        ("m,base_url=http://localhost:8080/v1,plain_http=on", "chat"),
        ("m,base_url=http://localhost:8080/v1,plain_http=on,api=responses", "responses"),
    ],
)
def test_responses_are_asked_first_of_the_vendor_alone(spec: str, api: str) -> None:
    assert open_openai(spec, ENVIRON).dialect.api == api


def test_an_answer_as_long_as_its_limit_is_cut_off_whatever_the_status_says() -> None:
    with Llama().serve() as server:
        found = fault_of(openai_at(server.url, "max_tokens=9"))
        assert (found.fault, found.usage and found.usage.tokens_out) == ("truncated", 9)
        assert "the answer ended at its limit of 9 tokens; raise max_tokens=N" in found.message
        assert ask(openai_at(server.url, "max_tokens=21")).text == LONG[:60]


def test_a_context_that_is_too_small_is_said_once_for_each_task(tmp_path: Path) -> None:
    with Llama().serve() as server:
        calls = rollouts(7, "word " * 3000)
        replies = asked(auto_at(server.url, "max_tokens=9"), calls, tmp_path)
        assert {reply.fault for reply in replies} == {"context_too_long"}
        assert "(its slots divide it)" in replies[0].text
        assert len(server.requests) == len(calls)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (500, {"code": 500, "message": "the request exceeds the available context size.", "type": "server_error"}),
        (400, {"message": "The prompt (length 6031) is longer than the maximum model length of 4096", "code": 400}),
        (400, {"message": "Requested tokens (6031) exceed context window of 2048", "code": None}),
        (200, {"code": 400, "message": "request (6031 tokens) exceeds the available context size (2048 tokens)"}),
    ],
)
@pytest.mark.parametrize("opener", [auto_at, anthropic_at])
def test_other_words_for_a_context_that_is_too_small(opener, status: int, error: dict[str, object]) -> None:
    if opener is anthropic_at and status == 200:
        return
    with loopback(sent({"error": error}, status)) as server:
        assert fault_of(opener(server.url)).fault == "context_too_long"


# How many calls it gets at once, and for how long each may take


@pytest.mark.parametrize(
    ("host", "concurrency"),
    [
        ("127.0.0.1:8080", 4), ("[::1]:8080", 4), ("localhost:1234", 4), ("10.0.0.7:8000", 4), ("192.168.1.9", 4),
        ("172.20.0.2:11434", 4), ("100.101.102.103:8000", 4), ("[fd00::7]:8000", 4), ("ollama:11434", 4),
        ("gpu.local:8000", 4), ("host.docker.internal:8080", 4), ("8.8.8.8", 16), ("llm.example.com", 16),
    ],
)  # fmt: skip
def test_loopback_and_private_addresses_get_four_calls_at_once(host: str, concurrency: int) -> None:
    assert concurrency_of(open_openai(f"m,base_url=http://{host}/v1", {})) == concurrency


def test_to_wait_in_the_servers_queue_is_not_the_models_time(tmp_path: Path) -> None:
    with Llama(slots=1, latency_s=0.3).serve() as server:
        replies = asked(auto_at(server.url, "timeout=1"), rollouts(6), tmp_path)
        assert ([reply.fault for reply in replies], len(server.requests)) == ([None] * 6, 6)


def test_a_call_that_hangs_times_out_though_others_are_answered() -> None:
    async def ask_all() -> list[Reply | BaseException]:
        sends = [backend.complete(call) for call in rollouts(4)]
        return await asyncio.gather(*sends, return_exceptions=True)

    with loopback(lambda n, request: "hang" if request.user.endswith("Do 1") else "42") as server:
        backend = auto_at(server.url, "api=chat", "timeout=0.3")
        began = time.monotonic()
        found = asyncio.run(ask_all())
        assert [isinstance(each, BackendFault) for each in found] == [False, True, False, False]
        assert time.monotonic() - began < 2
        assert "send less at once (--concurrency N)" in str(found[1])


def test_time_outs_halve_the_calls_at_once_and_few_are_paid_for_nothing(tmp_path: Path, impatient: None) -> None:
    with loopback("42") as server:
        lock, n_open, at_once, answer = threading.Lock(), [0], list[int](), Loopback.answer

        def shared(request: Request) -> Sent | str:
            with lock:
                n_open[0] += 1
                at_once.append(n_open[0])
            for _ in range(5):  # the more at once, the slower each
                time.sleep(0.005 * n_open[0] ** 3)
            with lock:
                n_open[0] -= 1
            return answer(server, request)

        server.answer = shared  # type: ignore[method-assign]
        backend = Redacting(auto_at(server.url, "timeout=0.4"), Redactor())
        replies = asked(backend, rollouts(40), tmp_path)
    assert [reply.fault for reply in replies] == [None] * 40
    assert len(at_once) < 55


# A model that is not loaded yet, and one that does not do what it is told


@pytest.mark.parametrize("opener", [auto_at, openai_at, anthropic_at])
def test_a_model_that_loads_is_waited_for(opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "LOADING_S", 0.01)
    loading = Llama(n_loading=9)
    with loopback(lambda n, request: loading.act(n, request) if n <= 9 else "42") as server:
        [reply] = asked(opener(server.url), rollouts(1), tmp_path)
        assert (reply.text, reply.fault, len(server.requests)) == ("42", None, 10)
    with loopback(loading.act) as server:
        server._act = lambda n, request: loading.act(1, request)
        assert fault_of(opener(server.url, "timeout=0.2")).fault == "connection"
