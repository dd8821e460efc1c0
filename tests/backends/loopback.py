"""Loopback: a server that speaks the vendors' wire formats on 127.0.0.1, and fails in every way that they do."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

KEY = "sk-planted-0123456789abcdef"


@dataclass(frozen=True)
class Request:
    """What was sent: path, headers in lower case, and the JSON body."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def system(self) -> str:
        """The system's part as one text, whichever API it came by."""
        found = self.body.get("system") or self.body.get("instructions") or self.body["messages"][0]["content"]
        return found if isinstance(found, str) else "".join(block["text"] for block in found)

    @property
    def user(self) -> str:
        """The user's part as one text."""
        content = (self.body.get("messages") or self.body["input"])[-1]["content"]
        return content if isinstance(content, str) else "".join(block["text"] for block in content)


@dataclass(frozen=True)
class Sent:
    """A response as it goes over the wire; `promised` is its content-length where that is not its length."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    promised: int | None = None


@dataclass(frozen=True)
class Said:
    """What the model says, with what it ended in, in the words of the API that was asked.

    `model` says that it was, where it is not the one that was asked for, and `configuration` its fingerprint.
    """

    text: str
    end: str | None = None
    thinking: str = ""
    refusal: str = ""
    model: object = None
    configuration: object = None


Act = str | Said | Sent | Literal["hang", "reset", "reset mid-body"]
ACTS = ("hang", "reset", "reset mid-body")


class Loopback:
    """A running server in a thread: `act` decides what the n-th request gets; `requests` keeps them all."""

    def __init__(self, act: Callable[[int, Request], Act], latency_s: float = 0.0) -> None:
        self.requests: list[Request] = []
        self.arrived = threading.Event()
        self._act, self._latency_s = act, latency_s
        self._cached: set[str] = set()
        self._n_open = self.most_at_once = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.002}, daemon=True)
        self._thread.start()
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}"

    def close(self) -> None:
        """Stop serving, and let go of every client that is kept waiting."""
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request: Request) -> Sent | str:
        """Return what `request` gets."""
        with self._lock:
            self._n_open += 1
            self.most_at_once = max(self.most_at_once, self._n_open)
        try:
            return self._answer(request)
        finally:
            with self._lock:
                self._n_open -= 1

    def _answer(self, request: Request) -> Sent | str:
        with self._lock:
            self.requests.append(request)
            act = self._act(len(self.requests), request)
            was_cached = _prefix(request) in self._cached
        self.arrived.set()
        if act == "hang":
            self._over.wait(30)
        if act in ACTS:
            return str(act)
        time.sleep(self._latency_s)
        if isinstance(act, Sent):
            return act
        said = act if isinstance(act, Said) else Said(act)
        if request.path.split("?")[0].endswith("/messages"):
            with self._lock:
                self._cached.add(_prefix(request))
            body = _message(request, said, was_cached=was_cached)
        else:
            body = _chat(request, said) if "chat/completions" in request.path else _responses(request, said)
        return Sent(body=json.dumps(body).encode(), headers={"content-type": "application/json"})


def _prefix(request: Request) -> str:
    """Return what the vendor caches: all up to the last breakpoint, readable once a first response has begun."""
    messages = request.body.get("messages") or [{"content": ""}]
    parts = (request.body.get("system"), messages[0]["content"])
    blocks = [block for part in parts if isinstance(part, list) for block in part]
    marks = [n for n, block in enumerate(blocks) if "cache_control" in block]
    return "".join(block["text"] for block in blocks[: marks[-1] + 1]) if marks else ""


def _message(request: Request, said: Said, *, was_cached: bool) -> dict[str, Any]:
    n_whole, n_prefix = len(request.system + request.user) // 4, len(_prefix(request)) // 4
    content = [{"type": "thinking", "thinking": said.thinking, "signature": "s"}] if said.thinking else []
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": said.model or request.body["model"],
        "content": [*content, {"type": "text", "text": said.text}],
        "stop_reason": said.end or "end_turn", "stop_sequence": None,
        "usage": {
            "input_tokens": n_whole - n_prefix, "output_tokens": len(said.text) // 4 + 1,
            "cache_creation_input_tokens": 0 if was_cached else n_prefix,
            "cache_read_input_tokens": n_prefix if was_cached else 0,
        },
    }  # fmt: skip


def _chat(request: Request, said: Said) -> dict[str, Any]:
    message = {"role": "assistant", "content": said.text, "refusal": said.refusal or None}
    if said.thinking:
        message["reasoning_content"] = said.thinking
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": said.model or request.body["model"],
        "system_fingerprint": said.configuration,
        "choices": [{"index": 0, "message": message, "finish_reason": said.end or "stop", "logprobs": None}],
        "usage": {
            "prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020,
            "prompt_tokens_details": {"cached_tokens": 600},
        },
    }  # fmt: skip


def _responses(request: Request, said: Said) -> dict[str, Any]:
    part = {"type": "output_text", "text": said.text, "annotations": []}
    if said.refusal:
        part = {"type": "refusal", "refusal": said.refusal}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": said.thinking}]}
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": said.model or request.body["model"],
        "status": "incomplete" if said.end else "completed", "error": None,
        "incomplete_details": {"reason": said.end} if said.end else None,
        "output": [*([reasoning] if said.thinking else []), message],
        "usage": {
            "input_tokens": 1000, "input_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 0},
            "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 1020,
        },
    }  # fmt: skip


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore it: clients that hang up are part of the tests."""


def _handler(server: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _respond(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            sent = server.answer(Request(self.path, headers, json.loads(raw)))
            if isinstance(sent, str):
                self._break_off(sent)
                return
            self.send_response(sent.status)
            for name, value in sent.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(sent.body) if sent.promised is None else sent.promised))
            self.end_headers()
            self.wfile.write(sent.body)
            self.close_connection = sent.promised is not None

        do_POST = _respond

        def _break_off(self, how: str) -> None:
            if how == "reset mid-body":
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "1000")
                self.end_headers()
                self.wfile.write(b'{"output": [')
                self.wfile.flush()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True

    return Handler


@contextmanager
def loopback(act: Callable[[int, Request], Act] | Act, latency_s: float = 0.0) -> Iterator[Loopback]:
    """Run a server that gives every request `act`, or what `act` returns for it."""
    server = Loopback(act if callable(act) else lambda n, request: act, latency_s)
    try:
        yield server
    finally:
        server.close()
