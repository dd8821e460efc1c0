"""HTTP: who is let in, with what, and where the token is kept."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from skillopt_mcp.errors import BadInput, Refused
from skillopt_mcp.server.http import BODY_BYTES, TOKEN_VARIABLE, Address, open_token, parsed_address

PROGRAM = str(Path(sys.executable).with_name("skillopt-mcp"))
TOKEN = "a-token-of-more-than-24-characters"


class Served:
    """A server that runs in `place`, and a client that knows the token."""

    def __init__(self, place: Path, *options: str, **environ: str) -> None:
        command = [PROGRAM, "serve", "--store", str(place / "store.db"), "--http", "0", *options]
        self.process = subprocess.Popen(
            command, cwd=place, env={**os.environ, **environ}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stderr
        self.said = self.process.stderr.readline()
        self.url = self.said.split("MCP at ")[1].split(";")[0]

    def post(self, body: object, token: str | None = TOKEN, **headers: str) -> httpx2.Response:
        sent = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx2.post(self.url, content=content, headers=sent, timeout=30)

    def end(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=10)
        assert self.process.returncode == 0
        return f"{self.said}{out}{err}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(tmp_path_factory.mktemp("http"), "--allow-origin", "https://app.example", **{TOKEN_VARIABLE: TOKEN})
    yield server
    said = server.end()
    assert TOKEN not in said


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
