"""Scripted model: a loopback HTTP server that plays a model whose next turn follows from the tool results so far."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool of a server; with an empty `server`, of one that the host brings along."""

    tool: str
    arguments: Json
    server: str = "skillopt"


Turn = list[ToolCall | str]
Script = Callable[[list[Json]], Turn]


@dataclass(frozen=True)
class Team:
    """An agent and those that it starts: their first message holds `mark`, and their order (json) follows it."""

    mark: str
    main: Script
    started: Callable[[str, list[Json]], Turn]

    def turn(self, request: Json, results: list[Json]) -> Turn:
        """Return the next turn of whoever asks."""
        first = json.dumps(request["messages"][0])
        order = first.rpartition(self.mark)[2] if self.mark in first else None
        return self.main(results) if order is None else self.started(order, results)


@dataclass
class Model:
    """Where the model listens, and what it was asked: the bodies of all requests that came with tools."""

    port: int
    requests: list[Json] = field(default_factory=list)


class Api(BaseHTTPRequestHandler):
    """What the APIs of two vendors share: a subclass says how a request is read and a turn is streamed."""

    protocol_version = "HTTP/1.1"
    script: Script | Team
    model: Model

    def results(self, request: Json) -> list[Json]:
        """Return the tool results that the request carries, oldest first."""
        raise NotImplementedError

    def events(self, request: Json, turn: Turn) -> Iterator[tuple[str, Json]]:
        """Yield the server-sent events of a turn."""
        raise NotImplementedError

    def do_HEAD(self) -> None:
        self._json(200, {})

    def do_GET(self) -> None:
        self._json(200, {"object": "list", "data": [], "models": [], "has_more": False})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        path = self.path.partition("?")[0]
        if not path.endswith(("/messages", "/responses")):
            self._json(200, {"input_tokens": 1})
            return
        turn: Turn = ["ok"]
        if request.get("tools"):
            self.model.requests.append(request)
            results = self.results(request)
            turn = self.script.turn(request, results) if isinstance(self.script, Team) else self.script(results)
        self._stream(self.events(request, turn))

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _json(self, code: int, value: Json) -> None:
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, events: Iterator[tuple[str, Json]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, value in events:
            self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **value})}\n\n".encode())
            self.wfile.flush()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Pass over hosts that hang up in the middle of a stream."""


@contextmanager
def serving(api: type[Api], script: Script | Team) -> Iterator[Model]:
    """Serve a model on loopback while the block runs."""
    with _Server(("127.0.0.1", 0), api) as server:
        api.script = script if isinstance(script, Team) else staticmethod(script)
        api.model = Model(server.server_port)  # type: ignore[assignment]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield api.model
        finally:
            server.shutdown()
            thread.join()


def first_object(text: str) -> Json:
    """Return the JSON object that a text begins with, or the text itself under "text"."""
    if text.lstrip().startswith("{"):
        value = json.JSONDecoder().raw_decode(text.lstrip())[0]
        assert isinstance(value, dict)
        return value
    return {"text": text}
