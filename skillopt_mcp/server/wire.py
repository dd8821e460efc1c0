"""Wire: one host on the other end of two pipes; messages come in, answers go out, and open requests are counted."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from skillopt_mcp.server.stdin_guard import Refusal, read_frames

_CHUNK_BYTES = 1 << 16
# So many messages wait for the loop; a flood of more stays in the pipe.
_N_WAITING = 8
# A write of this size never blocks on a pipe that is ready (POSIX).
_PIPE_BUF = 4096
# What `poll` says of a pipe, or a socket, that nobody reads from any more.
_CLOSED = getattr(select, "POLLERR", 0) | getattr(select, "POLLHUP", 0)
# A request that stays open as long as the connection: nobody waits for its answer at the end.
_LASTING_METHOD = "subscriptions/listen"


class Stream:
    """What the SDK expects of both streams beside sending or receiving."""

    async def aclose(self) -> None:
        """Do nothing: the wire closes what it opened."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Inbox(Stream):
    """The stream that the SDK receives from; filled by another thread, read in the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._messages: deque[SessionMessage] = deque()
        self._places = threading.Semaphore(_N_WAITING)
        self._arrival: asyncio.Future[None] | None = None
        self._ended = False

    def push(self, message: SessionMessage) -> None:
        """Add a message, from another thread; wait while too many are waiting."""
        self._places.acquire()
        self._loop.call_soon_threadsafe(self.add, message)

    def end(self) -> None:
        """Let the receiver see the end, after what is waiting; in the loop."""
        self._ended = True
        self._wake()

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises anyio.EndOfStream at the end."""
        while not self._messages:
            if self._ended:
                raise anyio.EndOfStream
            self._arrival = self._loop.create_future()
            await self._arrival
        self._places.release()
        return self._messages.popleft()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def add(self, message: SessionMessage) -> None:
        """Add a message; in the loop."""
        self._messages.append(message)
        self._wake()

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)


class Outbox(Stream):
    """The stream that the SDK sends to. What could block goes through a thread: a slow host never stops the loop."""

    def __init__(
        self, fd: int, on_answer: Callable[[RequestId | None], None], on_question: Callable[[RequestId], None]
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

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message of the SDK."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._on_question(message.id)
        self.put(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._on_answer(message.id)

    def put(self, frame: bytes) -> None:
        """Send one finished line; in the loop."""
        idle = self._n_queued == self._n_written
        if idle and len(frame) <= _PIPE_BUF and self._ready and self._ready.poll(0):
            self._write(frame)
        else:
            self._n_queued += 1
            self._frames.put(frame)

    def is_unread(self) -> bool:
        """Return whether the host has closed its end, as far as the system tells."""
        return self._ready is not None and any(event & _CLOSED for _, event in self._ready.poll(0))

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
        self.incoming = Inbox()
        self.outgoing = Outbox(out_fd, self._settle, self._ask)

    def start(self, on_end: Callable[[], None]) -> None:
        """Read the host's frames in a thread; `on_end` is called there when no more can come."""
        threading.Thread(target=self._read_all, args=(on_end,), name="stdin", daemon=True).start()

    def finish(self) -> None:
        """End the incoming stream as soon as every open request is answered; the host answers none of ours any more."""
        self._finishing = True
        for asked in sorted(self._asked, key=str):
            self._tell_closed(asked)
        self._end_if_idle()

    def _read_all(self, on_end: Callable[[], None]) -> None:
        try:
            for outcome in read_frames(partial(os.read, self._in_fd, _CHUNK_BYTES)):
                if isinstance(outcome, Refusal):
                    self._loop.call_soon_threadsafe(self.outgoing.put, outcome.frame())
                else:
                    self.incoming.push(SessionMessage(outcome, self._opened(outcome)))
        except (OSError, RuntimeError):
            pass  # the pipe broke, or the loop has closed: the end as well
        on_end()

    def _opened(self, message: JSONRPCMessage) -> ServerMessageMetadata | None:
        """Note a request as open, and ask to be told when it will never be answered (the host cancelled it)."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._asked.discard(message.id)
        if not isinstance(message, JSONRPCRequest) or message.method == _LASTING_METHOD:
            return None
        self._open.add(message.id)
        return ServerMessageMetadata(on_request_unanswered=partial(self._settle_unanswered, message.id))

    def _ask(self, request_id: RequestId) -> None:
        """Note a request of ours as asked; who has closed its input will not answer it."""
        self._asked.add(request_id)
        if self._finishing:
            self._tell_closed(request_id)

    def _tell_closed(self, request_id: RequestId | None) -> None:
        error = ErrorData(code=CONNECTION_CLOSED, message="the host has closed its input")
        self.incoming.add(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error)))

    async def _settle_unanswered(self, request_id: RequestId) -> None:
        self._settle(request_id)

    def _settle(self, request_id: RequestId | None) -> None:
        self._open.discard(request_id)
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._finishing and not self._open:
            self.incoming.end()
