"""HTTP hosts: a real host works over streamable HTTP with the token, and not without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_hosts import run_configured_codex
from scripted_model import Json, ToolCall, Turn

pytestmark = pytest.mark.hosts

PROGRAM = str(Path(sys.executable).with_name("skillopt-mcp"))
TOKEN = "a-token-of-more-than-24-characters"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Return the address of a server that runs."""
    command = [PROGRAM, "serve", "--store", str(tmp_path / "store.db"), "--http", "0"]
    environ = {**os.environ, "SKILLOPT_HTTP_TOKEN": TOKEN}
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        yield process.stderr.readline().split("MCP at ")[1].split(";")[0]
        process.kill()


@pytest.mark.parametrize("token", [TOKEN, "wrong"])
def test_codex_works_over_http_with_the_token_alone(url: str, tmp_path: Path, token: str) -> None:
    if not os.environ.get("CODEX"):
        pytest.skip("CODEX names no binary: see .ci/hosts")
    header = f'{{ Authorization = "Bearer {token}" }}'
    config = f"[mcp_servers.skillopt]\nurl = {json.dumps(url)}\nhttp_headers = {header}\n"

    def next_turn(results: list[Json]) -> Turn:
        return ["done"] if results else [ToolCall("list_skills", {})]

    session = run_configured_codex(os.environ["CODEX"], tmp_path / "codex", f"{config}required = true\n", next_turn)
    worked = bool(session.requests) and "next_step" in str(session.requests[-1])
    assert worked is (token == TOKEN), session.stderr
