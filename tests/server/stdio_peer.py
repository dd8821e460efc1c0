"""Stdio peer: the server as a process of its own, spoken to in raw frames."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

from tests.processes import PipedScript

ANSWER_S = 20.0


def serve_command(place: Path, *options: str) -> list[str]:
    """Return the command that serves a store in `place`."""
    return [sys.executable, "-m", "skillopt_mcp.server", "--store", str(place / "store.db"), *options]


class StdioPeer:
    """One running server, forked unless its imports are looked at; its lines are kept until they are taken."""

    def __init__(self, command: list[str], place: Path, *, stderr: int | None = None) -> None:
        project = place / "project"
        project.mkdir(exist_ok=True)
        self.process: PipedScript | subprocess.Popen[bytes]
        if stderr is None:
            options = command[command.index("--store") :]
            self.process = PipedScript(["skillopt-mcp", "serve", *options], project, os.environ)
        else:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=project, env=dict(os.environ)
            )
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()

    def write(self, frame: bytes) -> None:
        """Write a line as it is."""
        assert self.process.stdin
        self.process.stdin.write(frame + b"\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return the next line from the server, which must be JSON-RPC."""
        value = json.loads(self._lines.get(timeout=ANSWER_S))
        assert isinstance(value, dict)
        assert value["jsonrpc"] == "2.0"
        return value

    def request(self, number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request."""
        self.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())
        answer = self.answer()
        assert answer["id"] == number
        return answer

    def initialize(self) -> None:
        """Open a session."""
        client = {"name": "test", "version": "1"}
        self.request(0, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def rest(self) -> list[bytes]:
        """Return the lines left, once the process has ended."""
        self._reader.join(ANSWER_S)
        return [self._lines.get() for _ in range(self._lines.qsize())]

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)


def call_frame(number: int, tool: str, arguments: dict[str, Any]) -> bytes:
    """Return the frame that calls a tool."""
    params = {"name": tool, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
