"""Stdio host: starts a server and speaks MCP with it over raw pipes, so that nothing but the server is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

BARE = [sys.executable, str(Path(__file__).with_name("bare_server.py"))]
INITIALIZE: dict[str, object] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


def ours(store: Path) -> list[str]:
    """Return the command of our server on a store of its own, through the installed console script."""
    return [str(Path(sys.executable).with_name("skillopt-mcp")), "serve", "--store", str(store)]


class StdioHost:
    """One server process; `start_ms` is the time from its start to the answer to `initialize`."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        self._n_requests = 0
        started = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            env={**os.environ, "HOME": str(cwd)},
        )
        self.request("initialize", INITIALIZE)
        self.start_ms = (time.perf_counter() - started) * 1e3
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        """Return the process id of the server."""
        return self._process.pid

    def call(self, tool: str, arguments: dict[str, object]) -> dict[str, object]:
        """Return what a tool answers. Raises SystemExit with its text when it is an error."""
        answer = json.loads(self.request("tools/call", {"name": tool, "arguments": arguments}))["result"]
        if answer.get("isError"):
            raise SystemExit(answer["content"][0]["text"])
        structured: dict[str, object] = answer["structuredContent"]
        return structured

    def call_ms(self, tool: str, arguments: dict[str, object]) -> float:
        """Return how long one successful call of a tool takes, from the request written to the answer read."""
        started = time.perf_counter()
        answer = self.request("tools/call", {"name": tool, "arguments": arguments})
        took = (time.perf_counter() - started) * 1e3
        if b'"isError":true' in answer:
            raise SystemExit(answer.decode())
        return took

    def request(self, method: str, params: dict[str, object]) -> bytes:
        """Return the line that answers a request."""
        self._n_requests += 1
        self._write({"jsonrpc": "2.0", "id": self._n_requests, "method": method, "params": params})
        assert self._process.stdout
        answer = self._process.stdout.readline()
        if not answer:
            raise EOFError("the server has gone")
        if b'"result"' not in answer:
            raise SystemExit(f"{method} failed: {answer.decode()}")
        return answer

    def _write(self, message: dict[str, object]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
