"""Batch vendor: a server that speaks both vendors' batch APIs on 127.0.0.1, with their immediate ones."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from clerk import answer
from loopback import HttpServer, Request, Said, Sent, _chat, _message, _responses

Body = dict[str, Any]
JSON = {"content-type": "application/json"}
# What becomes of a call in a batch: a text, or how it fails.
Fate = str | Said | Body


@dataclass
class Batch:
    """A batch as the vendor keeps it; it is over after so many looks."""

    id: str
    lines: list[Body]
    made_at: float
    tag: Body | None = None
    endpoint: str = ""
    looks_left: int = 1
    is_cancelled: bool = False
    input_file: str = ""
    failed: str = ""
    outcomes: dict[str, Body] = field(default_factory=dict)


class BatchVendor(HttpServer):
    """A running vendor. `fate` decides what becomes of a call in a batch; `paid` counts each call that was answered."""

    def __init__(self, fate: Callable[[Request], Fate]) -> None:
        self.fate = fate
        self.files: dict[str, bytes] = {}
        self.batches: list[Batch] = []
        self.paid: Counter[str] = Counter()
        self.requests: list[str] = []
        self.n_looks = 1
        # Codes of errors that the next batches fail with as a whole.
        self.failures: list[str] = []
        self.on_request: Callable[[str, str], None] = lambda method, path: None
        # Replies with this status to the next requests whose path ends so.
        self.refusals: list[tuple[str, int, Body]] = []
        self._lock = threading.RLock()
        super().__init__()

    def respond(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> Sent:
        with self._lock:
            return self._answered(method, path, raw)

    def _answered(self, method: str, target: str, raw: bytes) -> Sent:
        parts = urlsplit(target)
        path, query = parts.path, {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.requests.append(f"{method} {path}")
        for n, (ending, status, body) in enumerate(self.refusals):
            if f"{method} {path}".endswith(ending):
                del self.refusals[n]
                return Sent(status, json.dumps(body).encode(), JSON)
        found = self._respond(method, path, query, raw)
        self.on_request(method, path)
        return Sent(200, found if isinstance(found, bytes) else json.dumps(found).encode(), JSON)

    def _respond(self, method: str, path: str, query: dict[str, str], raw: bytes) -> Body | bytes:
        words = path.strip("/").split("/")
        if words[1] == "files":
            return self._files(method, words, raw)
        if "batches" not in words:
            return self._now(path, json.loads(raw))
        at = words.index("batches")
        is_openai, rest = at == 1, words[at + 1 :]
        if not rest and method == "POST":
            body = json.loads(raw)
            batch = self._opened(body, is_openai=is_openai)
            return self._shown(batch, is_openai=is_openai)
        if not rest:
            young = list(reversed(self.batches))
            after = query.get("after") or query.get("after_id")
            if after:
                young = young[[batch.id for batch in young].index(after) + 1 :]
            page = young[: min(2, int(query["limit"]))]
            shown = [self._looked_at(batch, is_openai=is_openai) for batch in page]
            return {"object": "list", "data": shown, "has_more": len(young) > len(page)}
        batch = next(batch for batch in self.batches if batch.id == rest[0])
        if rest[1:] == ["cancel"]:
            batch.is_cancelled = True
        elif rest[1:] == ["results"]:
            lines = [{"custom_id": name, "result": outcome} for name, outcome in batch.outcomes.items()]
            return "\n".join(map(json.dumps, lines)).encode()
        elif method == "DELETE":
            self.batches.remove(batch)
            return {"id": batch.id, "type": "message_batch_deleted"}
        else:
            return self._looked_at(batch, is_openai=is_openai)
        return self._shown(batch, is_openai=is_openai)

    def _looked_at(self, batch: Batch, *, is_openai: bool) -> Body:
        batch.looks_left -= 1
        if (batch.looks_left <= 0 or batch.is_cancelled) and not batch.failed:
            self._finish(batch, is_openai=is_openai)
        return self._shown(batch, is_openai=is_openai)

    def _now(self, path: str, body: Body) -> Body:
        request = Request(path, {}, body)
        said = Said(answer(0, request))
        if path.endswith("/messages"):
            return _message(request, said, was_cached=False)
        return _chat(request, said) if "chat" in path else _responses(request, said)

    def _files(self, method: str, words: list[str], raw: bytes) -> Body | bytes:
        if method == "POST":
            start = raw.index(b"\r\n\r\n", raw.index(b'filename="')) + 4
            content = raw[start : raw.index(b"\r\n--", start)]
            file_id = f"file-{len(self.files)}"
            self.files[file_id] = content
            return {"id": file_id, "object": "file", "bytes": len(content), "created_at": 1, "filename": "f",
                    "purpose": "batch", "status": "processed"}  # fmt: skip
        if method == "DELETE":
            del self.files[words[2]]
            return {"id": words[2], "object": "file", "deleted": True}
        return self.files[words[2]]

    def _opened(self, body: Body, *, is_openai: bool) -> Batch:
        batch_id = f"batch_{len(self.requests)}"
        if is_openai:
            lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
            assert {line["url"] for line in lines} == {body["endpoint"]}
            batch = Batch(batch_id, lines, time.time(), body["metadata"], body["endpoint"])
            batch.input_file = body["input_file_id"]
            batch.failed = self.failures.pop(0) if self.failures else ""
        else:
            batch = Batch(batch_id, body["requests"], time.time(), endpoint="/v1/messages")
        batch.looks_left = self.n_looks
        self.batches.append(batch)
        return batch

    def _finish(self, batch: Batch, *, is_openai: bool) -> None:
        for line in batch.lines if not batch.outcomes else []:
            body = line["body"] if is_openai else line["params"]
            request = Request(batch.endpoint, {}, body)
            fate: Fate = {"type": "canceled"} if batch.is_cancelled else self.fate(request)
            if not isinstance(fate, dict):
                self.paid[line["custom_id"].partition("-")[2]] += 1
                said = fate if isinstance(fate, Said) else Said(fate)
                made = _message(request, said, was_cached=False) if not is_openai else (
                    _chat(request, said) if "chat" in batch.endpoint else _responses(request, said)
                )  # fmt: skip
                fate = {"type": "succeeded", "message": made}
            batch.outcomes[line["custom_id"]] = fate

    def _shown(self, batch: Batch, *, is_openai: bool) -> Body:
        is_over, n = bool(batch.outcomes), len(batch.lines)
        if not is_openai:
            counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
            counts["succeeded" if is_over else "processing"] = n
            stamp = datetime.fromtimestamp(batch.made_at, UTC).isoformat()
            return {
                "id": batch.id, "type": "message_batch", "processing_status": "ended" if is_over else "in_progress",
                "request_counts": counts, "created_at": stamp, "expires_at": stamp,
                "cancel_initiated_at": stamp if batch.is_cancelled else None,
                "results_url": "http://127.0.0.1:1/elsewhere" if is_over else None,
            }  # fmt: skip
        shown = {
            "id": batch.id, "object": "batch", "endpoint": batch.endpoint, "input_file_id": batch.input_file,
            "completion_window": "24h", "status": "in_progress", "created_at": int(batch.made_at),
            "metadata": batch.tag, "request_counts": {"total": n, "completed": 0, "failed": 0},
        }  # fmt: skip
        if batch.failed:
            return shown | {"status": "failed", "errors": {"data": [{"code": batch.failed, "message": "no"}]}}
        return shown | (self._over(batch) if is_over else {})

    def _over(self, batch: Batch) -> Body:
        """Return what an OpenAI batch says once it is over; its files are made when they are first listed."""
        out, bad = [], []
        for name, outcome in batch.outcomes.items():
            kind = outcome["type"]
            if kind == "succeeded":
                response = {"status_code": 200, "request_id": "r", "body": outcome["message"]}
                out.append({"id": "b", "custom_id": name, "response": response, "error": None})
            elif kind == "expired":
                bad.append({"custom_id": name, "response": None, "error": {"code": "batch_expired", "message": "late"}})
            elif kind == "errored":
                inner = outcome["error"]["error"]
                response = {"status_code": outcome["status"], "body": {"error": inner}}
                bad.append({"custom_id": name, "response": response, "error": None})
        for ending, lines in (("out", out), ("bad", bad)):
            if f"{batch.id}-{ending}" not in self.files and lines:
                self.files[f"{batch.id}-{ending}"] = "\n".join(map(json.dumps, lines)).encode()
        return {
            "status": "cancelled" if batch.is_cancelled else "completed",
            "output_file_id": f"{batch.id}-out" if out else None,
            "error_file_id": f"{batch.id}-bad" if bad else None,
            "request_counts": {"total": len(batch.lines), "completed": len(out), "failed": len(bad)},
        }


EXPIRED: Body = {"type": "expired"}
OVERLOADED: Body = {
    "type": "errored", "status": 503,
    "error": {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
}  # fmt: skip


@contextmanager
def batch_vendor(fate: Callable[[Request], Fate] = lambda request: answer(0, request)) -> Iterator[BatchVendor]:
    """Run a vendor whose models answer as the clerk's script says, or as `fate` does in batches."""
    vendor = BatchVendor(fate)
    try:
        yield vendor
    finally:
        vendor.close()
