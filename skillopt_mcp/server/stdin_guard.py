"""Stdin guard: turns the bytes that a host writes into messages, so that every frame with an id gets an answer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

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
    """The answer to a frame that the server cannot take: `id` is None when the frame's own cannot be told."""

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
    """Return the refusal of decoded JSON that is no message of this protocol, or None when it asks for no answer."""
    if isinstance(value, list):
        asks = any(isinstance(item, dict) and "id" in item for item in value)
        return Refusal(None, INVALID_REQUEST, "Batches are not served; send one message per line.") if asks else None
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
