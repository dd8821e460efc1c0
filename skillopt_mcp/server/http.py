"""HTTP: the same server over streamable HTTP, for clients with the token and an allowed host name."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import signal
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from skillopt_mcp.errors import BadInput, Refused
from skillopt_mcp.server.app import SkillOptServer
from skillopt_mcp.server.lifecycle import Setup
from skillopt_mcp.server.start import open_server

PATH = "/mcp"
BODY_BYTES = 4 * 1024 * 1024
TOKEN_VARIABLE = "SKILLOPT_HTTP_TOKEN"
_LEAST_TOKEN = 24
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")
_GRACE_S = 2


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and by which names: the exact Host and Origin headers that are let in."""

    host: str
    port: int
    hosts: tuple[str, ...]
    origins: tuple[str, ...]


def parsed_address(text: str, hosts: tuple[str, ...], origins: tuple[str, ...]) -> Address:
    """Return the address of PORT or ADDRESS:PORT; loopback unless it says otherwise, by loopback's own names.

    Raises BadInput, also for another address without a name that clients know it by.
    """
    host, _, number = text.rpartition(":")
    if not number.isascii() or not number.isdecimal() or int(number) > 65535:
        raise BadInput(f"'{text}' is not a port: give a number from 0 to 65535, or ADDRESS:PORT")
    bound = host.strip("[]") or "127.0.0.1"
    try:
        is_loopback = ipaddress.ip_address(bound).is_loopback
    except ValueError:
        raise BadInput(f"'{bound}' is not an IP address: give one of this machine's, or the port alone") from None
    if not is_loopback and not hosts:
        raise BadInput(
            f"'{bound}' can be reached from other machines: name what they call it with --allow-host NAME:{number}"
        )
    return Address(bound, int(number), hosts, origins)


def http_app(server: SkillOptServer, address: Address) -> ASGIApp:
    """Return the server as an application that lets in allowed Host and Origin headers and bodies up to 4 MiB."""
    own = [f"{name}:{address.port}" for name in ("127.0.0.1", "localhost", "[::1]")] if _is_loopback(address) else []
    security = TransportSecuritySettings(
        allowed_hosts=[*own, *address.hosts], allowed_origins=[*(f"http://{name}" for name in own), *address.origins]
    )
    return server.streamable_http_app(
        streamable_http_path=PATH, transport_security=security, max_request_body_size=BODY_BYTES
    )


class Guarded:
    """An application that answers only to requests with the bearer token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._wanted = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = Headers(scope=scope).get("authorization", "").encode()
            if not hmac.compare_digest(given, self._wanted):
                refusal = PlainTextResponse(
                    "The bearer token is missing or wrong.", 401, {"WWW-Authenticate": "Bearer"}
                )
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def open_token(path: Path, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the token and where it comes from: the environment, or else a private file, made when it is not there.

    Raises Refused for a token that is too short, and for a file that others could read.
    """
    given = environ.get(TOKEN_VARIABLE)
    if given is not None:
        return _checked(given, TOKEN_VARIABLE), f"the variable {TOKEN_VARIABLE}"
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _checked(_read_private(path), str(path)), str(path)
    except OSError as error:
        raise Refused(f"'{path}' cannot be written ({error.strerror}): set {TOKEN_VARIABLE} instead") from None
    with open(made, "w", encoding="ascii") as file:
        token = secrets.token_urlsafe(32)
        file.write(f"{token}\n")
    return token, str(path)


def serve_http(setup: Setup, address: Address) -> int:
    """Return 0 once the server was stopped; until then, serve MCP over HTTP. Raises BadInput for a port in use."""
    path = setup.store_path.with_name("http-token")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    token, origin = open_token(path, os.environ)
    bound = _bound(address)
    address = Address(address.host, bound.getsockname()[1], address.hosts, address.origins)
    shown = f"[{address.host}]" if ":" in address.host else address.host
    os.write(2, f"skillopt: MCP at http://{shown}:{address.port}{PATH}; the bearer token is in {origin}\n".encode())
    config = uvicorn.Config(
        Guarded(http_app(open_server(setup), address), token),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    # uvicorn ends in good order at these signals, and then raises them once more.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    uvicorn.Server(config).run(sockets=[bound])
    return 0


def _is_loopback(address: Address) -> bool:
    return ipaddress.ip_address(address.host).is_loopback


def _bound(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    opened = socket.socket(family)
    try:
        if os.name == "posix":
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((address.host, address.port))
        opened.listen()
    except OSError as error:
        opened.close()
        raise BadInput(
            f"cannot listen at '{address.host}:{address.port}' ({error.strerror}): choose another port"
        ) from None
    return opened


def _read_private(path: Path) -> str:
    try:
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise Refused(f"'{path}' cannot be read ({error.strerror}): remove it, and a new one is made") from None
    with open(opened, encoding="ascii", errors="replace") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or (
            os.name == "posix" and (found.st_mode & 0o077 or found.st_uid != os.geteuid())
        ):
            raise Refused(f"'{path}' can be read by others than you: remove it, and a new one is made")
        return file.read(1_000).strip()


def _checked(token: str, origin: str) -> str:
    if len(token) < _LEAST_TOKEN or not _TOKEN.fullmatch(token):
        raise Refused(
            f"the token in {origin} is too weak: {_LEAST_TOKEN} characters or more of A-Z a-z 0-9 . _ ~ + / = -"
        )
    return token
