"""Wire: one host at the other end of two pipes; bytes become messages, and every request gets an answer."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import select
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
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
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from skillopt_mcp.server.app import SkillOptServer
from skillopt_mcp.server.lifecycle import Ending

MAX_FRAME_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 100

# A JSON-RPC message has one member that is not a scalar (params), so its id stands behind scalars only, seen from the
# start or from the end. That finds the id in frames that cannot be parsed or held.
_KEPT_BYTES = 4096
_SCALAR = rb'(?:-?[0-9.eE+-]{1,40}|"(?:[^"\\]|\\.){0,256}"|true|false|null)'
_ID = rb'(-?(?:0|[1-9][0-9]{0,18})|"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}){0,256}")'
_HEAD_ID = re.compile(rb'\s*\{(?:\s*"\w+"\s*:\s*' + _SCALAR + rb'\s*,)*\s*"id"\s*:\s*' + _ID + rb"\s*[,}]")
_TAIL_ID = re.compile(rb'(?<!\\)"id"\s*:\s*' + _ID + rb'\s*(?:,\s*"\w+"\s*:\s*' + _SCALAR + rb"\s*)*\}\s*\Z")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_TOO_DEEP = f"This message is nested deeper than {MAX_DEPTH} levels; flatten it."
_NO_REQUEST = (
    "This is not a JSON-RPC 2.0 request: it needs jsonrpc, method, an id that is a string or an integer, "
    "and params that are an object."
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a frame that the server cannot take: `id` is None where the frame's own is unknown."""

    id: str | int | float | None
    code: int
    message: str

    def frame(self) -> bytes:
        """Return the refusal as one line of JSON-RPC."""
        body = {"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code, "message": self.message}}
        return json.dumps(body).encode() + b"\n"


@dataclass(slots=True)
class _Frame:
    """The bytes of one line so far; of a line over the limit only its start and its end are kept."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, part: bytes) -> None:
        self.parts.append(part)
        self.size += len(part)
        if self.size > MAX_FRAME_BYTES:
            kept = b"".join(self.parts)
            self.parts = [kept[:_KEPT_BYTES], kept[-_KEPT_BYTES:]]

    def read(self) -> JSONRPCMessage | Refusal | None:
        if self.size <= MAX_FRAME_BYTES:
            return read_frame(b"".join(self.parts))
        size = f"{self.size / 1024**2:.1f} MiB"
        return _refuse_bytes(b"".join(self.parts), f"This message has {size}, over the limit of 8 MiB; send less.")


def read_frames(read: Callable[[], bytes]) -> Iterator[JSONRPCMessage | Refusal]:
    """Yield the messages, and the refusals of what is none, in the chunks that `read` gives until it gives b""."""
    frame = _Frame()
    while chunk := read():
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            frame.add(end)
            if (outcome := frame.read()) is not None:
                yield outcome
            frame = _Frame()
        frame.add(rest)
    if (outcome := frame.read()) is not None:
        yield outcome


def read_frame(line: bytes) -> JSONRPCMessage | Refusal | None:
    """Return the message of one line, a refusal, or None for what asks for no answer (blank or garbage)."""
    try:
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return _read_odd_frame(line)
    return _checked(message, line)


def _read_odd_frame(line: bytes) -> JSONRPCMessage | Refusal | None:
    """Return a repaired message, or why the line is none."""
    if not line.strip():
        return None
    try:
        text = line.decode("utf-8-sig", "surrogatepass")
        value = json.loads(text)
        repaired = _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", json.dumps(value, ensure_ascii=False))
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_json(repaired, by_name=False)
    except UnicodeDecodeError:
        return _refuse_bytes(line, "This message is not valid UTF-8; encode it as UTF-8.")
    except RecursionError:
        return _refuse_bytes(line, _TOO_DEEP)
    except json.JSONDecodeError as error:
        return _refuse_bytes(line, f"This message is not valid JSON ({error.msg}, character {error.pos}).")
    except ValidationError:
        return _refuse_value(value, line)
    except ValueError:
        return _refuse_bytes(line, "This message holds a number of more than 4300 digits; shorten it.")
    return _checked(message, line)


def _checked(message: JSONRPCMessage, line: bytes) -> JSONRPCMessage | Refusal | None:
    """Return the message, or a refusal of what the parser let pass in it."""
    if isinstance(message, JSONRPCRequest | JSONRPCNotification):
        if isinstance(message, JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line):
            return _refuse_value(json.loads(line), line)
        if message.params and (fault := _fault_of(message.params)):
            return _refuse_bytes(line, fault)
    return message


def _fault_of(value: dict[str, object] | list[object]) -> str | None:
    """Return what is wrong with decoded JSON that the parser let pass, or None."""
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[dict[str, object] | list[object]] = []
        for container in level:
            for item in container.values() if isinstance(container, dict) else container:
                if isinstance(item, (dict, list)):
                    below.append(item)
                elif isinstance(item, float) and not math.isfinite(item):
                    return "This message holds NaN or an infinite number, which is not JSON; leave it out."
        if not below:
            return None
        level = below
    return _TOO_DEEP


def _refuse_value(value: object, line: bytes) -> Refusal | None:
    """Return the refusal of decoded JSON that is not a message of this protocol, or None when it asks for no answer."""
    if isinstance(value, list):
        asks = any(isinstance(item, dict) and "id" in item for item in value)
        return Refusal(None, INVALID_REQUEST, "Lists are not served; send one message per line.") if asks else None
    if not isinstance(value, dict) or "id" not in value or "result" in value or "error" in value:
        return None
    if fault := _fault_of(value):
        return _refuse_bytes(line, fault)
    given = value["id"]
    known = given if isinstance(given, str | int | float) and not isinstance(given, bool) else None
    return Refusal(known, INVALID_REQUEST, _NO_REQUEST)


def _refuse_bytes(line: bytes, message: str) -> Refusal | None:
    """Return the refusal of a frame that was not parsed, or None when it has no id to answer."""
    found = _HEAD_ID.match(line[:_KEPT_BYTES]) or _TAIL_ID.search(line[-_KEPT_BYTES:])
    return Refusal(json.loads(found[1].decode("utf-8", "replace")), PARSE_ERROR, message) if found else None


_CHUNK_BYTES = 1 << 16
# So many messages wait for the loop; a flood of more stays in the pipe.
_N_WAITING = 8
# A write of this size never blocks on a pipe that is ready (POSIX).
_PIPE_BUF = 4096
# What `poll` returns for a pipe or socket whose reader has gone.
_CLOSED = getattr(select, "POLLERR", 0) | getattr(select, "POLLHUP", 0)
# A request that stays open as long as the connection: its answer is not waited for at the end.
_LASTING_METHOD = "subscriptions/listen"


class Stream:
    """What the SDK expects of both streams, besides sending or receiving."""

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
        """Return whether the host has closed its end, as far as the system knows."""
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
            self._answer_closed(asked)
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
        """Note a request as open, and ask for a call when the host has cancelled it."""
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
            self._answer_closed(request_id)

    def _answer_closed(self, request_id: RequestId | None) -> None:
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


_HOST_POLL_S = 0.5
_LEAVING_POLL_S = 0.1


class Session:
    """A server at work for the host that started it; `leaving` is set once the host goes."""

    def __init__(self, server: SkillOptServer, leaving: Future[None]) -> None:
        self._server, self._leaving = server, leaving

    def run(self, pipes: tuple[int, int], ending: Ending, parent: int) -> None:
        """Serve the host at the other end of `pipes` until `ending` begins, or the process `parent` is gone."""
        asyncio.run(self._run(pipes, ending, parent))

    async def _run(self, pipes: tuple[int, int], ending: Ending, parent: int) -> None:
        loop = asyncio.get_running_loop()
        wire = Wire(*pipes)

        def finish() -> None:
            self._leaving.set_result(None)
            loop.call_soon_threadsafe(wire.finish)

        ending.attach(finish)
        wire.start(on_end=ending.close)
        watching = asyncio.create_task(_watch_host(parent, wire, ending))
        await self._server.run_streams(wire.incoming, wire.outgoing)
        await asyncio.to_thread(wire.outgoing.flush)
        watching.cancel()
        # All is answered: what still runs in a thread gets the grace.
        ending.begin()


async def _watch_host(parent: int, wire: Wire, ending: Ending) -> None:
    """End the server when its host is gone: its parent has died, or it does not read the answers any more.

    Something else may still hold its stdin open.
    """
    while os.getppid() == parent and not (ending.is_closing and wire.outgoing.is_unread()):
        await asyncio.sleep(_LEAVING_POLL_S if ending.is_closing else _HOST_POLL_S)
    ending.begin()
