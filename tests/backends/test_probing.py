"""Of many calls at once, one finds out how a server is to be asked, and no call waits long for that."""

import asyncio
import json
import threading

import pytest
from api_calls import REFLECT, ROLLOUT, auto_at
from loopback import Act, Loopback, Request, Sent, loopback

from skillopt_mcp.backends.api import clients
from skillopt_mcp.backends.base import Backend, BackendFault
from skillopt_mcp.core.calls import Call, Reply

N = 16
EDITS = '{"edits": []}'
NOT_FOUND = Sent(404, b'{"detail": "Not Found"}', {"content-type": "application/json"})


def refused(what: str) -> Sent:
    body = {"error": {"message": what, "type": "invalid_request_error"}}
    return Sent(400, json.dumps(body).encode(), {"content-type": "application/json"})


def is_held(request: Request) -> bool:
    """Return whether a request asks for a reply by a schema."""
    return any(name in request.body for name in ("text", "response_format", "output_config"))


def at_once(backend: Backend, *calls: Call) -> list[Reply | BaseException]:
    async def ask() -> list[Reply | BaseException]:
        return await asyncio.gather(*map(backend.complete, calls), return_exceptions=True)

    return asyncio.run(ask())


def texts(replies: list[Reply | BaseException]) -> list[str]:
    return [reply.text if isinstance(reply, Reply) else repr(reply) for reply in replies]


def test_all_that_a_server_does_not_understand_is_found_out_by_one_call_each() -> None:
    def act(n: int, request: Request) -> Act:
        if not request.path.endswith("/responses"):
            return NOT_FOUND
        if is_held(request):
            return refused("response_format: json_schema is not available")
        return EDITS

    with loopback(act, latency_s=0.02) as server:
        calls = [ROLLOUT, REFLECT] * (N // 2)
        assert texts(at_once(auto_at(server.url, "max_tokens=99"), *calls)) == [EDITS] * N
        assert len(server.requests) == N + 2


def test_a_first_call_that_fails_holds_no_other_up() -> None:
    together = threading.Barrier(N - 1)
    with loopback("42") as server:
        answer = Loopback.answer

        def joined(request: Request) -> Sent | str:
            if not server.requests:
                server.requests.append(request)
                return Sent(503, b"busy")
            together.wait(10)
            return answer(server, request)

        server.answer = joined  # type: ignore[method-assign]
        found = at_once(auto_at(server.url), *[ROLLOUT] * N)
    assert isinstance(found[0], BackendFault)
    assert texts(found[1:]) == ["42"] * (N - 1)


def test_no_call_waits_long_for_a_first_one_that_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "PROBE_S", 0.02)
    over = threading.Event()
    with loopback("42") as server:
        answer = Loopback.answer

        def slow(request: Request) -> Sent | str:
            is_first = not server.requests
            found = answer(server, request)
            if is_first:
                assert over.wait(10)
            elif len(server.requests) == N:
                over.set()
            return found

        server.answer = slow  # type: ignore[method-assign]
        assert texts(at_once(auto_at(server.url), *[ROLLOUT] * N)) == ["42"] * N
    assert over.is_set()


def test_a_call_that_is_given_up_while_it_waits_or_finds_out_leaves_the_turn_to_others() -> None:
    async def given_up(backend: Backend) -> str:
        first = asyncio.create_task(backend.complete(ROLLOUT))
        await asyncio.to_thread(server.arrived.wait)
        second = asyncio.create_task(backend.complete(ROLLOUT))
        await asyncio.sleep(0)
        for task in (second, first):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        return (await backend.complete(ROLLOUT)).text

    with loopback(lambda n, request: "hang" if n == 1 else "42") as server:
        assert asyncio.run(given_up(auto_at(server.url))) == "42"
