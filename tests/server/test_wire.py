import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, JSONRPCError, JSONRPCRequest, JSONRPCResponse

from skillopt_mcp.server import wire
from skillopt_mcp.server.wire import Wire

PIPE_BYTES = 1 << 16


@dataclass
class Host:
    """The other ends of a wire's pipes."""

    wire: Wire
    write_fd: int
    read_fd: int
    ended: asyncio.Event

    def send(self, *messages: dict[str, object]) -> None:
        os.write(self.write_fd, b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in messages))

    def hang_up(self) -> None:
        os.close(self.write_fd)
        self.write_fd = -1


@asynccontextmanager
async def connected() -> AsyncIterator[Host]:
    """Yield the host of a started wire."""
    in_fd, write_fd = os.pipe()
    read_fd, out_fd = os.pipe()
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    host = Host(Wire(in_fd, out_fd), write_fd, read_fd, ended)
    host.wire.start(on_end=lambda: loop.call_soon_threadsafe(ended.set))
    yield host
    if host.write_fd >= 0:
        host.hang_up()
    await host.ended.wait()
    for fd in (in_fd, read_fd, out_fd):
        os.close(fd)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(10):
            await test()

    asyncio.run(limited())


def request(number: int, method: str = "ping") -> dict[str, object]:
    return {"id": number, "method": method}


def answer(number: int, text: str = "") -> SessionMessage:
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=number, result={"text": text}))


async def rest(wire: Wire) -> list[object]:
    return [item async for item in wire.incoming]


async def received(wire: Wire) -> int | str | None:
    item = await wire.incoming.receive()
    assert isinstance(item, SessionMessage)
    assert isinstance(item.message, JSONRPCRequest)
    return item.message.id


def test_messages_come_in_order_and_then_the_end() -> None:
    async def test() -> None:
        async with connected() as host:
            host.send(*(request(number) for number in range(20)))
            assert [await received(host.wire) for _ in range(20)] == list(range(20))
            for number in range(20):
                await host.wire.outgoing.send(answer(number))
            host.wire.finish()
            assert await rest(host.wire) == []

    run(test)


def test_the_end_waits_for_open_requests_to_be_answered() -> None:
    async def test() -> None:
        async with connected() as host:
            host.send(request(1), request(2), request(3, "subscriptions/listen"))
            items = [await host.wire.incoming.receive() for _ in range(3)]
            host.wire.finish()
            ending = asyncio.create_task(rest(host.wire))
            await host.wire.outgoing.send(answer(1))
            await asyncio.sleep(0)
            assert not ending.done()
            metadata = items[1].metadata if isinstance(items[1], SessionMessage) else None
            assert metadata
            await metadata.on_request_unanswered()
            assert await ending == []

    run(test)


def test_what_a_host_was_asked_and_cannot_answer_any_more_is_over_at_the_end() -> None:
    def ask(number: int) -> SessionMessage:
        return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method="elicitation/create"))

    async def closed(wire: Wire) -> tuple[object, int]:
        item = await wire.incoming.receive()
        assert isinstance(item, SessionMessage)
        assert isinstance(item.message, JSONRPCError)
        return item.message.id, item.message.error.code

    async def test() -> None:
        async with connected() as host:
            host.send(request(1))
            assert await received(host.wire) == 1
            await host.wire.outgoing.send(ask(7))
            await host.wire.outgoing.send(ask(8))
            host.send({"id": 7, "result": {}})
            assert isinstance(await host.wire.incoming.receive(), SessionMessage)
            host.wire.finish()
            await host.wire.outgoing.send(ask(9))
            assert [await closed(host.wire) for _ in range(2)] == [(8, CONNECTION_CLOSED), (9, CONNECTION_CLOSED)]
            await host.wire.outgoing.send(answer(1))
            assert await rest(host.wire) == []

    run(test)


def test_a_host_that_does_not_read_never_stops_the_loop_and_gets_all_in_order() -> None:
    sizes = [10, PIPE_BYTES * 3, 10, 5_000, 10, PIPE_BYTES, 10]

    async def test() -> None:
        async with connected() as host:
            for number, size in enumerate(sizes):
                await host.wire.outgoing.send(answer(number, "x" * size))
            reading = asyncio.get_running_loop().run_in_executor(None, read_lines, host.read_fd, len(sizes))
            assert [(each["id"], len(each["result"]["text"])) for each in await reading] == list(enumerate(sizes))
            host.wire.outgoing.flush()

    run(test)


def read_lines(fd: int, n_lines: int) -> list[dict[str, dict[str, str]]]:
    text = b""
    while text.count(b"\n") < n_lines:
        text += os.read(fd, PIPE_BYTES)
    return [json.loads(line) for line in text.splitlines()]


def test_a_flood_stays_in_the_pipe() -> None:
    async def test() -> None:
        async with connected() as host:
            loop = asyncio.get_running_loop()
            flood = [request(number) for number in range(500)]
            writing = loop.run_in_executor(None, lambda: host.send(*flood))
            await writing
            for number in range(500):
                assert await received(host.wire) == number
                assert len(host.wire.incoming._messages) <= wire._N_WAITING

    run(test)


def test_a_refused_frame_is_answered_on_the_same_wire() -> None:
    async def test() -> None:
        async with connected() as host:
            os.write(host.write_fd, b'{"jsonrpc":"2.0","id":5}\n')
            [refusal] = await asyncio.get_running_loop().run_in_executor(None, read_lines, host.read_fd, 1)
            assert (refusal["id"], refusal["error"]["code"]) == (5, -32600)

    run(test)


def test_a_host_that_has_gone_does_not_hold_the_end_up() -> None:
    async def test() -> None:
        async with connected() as host:
            os.close(host.read_fd)
            await host.wire.outgoing.send(answer(1, "x" * PIPE_BYTES * 2))
            await host.wire.outgoing.send(answer(2))
            host.wire.outgoing.flush()
            host.read_fd = os.open(os.devnull, os.O_RDONLY)

    run(test)
