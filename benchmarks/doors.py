"""Doors: the console script, a server over stdio, the Python API and the store's file, as every benchmark uses them."""

from __future__ import annotations

import argparse
import json
import os
import pty
import select
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Self

from skillopt_mcp.actions import tasks
from skillopt_mcp.backends.resolved import resolve_spec
from skillopt_mcp.workspace.workspace import Workspace

SCRIPT = str(Path(sys.executable).with_name("skillopt-mcp"))
BARE = [sys.executable, str(Path(__file__).with_name("bare_server.py"))]
CONCURRENCY = "--concurrency"
INITIALIZE: dict[str, object] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


def parser(doc: str | None, short: str) -> argparse.ArgumentParser:
    """Return the parser of a benchmark, with --short and --json."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--short", action="store_true", help=short)
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


def show(figures: Mapping[str, object], as_json: bool, **targets: str) -> None:
    """Print figures as one JSON object, or a line for each with its target."""
    if as_json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        target = f"   (target: {targets[name]})" if name in targets else ""
        print(f"{name.replace('_', ' '):<32}{value!s:>12}{target}")


def command(store: Path | None, *arguments: str) -> list[str]:
    """Return a command of the console script, on a store."""
    return [SCRIPT, *(["--store", str(store)] if store else []), *arguments]


def ours(store: Path, *options: str) -> list[str]:
    """Return the command of our server."""
    # As `install` at a terminal remembers what it writes.
    specs = [spec for flag, spec in pairwise(options) if flag in ("--target", "--optimizer", "--judge")]
    if specs and store:
        with Workspace(store) as workspace:
            for spec in specs:
                workspace.store.permissions.remember_backend(resolve_spec(spec).parts, spec, "a benchmark")
    return command(store, "serve", *options)


_OF_A_PERSON = frozenset({"promote", "rollback", "permit", "list", "show", "install"})


def run_as_person(command: Sequence[str], *, adds: bool = False, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as `subprocess.run` does, at a terminal with nothing typed where a person has to look or agree.

    With `adds`, tasks are added there, too: they are a person's.
    """
    if not (_OF_A_PERSON & {*command} or (adds and "add" in command)):
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **options
        )  # fmt: skip
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"\x04")
        done = subprocess.run(
            command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True, check=False, **options
        )  # fmt: skip
        said = b""
        while select.select([ours], [], [], 0)[0]:
            said += os.read(ours, 1 << 16)
        done.stderr = said.decode().replace("\r\n", "\n")
        return done
    finally:
        os.close(ours)
        os.close(theirs)


def run(store: Path | None, *arguments: str, codes: Sequence[int] = (0,)) -> dict[str, Any]:
    """Return the JSON that a command prints. Raises SystemExit for an exit code that is not in `codes`."""
    folder = store.parent if store and store.parent.is_dir() else None
    done = run_as_person(command(store, *arguments, "--json"), cwd=folder)
    if done.returncode not in codes:
        raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout) if done.stdout.strip() else {}
    return found


def numbers_skill(folder: Path) -> Path:
    """Return a new skill for tasks such as "call 17"."""
    skill = folder / "skills" / "numbers"
    skill.mkdir(parents=True)
    text = "---\nname: numbers\ndescription: Numbers.\n---\n\nAnswer with the number of the call.\n"
    (skill / "SKILL.md").write_text(text)
    return skill


def add_tasks(store: Path, skill: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Add tasks to a skill, all of them; some may be alike, which ends with 1."""
    path = skill.parent.parent / f"tasks-{skill.name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    added = run(store, "tasks", "add", str(skill), str(path), codes=(0, 1))
    assert added["added"] == len(rows), added


def add_own_tasks(store: Path, skill: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Add tasks as a person at a terminal does: they count as looked at."""
    with Workspace(store, project=skill.parent) as workspace:
        workspace.place.caller = "person"
        added = tasks.add_tasks(workspace.store, workspace.place, str(skill), list(rows))
    assert added.added == len(rows), added


def rows(store: Path, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with closing(sqlite3.connect(store, timeout=60)) as connection:
        return connection.execute(sql, values).fetchall()


def written_bytes() -> float:
    """Return how many bytes the process has handed to the disk so far (Linux; NaN elsewhere)."""
    path = Path("/proc/self/io")
    if not path.exists():
        return float("nan")
    return float(dict(line.split(": ") for line in path.read_text().splitlines())["write_bytes"])


class StdioHost:
    """One server process, used over raw pipes; `start_ms` is the time from its start to its first answer."""

    def __init__(self, argv: list[str], cwd: Path, stderr: int | IO[bytes] = subprocess.DEVNULL) -> None:
        self._n_requests = 0
        started = time.perf_counter()
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=cwd,
            env={**os.environ, "HOME": str(cwd), "OPENAI_API_KEY": "none"},
        )
        answer = self.request("initialize", INITIALIZE)
        self.start_ms = (time.perf_counter() - started) * 1e3
        self.initialized: dict[str, Any] = json.loads(answer)["result"]
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        assert self.process.stdout
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    @property
    def pid(self) -> int:
        """Return the process id of the server."""
        return self.process.pid

    def answer(self, tool: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        """Return the whole result of a tool, an error too."""
        result: dict[str, Any] = json.loads(self.request("tools/call", {"name": tool, "arguments": arguments}))[
            "result"
        ]
        return result

    def call(self, tool: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        """Return the structured answer of a tool. Raises SystemExit with the text of an error."""
        result = self.answer(tool, arguments)
        if result.get("isError"):
            raise SystemExit(result["content"][0]["text"])
        structured: dict[str, Any] = result["structuredContent"]
        return structured

    def call_ms(self, tool: str, arguments: Mapping[str, object]) -> float:
        """Return how long one successful call of a tool takes, from the request written to the answer read."""
        started = time.perf_counter()
        answer = self.request("tools/call", {"name": tool, "arguments": arguments})
        took = (time.perf_counter() - started) * 1e3
        if b'"isError":true' in answer:
            raise SystemExit(answer.decode())
        return took

    def request(self, method: str, params: Mapping[str, object]) -> bytes:
        """Return the line that answers a request. Raises EOFError if the server has ended."""
        self._n_requests += 1
        try:
            self._write({"jsonrpc": "2.0", "id": self._n_requests, "method": method, "params": params})
        except BrokenPipeError as error:
            raise EOFError("the server has ended") from error
        assert self.process.stdout
        answer = self.process.stdout.readline()
        if not answer:
            raise EOFError("the server has ended")
        if b'"result"' not in answer:
            raise SystemExit(f"{method} failed: {answer.decode()}")
        return answer

    def _write(self, message: dict[str, object]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a chat completion with the server's function of the model and the messages."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = "\n".join(str(message["content"]) for message in asked["messages"])
        message = {"role": "assistant", "content": vars(self.server)["reply"](asked["model"], text)}
        body = json.dumps(
            {
                "id": "c", "object": "chat.completion", "created": 1, "model": asked["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
        ).encode()  # fmt: skip
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512


@contextmanager
def vendor(reply: Callable[[str, str], str]) -> Iterator[Callable[[str], str]]:
    """Serve a model on the loopback that answers by `reply(model, text)`; yield a function from model to spec."""
    server = _Server(("127.0.0.1", 0), _Handler)
    vars(server)["reply"] = reply
    thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
    thread.start()
    try:
        yield lambda model: f"openai:{model},api=chat,base_url=http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
