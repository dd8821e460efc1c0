"""HTTP: the same server over streamable HTTP, for clients with a token and an allowed host name."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import os
import re
import secrets
import signal
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h11
import uvicorn
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from skillopt_mcp.errors import BadInput, Refused
from skillopt_mcp.server.app import SkillOptServer
from skillopt_mcp.server.lifecycle import Setup
from skillopt_mcp.server.start import open_server

PATH = "/mcp"
BODY_BYTES = 4 * 1024 * 1024
TOKEN_VARIABLE = "SKILLOPT_HTTP_TOKEN"
WORKER_VARIABLE = "SKILLOPT_WORKER_TOKEN"
REQUEST_S = 10.0
MAX_CONNECTIONS = 128
_IS_FULL = "skillopt.is_full"
_WORKER_METHODS = frozenset({"initialize", "server/discover", "ping", "tools/list", "tools/call"})
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
    """An application that answers only to requests with a bearer token; each is marked with its scope."""

    def __init__(self, app: ASGIApp, token: str, worker: str | None = None) -> None:
        self._app = app
        self._wanted = {f"Bearer {each}".encode(): each == token for each in (token, worker) if each}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = Headers(scope=scope).get("authorization", "").encode()
            scopes = [is_full for wanted, is_full in self._wanted.items() if hmac.compare_digest(given, wanted)]
            if not scopes:
                refusal = PlainTextResponse(
                    "The bearer token is missing or wrong.", 401, {"WWW-Authenticate": "Bearer"}
                )
                await refusal(scope, receive, send)
                return
            scope = {**scope, _IS_FULL: scopes[0]}
        await self._app(scope, receive, send)


async def within_scope(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Return the answer to a request with the full token, and of the others the part that a worker may know.

    Raises MCPError where it may not ask: it takes, reads and submits work, and the outcome is not for it.
    """
    if ctx.request is not None and ctx.request.scope.get(_IS_FULL):
        return await call_next(ctx)
    params = ctx.params or {}
    given = params.get("arguments")
    given = given if isinstance(given, dict) else {}
    # A candidate's id would begin its test.
    may_call = {
        "submit_work": re.fullmatch(r"([rt]-[0-9a-f]{12})?", str(given.get("job_id") or "")),
        "inspect": re.fullmatch(r"w-[0-9a-f]{32}", str(given.get("id"))),
    }
    is_call, is_notice = ctx.method == "tools/call", ctx.method.startswith("notifications/")
    if not (is_notice or ctx.method in _WORKER_METHODS) or (is_call and not may_call.get(str(params.get("name")))):
        raise MCPError(INVALID_REQUEST, "this token takes and submits work, and nothing else: use the full token")
    result = await call_next(ctx)
    if not isinstance(result, dict):
        return result
    if "tools" in result:
        return {**result, "tools": [tool for tool in result["tools"] if tool["name"] in may_call]}
    found = result.get("structuredContent") or {}
    if "receipts" in found:
        step = found.get("next_step") or {}
        own = step if step.get("action") == "submit_work" else None
        found = {**found, "proposed": None, "evaluated": None, "next_step": own}
        text = {"type": "text", "text": json.dumps(found, ensure_ascii=False)}
        return {**result, "content": [text], "structuredContent": found}
    return result


class Timed(H11Protocol):
    """A connection whose requests have to arrive within REQUEST_S; of too many, who keeps us waiting longest goes."""

    _cut_off: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        alive = [each for each in self.connections if isinstance(each, Timed) and not each.transport.is_closing()]
        if len(alive) > MAX_CONNECTIONS:
            since = {each._cut_off.when(): each for each in alive if each._cut_off}
            since[min(since)].transport.abort()

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def _watch(self) -> None:
        is_arriving = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if is_arriving and self._cut_off is None:
            self._cut_off = self.loop.call_later(REQUEST_S, self.transport.abort)
        elif not is_arriving and self._cut_off is not None:
            self._cut_off.cancel()
            self._cut_off = None


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


def worker_token(token: str, environ: Mapping[str, str]) -> str | None:
    """Return the token of workers, None where the environment has none. Raises Refused for a weak or the full one."""
    worker = environ.get(WORKER_VARIABLE)
    if worker is not None and _checked(worker, WORKER_VARIABLE) == token:
        raise Refused(f"the token in {WORKER_VARIABLE} is the full token: set another one")
    return worker


def serve_http(setup: Setup, address: Address) -> int:
    """Return 0 once the server was stopped; until then, serve MCP over HTTP. Raises BadInput for a port in use."""
    path = setup.store_path.with_name("http-token")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    token, origin = open_token(path, os.environ)
    worker = worker_token(token, os.environ)
    bound = _bound(address)
    address = Address(address.host, bound.getsockname()[1], address.hosts, address.origins)
    shown = f"[{address.host}]" if ":" in address.host else address.host
    os.write(2, f"skillopt: MCP at http://{shown}:{address.port}{PATH}; the bearer token is in {origin}\n".encode())
    server = open_server(setup)
    server.middleware.append(within_scope)
    config = uvicorn.Config(
        Guarded(http_app(server, address), token, worker),
        http=Timed,
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
