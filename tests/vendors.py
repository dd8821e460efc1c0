"""Vendors: a model behind a loopback endpoint that is paid for, and hears how it is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Vendor(ThreadingHTTPServer):
    """A model that is never right; an answer that is to have fewer tokens than `needs` is cut off."""

    needs, answer = 0, "no"
    reply: Callable[[str], str] | None = None  # in place of `answer`, by what was asked
    hears_skill = False  # what was asked is all of it, with the skill before the task
    quota: int | None = None  # so many answers, then it turns all down

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.heard: list[str] = []
        self.asked: list[str] = []

    def spec(self, *options: str, model: str = "m") -> str:
        return ",".join([f"openai:{model},base_url=http://127.0.0.1:{self.server_port}/v1,api=chat", *options])


class _Handler(BaseHTTPRequestHandler):
    server: Vendor
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.heard.append(self.headers["authorization"] or self.headers["api-key"])
        n_asked = len(self.server.asked)
        if self.server.quota is not None and n_asked >= self.server.quota and "messages" in request:
            content = b'{"error": {"message": "your credit balance is too low", "code": "insufficient_quota"}}'
            self.send_response(401)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            return
        if "messages" not in request:  # it is asked by an API that it does not have
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        self.server.asked.append(json.dumps(request["messages"]))
        ending = "length" if request.get("max_tokens", 1000) < self.server.needs else "stop"
        reply = self.server.reply
        heard = [each["content"] for each in request["messages"]]
        said = reply("\n".join(heard if self.server.hears_skill else heard[-1:])) if reply else self.server.answer
        choice = {"index": 0, "finish_reason": ending, "message": {"role": "assistant", "content": said}}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        body = {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [choice],
            "usage": usage,
        }
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def vending() -> Iterator[Vendor]:
    """Lend a vendor that answers."""
    with Vendor() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.002})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
