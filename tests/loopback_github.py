"""Loopback GitHub: as much of the API as a gate asks, in a server of this process, and the events that it sends."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

BOT = "github-actions[bot]"
TOKEN = "ghs_0123456789abcdefghijklmnopqrstuvwxyz"
REPOSITORY = "harbour/ferry"


@dataclass
class LoopbackGithub:
    """The state of a repository, all requests to it, and what it answers to a method and path instead (`faults`)."""

    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    faults: dict[str, list[tuple[int, dict[str, str]]]] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)

    def add_comment(self, body: str, author: str = BOT) -> None:
        number = len(self.comments) + 1
        self.comments.append({"id": number, "body": body, "user": {"login": author}})

    def answer(self, method: str, path: str, query: Mapping[str, list[str]], body: Any) -> tuple[int, Any]:
        """Return status and JSON of an answer."""
        path = path.removeprefix(f"/repos/{REPOSITORY}/")
        if method == "GET" and re.fullmatch(r"issues/7/comments", path):
            page, size = int(query.get("page", ["1"])[0]), int(query.get("per_page", ["30"])[0])
            return 200, self.comments[(page - 1) * size : page * size]
        if method == "POST" and path == "issues/7/comments":
            self.add_comment(body["body"])
            return 201, self.comments[-1]
        if method == "PATCH" and (found := re.fullmatch(r"issues/comments/(\d+)", path)):
            self.comments[int(found[1]) - 1]["body"] = body["body"]
            return 200, self.comments[int(found[1]) - 1]
        if method == "POST" and path == "check-runs":
            self.checks.append(body)
            return 201, {"id": len(self.checks)}
        if method == "GET" and path == "pulls":
            head = query["head"][0]
            return 200, [each for each in self.pulls if f"{each['head']['user']}:{each['head']['ref']}" == head]
        if method == "GET" and (found := re.fullmatch(r"commits/(\w+)/pulls", path)):
            return 200, []  # GitHub has none for a commit that only a fork has
        if method == "GET" and (found := re.fullmatch(r"pulls/(\d+)", path)):
            return next(((200, each) for each in self.pulls if each["number"] == int(found[1])), (404, {}))
        return 404, {"message": f"nothing at {method} {path}"}


def a_pull(base: str, head: str, *, fork: bool = False, number: int = 7) -> dict[str, Any]:
    """A pull request, as the API and events have it."""
    owner = "stranger" if fork else "harbour"
    repo = {"full_name": f"{owner}/ferry", "owner": {"login": owner}}
    return {
        "number": number, "state": "open", "base": {"sha": base, "ref": "main", "repo": {"full_name": REPOSITORY}},
        "head": {"sha": head, "ref": "better-tone", "user": owner, "repo": repo},
    }  # fmt: skip


def a_comment(body: str, association: str = "MEMBER", action: str = "created") -> dict[str, Any]:
    """The event of a comment on pull request 7."""
    return {
        "action": action, "issue": {"number": 7, "pull_request": {"url": "x"}},
        "comment": {"body": body, "author_association": association, "user": {"login": "someone"}},
    }  # fmt: skip


def a_run(head: str, branch: str = "better-tone") -> dict[str, Any]:
    """The event of a finished run of a fork's pull request; such a run names no pull request."""
    repo = {"full_name": "stranger/ferry", "owner": {"login": "stranger"}}
    run = {"id": 5, "event": "pull_request", "head_sha": head, "head_branch": branch, "head_repository": repo}
    return {"action": "completed", "workflow_run": run | {"conclusion": "success", "pull_requests": []}}


def environ_of(github: LoopbackGithub, name: str, event: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """GITHUB_* of a job on an event, whose file is written to `folder`."""
    path = folder / "event.json"
    repository = {"full_name": REPOSITORY, "default_branch": "main"}
    path.write_text(json.dumps({**event, "repository": repository}))
    return {
        "GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path), "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN, "GITHUB_ACTIONS": "true", "CI": "true",
    }  # fmt: skip


@contextmanager
def serve_github() -> Iterator[LoopbackGithub]:
    """Serve an empty repository on loopback."""
    github = LoopbackGithub()

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            at = urlsplit(self.path)
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            github.requests.append((self.command, at.path))
            github.tokens.add(self.headers.get("authorization", ""))
            fault = github.faults.get(f"{self.command} {at.path.removeprefix(f'/repos/{REPOSITORY}/')}", [])
            headers = dict[str, str]()
            if fault:
                status, headers = fault.pop(0) if len(fault) > 1 else fault[0]
                value: Any = {"message": "no"}
            if not fault or status == 0:
                status, value = github.answer(self.command, at.path, parse_qs(at.query), body)
            self.send_response(status)
            for each in headers.items():
                self.send_header(*each)
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        do_GET = do_POST = do_PATCH = _handle

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    github.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield github
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
