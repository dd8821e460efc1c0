"""Openai server: a process on the loopback that speaks Chat Completions and fails as its schedule says.

A request names its call in its text ("call 17"); the n-th request of a call gets the n-th act of that call.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Literal, NamedTuple

Kind = Literal["ok", "status", "reset", "hang", "truncated", "html"]
_CALL = re.compile(rb"call (\d+)")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.I)


class Act(NamedTuple):
    """What a request gets, after so many seconds; `retry_after` goes with a status."""

    kind: Kind = "ok"
    latency_s: float = 0.2
    status: int = 200
    retry_after: float | None = None
    tokens_in: int = 100
    tokens_out: int = 5


class Plan(NamedTuple):
    """The acts of every call, the last one serving on, and after how many requests the key is refused, if ever."""

    acts: Sequence[Sequence[Act]]
    refuse_after: int | None = None


class Seen(NamedTuple):
    """What the server saw: whole answers by call; the acts as they were sent; the seconds between first and last."""

    answered: dict[int, int]
    acts: list[Act]
    busy_s: float


class Server(NamedTuple):
    """A running server: where it is, what it has seen, and how the key is made good again."""

    url: str
    pipe: Connection

    def seen(self) -> Seen:
        """Return what it has seen so far."""
        self.pipe.send("seen")
        found: Seen = self.pipe.recv()
        return found

    def accept_key(self) -> None:
        """Accept the key from now on."""
        self.pipe.send("accept")
        self.pipe.recv()


class _Serving:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.refuse_after = plan, plan.refuse_after
        self.n_requests = 0
        self.asked: Counter[int] = Counter()
        self.answered: Counter[int] = Counter()
        self.acts: list[Act] = []
        self.began = self.ended = 0.0
        self.busy_s = 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                if not await self._respond(body, writer):
                    break
        writer.close()

    async def _respond(self, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Return whether the connection stays open."""
        named = _CALL.search(body)
        call = int(named[1]) if named else 0
        self.n_requests += 1
        self.began = self.began or time.monotonic()
        self.ended = time.monotonic()
        if self.refuse_after is not None and self.n_requests > self.refuse_after:
            writer.write(_response(401, b'{"error": {"message": "the key is not valid"}}'))
            return True
        acts = self.plan.acts[call] if call < len(self.plan.acts) else [Act()]
        act = acts[min(self.asked[call], len(acts) - 1)]
        self.asked[call] += 1
        self.acts.append(act)
        await asyncio.sleep(3600 if act.kind == "hang" else act.latency_s)
        if act.kind == "reset":
            return _reset(writer)
        if act.kind == "ok":
            self.answered[call] += 1
        self.ended = time.monotonic()
        writer.write(_bytes(act, call))
        return True


def _reset(writer: asyncio.StreamWriter) -> bool:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{")
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def _bytes(act: Act, call: int) -> bytes:
    if act.kind == "status":
        after = "" if act.retry_after is None else f"retry-after: {act.retry_after:g}\r\n"
        return _response(act.status, b'{"error": {"message": "not now", "type": "server_error"}}', after)
    if act.kind == "html":
        return _response(200, b"<html>a proxy's own page</html>", kind="text/html")
    message = {"role": "assistant", "content": f"answer {call}"}
    body = json.dumps(
        {
            "id": "c", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": {
                "prompt_tokens": act.tokens_in, "completion_tokens": act.tokens_out,
                "total_tokens": act.tokens_in + act.tokens_out,
            },
        }
    ).encode()  # fmt: skip
    return _response(200, body[: len(body) // 2] if act.kind == "truncated" else body)


def _response(status: int, body: bytes, headers: str = "", kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\n{headers}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _run(plan: Plan, pipe: Connection) -> None:
    asyncio.run(_serve(plan, pipe))


async def _serve(plan: Plan, pipe: Connection) -> None:
    serving = _Serving(plan)
    server = await asyncio.start_server(serving.serve, "127.0.0.1", 0, backlog=2048)
    pipe.send(server.sockets[0].getsockname()[1])
    over = asyncio.Event()

    def obey() -> None:
        word = pipe.recv()
        if word == "accept":  # the time that it takes to resume is none of the calls'
            serving.refuse_after = None
            serving.busy_s, serving.began = serving.busy_s + serving.ended - serving.began, 0.0
        if word == "over":
            over.set()
        busy_s = serving.busy_s + (serving.ended - serving.began if serving.began else 0.0)
        pipe.send(Seen(dict(serving.answered), serving.acts, busy_s))

    asyncio.get_running_loop().add_reader(pipe.fileno(), obey)
    await over.wait()


@contextmanager
def serving(plan: Plan) -> Iterator[Server]:
    """Run a server in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(plan, theirs), daemon=True)
    process.start()
    try:
        yield Server(f"http://127.0.0.1:{ours.recv()}/v1", ours)
    finally:
        ours.send("over")
        ours.recv()
        process.join(5)
        process.terminate()
