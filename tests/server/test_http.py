"""HTTP: who is let in, with what, and where the token is kept."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from skillopt_mcp.errors import BadInput, Refused
from skillopt_mcp.server import http
from skillopt_mcp.server.http import (
    BODY_BYTES,
    TOKEN_VARIABLE,
    WORKER_VARIABLE,
    Address,
    Guarded,
    Timed,
    open_token,
    parsed_address,
    worker_token,
)

PROGRAM = str(Path(sys.executable).with_name("skillopt-mcp"))
TOKEN = "a-token-of-more-than-24-characters"
WORKER = "another-token-that-takes-work-only"


class Served:
    """A server that runs in `place`, and a client that knows the token."""

    def __init__(self, place: Path, *options: str, **environ: str) -> None:
        command = [PROGRAM, "serve", "--store", str(place / "store.db"), "--http", "0", *options]
        self.process = subprocess.Popen(
            command, cwd=place, env={**os.environ, **environ}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.client = httpx2.Client(timeout=30)
        assert self.process.stderr
        self.said = self.process.stderr.readline()
        self.url = self.said.split("MCP at ")[1].split(";")[0]

    def post(self, body: object, token: str | None = TOKEN, **headers: str) -> httpx2.Response:
        sent = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.post(self.url, content=content, headers=sent)

    def ask(self, token: str, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer to a request in a session of its own, `result` or `error`."""
        version = initialize()["params"]["protocolVersion"]
        session = self.post(initialize(), token).headers["mcp-session-id"]
        body = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
        answer = self.post(body, token, **{"mcp-session-id": session, "mcp-protocol-version": version})
        lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith(("data: {", "{"))]
        answered: dict[str, Any] = json.loads(lines[-1])
        return answered

    def call(self, token: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return what a tool answers."""
        answered = self.ask(token, "tools/call", name=tool, arguments=arguments)
        assert not answered["result"].get("isError"), answered
        found: dict[str, Any] = answered["result"]["structuredContent"]
        assert json.loads(answered["result"]["content"][0]["text"]) == found
        return found

    def end(self) -> str:
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=10)
        assert self.process.returncode == 0
        return f"{self.said}{out}{err}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tokens = {TOKEN_VARIABLE: TOKEN, WORKER_VARIABLE: WORKER}
    server = Served(tmp_path_factory.mktemp("http"), "--allow-origin", "https://app.example", **tokens)
    yield server
    said = server.end()
    assert TOKEN not in said
    assert WORKER not in said


def initialize(version: str = "2025-11-25") -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def test_who_has_the_token_is_served(served: Served) -> None:
    answer = served.post(initialize())
    assert (answer.status_code, "SkillOpt" in answer.text) == (200, True)


@pytest.mark.parametrize("token", [None, "wrong", TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), f"{TOKEN} x"])
def test_no_one_else_is(served: Served, token: str | None) -> None:
    answer = served.post(initialize(), token)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "SkillOpt" not in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"host": "localhost.evil.example:80"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://app.example.evil"}, 403),
        ({"origin": "https://app.example"}, 200),
        ({"content-type": "text/plain"}, 400),
    ],
)
def test_only_exact_names_and_origins_are_let_in(served: Served, headers: dict[str, str], status: int) -> None:
    assert served.post(initialize(), **headers).status_code == status


def test_a_worker_takes_and_submits_work_and_learns_no_outcome(served: Served, tmp_path: Path) -> None:
    skill = tmp_path / "skills" / "count"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: count\ndescription: Counts.\n---\n# Count\n- Count.\n")
    tasks = [
        {"prompt": f"Count to {n}.", "judge": {"kind": "exact", "expected": "42"}, "split": "test"} for n in range(6)
    ]
    served.call(TOKEN, "add_tasks", skill=str(skill), tasks=tasks)
    edits = [{"op": "append", "content": "- Count slowly."}]
    candidate_id = served.call(TOKEN, "propose_edits", skill=str(skill), edits=edits)["candidate_id"]
    served.call(TOKEN, "evaluate_candidate", candidate_id=candidate_id)
    taken = served.call(TOKEN, "submit_work", job_id=candidate_id, max_items=1)
    job_id = taken["job_id"]
    submitted = served.call(WORKER, "submit_work", job_id=job_id)
    assert (submitted["status"], submitted["next_step"]["action"]) == ("work", "submit_work")
    work_id = submitted["work"][0]["work_id"]
    assert served.call(WORKER, "inspect", id=work_id)["id"] == work_id
    while work := [*taken.pop("work", []), *submitted["work"]]:
        replies = [{"work_id": item["work_id"], "reply": "42"} for item in work]
        submitted = served.call(WORKER, "submit_work", replies=replies, job_id=job_id)
    assert submitted["status"] == "done"
    assert [submitted[name] for name in ("proposed", "evaluated", "next_step")] == [None] * 3
    assert served.call(TOKEN, "submit_work", job_id=job_id)["evaluated"]["candidate_id"] == candidate_id
    for id in (candidate_id, job_id, str(skill), f"{work_id} "):
        assert "token" in served.ask(WORKER, "tools/call", name="inspect", arguments={"id": id})["error"]["message"]
    for job in (candidate_id, f" {candidate_id}"):
        refused = served.ask(WORKER, "tools/call", name="submit_work", arguments={"job_id": job})
        assert "token" in refused["error"]["message"]


def test_a_worker_may_do_nothing_else(served: Served) -> None:
    tools = [tool["name"] for tool in served.ask(TOKEN, "tools/list")["result"]["tools"]]
    assert [tool["name"] for tool in served.ask(WORKER, "tools/list")["result"]["tools"]] == ["submit_work", "inspect"]
    for tool in {*tools, "unknown"} - {"submit_work", "inspect"}:
        assert "token" in served.ask(WORKER, "tools/call", name=tool, arguments={})["error"]["message"]
    for method in ("resources/list", "resources/read", "prompts/get", "completion/complete", "unknown"):
        assert "token" in served.ask(WORKER, method, uri="skillopt://skills", name="count")["error"]["message"]
    assert served.ask(WORKER, "ping")["result"] == {}


def test_a_worker_in_the_session_of_the_full_token_is_a_worker(served: Served) -> None:
    session = {"mcp-session-id": served.post(initialize(), TOKEN).headers["mcp-session-id"]}
    body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_skills", "arguments": {}}}
    assert "error" in served.post(body, WORKER, **session).text
    assert "error" not in served.post(body, TOKEN, **session).text


def test_the_tokens_have_to_differ() -> None:
    assert worker_token(TOKEN, {}) is None
    assert worker_token(TOKEN, {WORKER_VARIABLE: WORKER}) == WORKER
    with pytest.raises(Refused, match="is the full token"):
        worker_token(TOKEN, {WORKER_VARIABLE: TOKEN})
    with pytest.raises(Refused, match="too weak"):
        worker_token(TOKEN, {WORKER_VARIABLE: ""})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """Yield the address of a server that waits for requests for 0.3 s, and has 8 connections."""
    monkeypatch.setattr(http, "REQUEST_S", 0.3)
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 8)

    async def never(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("a request without a token arrived")

    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(Guarded(never, TOKEN), http=Timed, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield listening.getsockname()
    server.should_exit = True
    thread.join()


ENDLESS = [
    b"",
    b"POST /mcp HTTP/1.1\r\nhost: x\r\n",
    b"POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\nhost: x\r\n\r\nGET /mcp HTTP/1.1\r\n",
]


@pytest.mark.parametrize("start", ENDLESS)
def test_a_request_that_never_ends_is_cut_off(quick: tuple[str, int], start: bytes) -> None:
    with socket.create_connection(quick) as client:
        client.settimeout(0.02)
        client.sendall(start)
        begun, is_open = time.monotonic(), True
        while is_open and time.monotonic() < begun + 3:
            try:
                is_open = client.recv(1000) != b""
                client.sendall(b"x: y\r\n" if start else b"")
            except TimeoutError:
                client.sendall(b"x: y\r\n" if start else b"")
            except ConnectionError:
                is_open = False
        assert not is_open


def test_connections_without_a_request_make_room_for_others(
    quick: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "REQUEST_S", 60.0)
    held = [socket.create_connection(quick) for _ in range(50)]
    try:
        host, port = quick
        assert httpx2.get(f"http://{host}:{port}/mcp").status_code == 401
        n_open = 0
        for each in held:
            each.setblocking(False)
            with suppress(ConnectionError):
                try:
                    each.recv(1)
                except BlockingIOError:
                    n_open += 1
        assert n_open <= 8
    finally:
        for each in held:
            each.close()


def test_a_body_over_4_mib_is_refused(served: Served) -> None:
    assert served.post(b" " * (BODY_BYTES + 1)).status_code == 413
    assert served.post(json.dumps(initialize()).encode().ljust(BODY_BYTES)).status_code == 200


def test_the_token_is_made_once_and_kept_privately(tmp_path: Path) -> None:
    server = Served(tmp_path)
    path = tmp_path / "http-token"
    token = path.read_text().strip()
    assert f"the bearer token is in {path}" in server.said
    assert server.post(initialize(), token).status_code == 200
    assert token not in server.end()
    assert (len(token) >= 40, path.stat().st_mode & 0o777) == (True, 0o600)
    assert open_token(path, {}) == (token, str(path))


def test_a_token_that_others_can_read_or_guess_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o640)
    with pytest.raises(Refused, match="can be read by others than you"):
        open_token(path, {})
    path.chmod(0o600)
    assert open_token(path, {})[0] == TOKEN
    path.write_text("short")
    with pytest.raises(Refused, match="is too weak: 24 characters or more"):
        open_token(path, {})
    with pytest.raises(Refused, match=f"the token in {TOKEN_VARIABLE} is too weak"):
        open_token(path, {TOKEN_VARIABLE: ""})
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text(TOKEN)
    with pytest.raises(Refused, match="cannot be read"):
        open_token(path, {})


@pytest.mark.parametrize(
    ("text", "hosts", "expected"),
    [
        ("8765", (), Address("127.0.0.1", 8765, (), ())),
        ("127.0.0.2:1", (), Address("127.0.0.2", 1, (), ())),
        ("[::1]:80", (), Address("::1", 80, (), ())),
        ("0.0.0.0:80", ("box:80",), Address("0.0.0.0", 80, ("box:80",), ())),
    ],
)
def test_an_address_is_loopback_unless_it_says_otherwise(text: str, hosts: tuple[str, ...], expected: Address) -> None:
    assert parsed_address(text, hosts, ()) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a port"),
        ("http", "'http' is not a port"),
        ("70000", "'70000' is not a port"),
        ("٣", "is not a port"),
        ("localhost:80", "'localhost' is not an IP address"),
        ("0.0.0.0:80", "can be reached from other machines: name what they call it with --allow-host NAME:80"),
    ],
)
def test_a_bad_address_says_what_to_give(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message.replace("(", r"\(")):
        parsed_address(text, (), ())
