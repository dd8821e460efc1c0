"""Starting: a server as a host starts it, asked for its tools, to see that what was configured works."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt_mcp import __version__
from skillopt_mcp.errors import Refused

SECONDS = 30.0
_ERROR_CHARACTERS = 400
_ASKED = 2


class _Tool(BaseModel):
    name: str


class _Tools(BaseModel):
    tools: list[_Tool] = []


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")
    id: int | str | None = None
    result: _Tools | None = None


def list_tools(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> list[str]:
    """Return the names of the tools that a server tells, started by this command in this environment and folder.

    Raises Refused, with what the server said, when it does not start or does not answer within SECONDS.
    """
    try:
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=folder, env=dict(environment), text=True, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except OSError as error:
        raise Refused(f"'{command[0]}' cannot be started: {error.strerror}") from error
    with server:
        watch = threading.Timer(SECONDS, server.kill)
        watch.start()
        try:
            tools = _asked(server)
            if tools is None:
                server.kill()
                said = server.stderr.read() if server.stderr else ""
                raise Refused(f"'{' '.join(command)}' did not answer: {_last(said) or 'it said nothing'}")
            server.terminate()
        finally:
            watch.cancel()
    return tools


def _asked(server: subprocess.Popen[str]) -> list[str] | None:
    """Return the names of the tools, None when the server ends before it tells them."""
    if server.stdin is None or server.stdout is None:
        return None
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "skillopt-mcp install", "version": __version__},
    }
    messages: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": _ASKED, "method": "tools/list", "params": {}},
    ]
    try:
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        server.stdin.flush()
    except BrokenPipeError:
        return None
    for line in server.stdout:
        answer = _parsed(line)
        if answer and answer.id == _ASKED and answer.result:
            return [tool.name for tool in answer.result.tools]
    return None


def _parsed(line: str) -> _Answer | None:
    try:
        return _Answer.model_validate_json(line)
    except ValidationError:
        return None


def _last(text: str) -> str:
    return " ".join(text.split())[-_ERROR_CHARACTERS:]
