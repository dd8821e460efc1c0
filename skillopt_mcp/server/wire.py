"""Wire: one host at the other end of two pipes; bytes become messages, and every request gets an answer.

The SDK's own transport does not answer a request that it cannot read, cancels what runs when the input ends, and waits
for a line of input before it ends by a signal. All else about frames is left to the SDK.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from skillopt_mcp.server.app import SkillOptServer
from skillopt_mcp.server.lifecycle import Shutdown

_CHUNK_BYTES = 1 << 16
# So many messages wait for the loop; a flood of more stays in the pipe.
_N_WAITING = 8
# A write of this size never blocks on a pipe that is ready (POSIX).
_PIPE_BUF = 4096
# What `poll` returns for a pipe or socket whose reader has gone.
_CLOSED = getattr(select, "POLLERR", 0) | getattr(select, "POLLHUP", 0)
# A request that stays open as long as the connection: its answer is not waited for at the end.
_LASTING_METHOD = "subscriptions/listen"
_HOST_POLL_S = 0.5
_LEAVING_POLL_S = 0.1

# Hosts write the id of a request before or after all that is long or nested: it is found where the rest is unreadable.
_ID_BYTES = 4096
_ID = rb'(?<!\\)"id"\s*:\s*(-?(?:0|[1-9][0-9]{0,18})|"[^"\\\x00-\x1f]{0,256}")\s*'
_TEXT = rb'"\w+"\s*:\s*"[^"\\]{0,256}"\s*'
_HEAD_ID = re.compile(rb"\s*\{\s*(?:" + _TEXT + rb",\s*)*" + _ID + rb"[,}]")
_TAIL_ID = re.compile(_ID + rb"(?:,\s*" + _TEXT + rb")*\}\s*\Z")


def read_lines(fd: int) -> Iterator[bytes]:
    """Yield the lines of a pipe, without their line feeds, until it ends."""
    parts: list[bytes] = []
    while chunk := os.read(fd, _CHUNK_BYTES):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join([*parts, end])
            parts = []
        parts.append(rest)
    yield b"".join(parts)


def read_frame(line: bytes) -> JSONRPCMessage | bytes | None:
    """The message of one line, or the line that refuses a request which cannot be read; None asks for no answer."""
    try:
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        pass
    else:
        return message
    code = PARSE_ERROR
    try:
        # A byte that is no UTF-8, and half a surrogate pair, as JavaScript writes a text that it cut in two, become
        # U+FFFD, as the SDK has it for the first.
        value = json.loads(line.decode("utf-8", "surrogateescape"))
        code = INVALID_REQUEST
        text = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        message = jsonrpc_message_adapter.validate_json(text, by_name=False)
    except (ValueError, RecursionError):
        found = _HEAD_ID.match(line[:_ID_BYTES]) or _TAIL_ID.search(line[-_ID_BYTES:])
        if not found or b'"method"' not in line:
            return None
        why = "This is no JSON-RPC 2.0 request, or it is nested too deep; nothing was done. Send it again."
        request_id = json.loads(found[1].decode("utf-8", "replace"))
        refusal = JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=why))
        return refusal.model_dump_json().encode() + b"\n"
    return message


class Outbox:
    """The stream that the SDK sends to. What could block goes through a thread: a slow host never stops the loop."""

    def __init__(
        self,
        fd: int,
        on_answer: Callable[[RequestId | None], Awaitable[None]],
        on_question: Callable[[RequestId], None],
    ) -> None:
        self._fd = fd
        self._on_answer, self._on_question = on_answer, on_question
        self._ready = select.poll() if hasattr(select, "poll") else None
        if self._ready:
            self._ready.register(fd, select.POLLOUT)
        self._frames: SimpleQueue[bytes | None] = SimpleQueue()
        self._n_queued = 0
        self._n_written = 0
        self._thread = threading.Thread(target=self._write_queued, name="stdout", daemon=True)
        self._thread.start()

    async def aclose(self) -> None:
        """Do nothing: the pipe is not the SDK's to close."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message of the SDK."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._on_question(message.id)
        self.put(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            await self._on_answer(message.id)

    def put(self, frame: bytes) -> None:
        """Send one finished line; in the loop."""
        idle = self._n_queued == self._n_written
        if idle and len(frame) <= _PIPE_BUF and self.poll():
            self._write(frame)
        else:
            self._n_queued += 1
            self._frames.put(frame)

    def poll(self) -> int:
        """The events of the pipe: it takes a write now, or its reader has gone; 0 where the system cannot tell."""
        return next((event for _, event in self._ready.poll(0)), 0) if self._ready else 0

    def flush(self) -> None:
        """Wait until everything sent is written, or the host has stopped reading; nothing may be sent after."""
        self._frames.put(None)
        self._thread.join()

    def _write_queued(self) -> None:
        while (frame := self._frames.get()) is not None and self._write(frame):
            self._n_written += 1

    def _write(self, frame: bytes) -> bool:
        rest = memoryview(frame)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            return False  # the host has gone; its end of stdin will say so too
        return True


class Wire:
    """The two streams that the SDK serves, over the pipes `in_fd` and `out_fd`; made inside the running loop."""

    def __init__(self, in_fd: int, out_fd: int) -> None:
        self._in_fd = in_fd
        self._loop = asyncio.get_running_loop()
        self._open: set[RequestId | None] = set()
        self._asked: set[RequestId | None] = set()
        self._finishing = False
        self._answering: list[asyncio.Task[None]] = []
        self._feed, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](_N_WAITING)
        self.outgoing = Outbox(out_fd, self._settle, self._ask)

    def start(self, on_end: Callable[[], None]) -> None:
        """Read the host's frames in a thread; `on_end` is called there when no more can come."""
        threading.Thread(target=self._read_all, args=(on_end,), name="stdin", daemon=True).start()

    def finish(self) -> None:
        """End the incoming stream as soon as every open request is answered; the host answers none of ours any more."""
        self._finishing = True
        for asked in sorted(self._asked, key=str):
            self._answer_closed(asked)
        self._end_if_idle()

    def _read_all(self, on_end: Callable[[], None]) -> None:
        with suppress(OSError, RuntimeError, CancelledError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            # Where the pipe breaks, or serving ends, that is the end as well.
            waiting: deque[Future[None]] = deque()
            for line in read_lines(self._in_fd):
                message = read_frame(line)
                if isinstance(message, bytes):
                    self._loop.call_soon_threadsafe(self.outgoing.put, message)
                elif message is not None:
                    item = SessionMessage(message, self._opened(message))
                    waiting.append(asyncio.run_coroutine_threadsafe(self._feed.send(item), self._loop))
                while len(waiting) > _N_WAITING or (waiting and waiting[0].done()):
                    waiting.popleft().result()
            for sent in waiting:
                sent.result()
        on_end()

    def _opened(self, message: JSONRPCMessage) -> ServerMessageMetadata | None:
        """Note a request as open, and ask for a call when the host has cancelled it."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._asked.discard(message.id)
        if not isinstance(message, JSONRPCRequest) or message.method == _LASTING_METHOD:
            return None
        self._open.add(message.id)
        return ServerMessageMetadata(on_request_unanswered=partial(self._settle, message.id))

    def _ask(self, request_id: RequestId) -> None:
        """Note a request of ours as asked; who has closed its input will not answer it."""
        self._asked.add(request_id)
        if self._finishing:
            self._answer_closed(request_id)

    def _answer_closed(self, request_id: RequestId | None) -> None:
        error = ErrorData(code=CONNECTION_CLOSED, message="the host has closed its input")

        async def answer() -> None:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await self._feed.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error)))

        self._answering.append(self._loop.create_task(answer()))

    async def _settle(self, request_id: RequestId | None) -> None:
        self._open.discard(request_id)
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._finishing and not self._open:
            self._feed.close()


async def serve_pipes(
    server: SkillOptServer, pipes: tuple[int, int], ending: Shutdown, leaving: Future[None], parent: int
) -> None:
    """Serve the host at the other end of `pipes` until `ending` begins, or the process `parent` is gone.

    `leaving` is set once the host goes.
    """
    loop = asyncio.get_running_loop()
    wire = Wire(*pipes)

    def finish() -> None:
        leaving.set_result(None)
        loop.call_soon_threadsafe(wire.finish)

    ending.attach(finish)
    wire.start(on_end=ending.close)
    lowlevel = server._lowlevel_server
    options = lowlevel.create_initialization_options()
    serving = asyncio.create_task(lowlevel.run(wire.incoming, wire.outgoing, options))
    while not serving.done():
        # The host is gone where its parent has died, or it does not read the answers any more: something else may still
        # hold its stdin open.
        if os.getppid() != parent or (ending.is_closing and wire.outgoing.poll() & _CLOSED):
            ending.begin()
        await asyncio.wait([serving], timeout=_LEAVING_POLL_S if ending.is_closing else _HOST_POLL_S)
    await serving
    await asyncio.to_thread(wire.outgoing.flush)
    # All is answered: what still runs in a thread gets the grace.
    ending.begin()
