"""Wire: one host on the other end of two pipes; messages come in, answers go out, and open requests are counted."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from types import TracebackType

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse, RequestId

from skillopt_mcp.server.stdin_guard import Refusal, read_frames

_CHUNK_BYTES = 1 << 16
# A request that stays open as long as the connection: nobody waits for its answer at the end.
_LASTING_METHOD = "subscriptions/listen"


class Outbox:
    """The stream that the SDK sends to; a thread writes it to the pipe, so that a slow host never stops the loop."""

    def __init__(self, fd: int, on_answer: Callable[[RequestId | None], None]) -> None:
        self._fd = fd
        self._on_answer = on_answer
        self._frames: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="stdout", daemon=True)
        self._thread.start()

    async def send(self, item: SessionMessage, /) -> None:
        """Queue one message of the SDK."""
        message = item.message
        self.put(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._on_answer(message.id)

    def put(self, frame: bytes) -> None:
        """Queue one finished line."""
        self._frames.put(frame)

    def flush(self) -> None:
        """Wait until everything queued is written, or the host has stopped reading; nothing may be queued after."""
        self._frames.put(None)
        self._thread.join()

    async def aclose(self) -> None:
        """Do nothing: `flush` ends the stream."""

    async def __aenter__(self) -> Outbox:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _write_all(self) -> None:
        while (frame := self._frames.get()) is not None:
            rest = memoryview(frame)
            try:
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
            except OSError:
                return


class Wire:
    """The two streams that the SDK serves, over the pipes `in_fd` and `out_fd`; made inside the running loop."""

    def __init__(self, in_fd: int, out_fd: int) -> None:
        self._in_fd = in_fd
        self._loop = asyncio.get_running_loop()
        self._open: set[RequestId | None] = set()
        self._finishing = False
        self._delivery, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
        self.outgoing = Outbox(out_fd, self._settle)

    def start(self, on_end: Callable[[], None]) -> None:
        """Read the host's frames in a thread; `on_end` is called there when no more can come."""
        threading.Thread(target=self._read_all, args=(on_end,), name="stdin", daemon=True).start()

    def finish(self) -> None:
        """End the incoming stream as soon as every open request is answered."""
        self._finishing = True
        self._close_if_idle()

    def _read_all(self, on_end: Callable[[], None]) -> None:
        try:
            for outcome in read_frames(partial(os.read, self._in_fd, _CHUNK_BYTES)):
                if isinstance(outcome, Refusal):
                    self.outgoing.put(outcome.frame())
                else:
                    self._deliver(outcome)
        except (OSError, RuntimeError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # the pipe broke, or the server is closing: both are the end
        on_end()

    def _deliver(self, message: JSONRPCMessage) -> None:
        """Hand a message to the loop and wait until it is taken, so that a flood stays in the pipe."""
        metadata = None
        if isinstance(message, JSONRPCRequest) and message.method != _LASTING_METHOD:
            self._open.add(message.id)
            metadata = ServerMessageMetadata(on_request_unanswered=partial(self._settle_unanswered, message.id))
        sending = self._delivery.send(SessionMessage(message, metadata))
        asyncio.run_coroutine_threadsafe(sending, self._loop).result()

    async def _settle_unanswered(self, request_id: RequestId) -> None:
        self._settle(request_id)

    def _settle(self, request_id: RequestId | None) -> None:
        self._open.discard(request_id)
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._finishing and not self._open:
            self._delivery.close()
