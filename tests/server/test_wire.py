import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, PARSE_ERROR, JSONRPCError, JSONRPCRequest, JSONRPCResponse

from skillopt_mcp.server.wire import Wire, read_frame, read_lines

PIPE_BYTES = 1 << 16
N_WAITING = 8


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
    host.wire.finish()
    if host.write_fd >= 0:
        host.hang_up()
    await host.ended.wait()
    host.wire.incoming.close()
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
            reading = asyncio.get_running_loop().run_in_executor(None, answers_of, host.read_fd, len(sizes))
            assert [(each["id"], len(each["result"]["text"])) for each in await reading] == list(enumerate(sizes))
            host.wire.outgoing.flush()

    run(test)


def answers_of(fd: int, n_lines: int) -> list[dict[str, dict[str, str]]]:
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
                waiting = host.wire.incoming.statistics()
                assert waiting.current_buffer_used + waiting.tasks_waiting_send <= 2 * N_WAITING + 1

    run(test)


def id_first(argument: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":%s}}' % argument


def id_last(argument: bytes) -> bytes:
    return b'{"method":"tools/call","params":{"a":%s,"id":1},"jsonrpc":"2.0","id":7}' % argument


@pytest.mark.parametrize("frame", [id_first, id_last])
def test_a_byte_that_is_no_utf_8_is_repaired(frame: Callable[[bytes], bytes]) -> None:
    message = read_frame(frame(b'["\xff", "\\ud83d\\ude00", "\\\\ud83d"]'))
    assert isinstance(message, JSONRPCRequest)
    assert (message.id, message.params and message.params["a"]) == (7, ["\N{REPLACEMENT CHARACTER}", "😀", "\\ud83d"])


@pytest.mark.parametrize("frame", [id_first, id_last])
@pytest.mark.parametrize(
    ("version", "argument", "code"), [(b"2.0", b'"open', PARSE_ERROR), (b"1.0", b"1", INVALID_REQUEST)]
)
def test_a_request_that_cannot_be_read_is_refused_under_its_id(
    frame: Callable[[bytes], bytes], version: bytes, argument: bytes, code: int
) -> None:
    refusal = read_frame(frame(argument).replace(b"2.0", version))
    assert isinstance(refusal, bytes)
    assert refusal.endswith(b"\n")
    answer = json.loads(refusal)
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", 7, code)


@pytest.mark.parametrize(
    "line", [b"", b"  \r", b"garbage", b"{}", b"[1]", b"5", b"{", b"\xff", b'{"id":1,"result":{}}']
)
def test_what_asks_for_no_answer_gets_none(line: bytes) -> None:
    assert read_frame(line) is None


@given(st.lists(st.binary(max_size=60).filter(lambda line: b"\n" not in line), min_size=1), st.data())
def test_lines_do_not_depend_on_how_the_pipe_cuts_them(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"\n".join(lines)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=9)))
    reading, writing = os.pipe()
    found = read_lines(reading)
    ahead = []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        os.write(writing, whole[start:end])
        ahead += [next(found) for _ in range(whole[start:end].count(b"\n"))]
    os.close(writing)
    assert [*ahead, *found] == lines
    os.close(reading)


@given(st.binary(max_size=300))
def test_no_bytes_stop_the_reader(noise: bytes) -> None:
    message = read_frame(noise)
    assert message is None or message
