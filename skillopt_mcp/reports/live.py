"""Live: the same pages on loopback, for the person who started it. It takes GET alone, and changes nothing.

A page that shows commands to copy needs no way to send any: what an agent's shell could ask for, it could also type.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import signal
import socket
import time
from collections.abc import Callable
from urllib.parse import quote, unquote

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from skillopt_mcp.core.errors import BadInput, SkillOptError
from skillopt_mcp.reports.facts import gather, gather_skills
from skillopt_mcp.reports.rendering import html_page, html_part
from skillopt_mcp.store.opening import Store
from skillopt_mcp.workspace.place import Place

EVERY_S = 1.0
MAX_CONNECTIONS = 64
HEAD_S = 5.0
_SHARE = 4  # the part of the time in which the store is not read is so many times the other
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Impatient(H11Protocol):
    """One of a limited number of connections, closed where no whole head of a request comes within HEAD_S seconds."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
            self.loop.call_later(HEAD_S, self._close_if_idle, self.cycle)

    def _close_if_idle(self, last: object) -> None:
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE and self.cycle is last:
            self.transport.abort()
        else:
            self.loop.call_later(HEAD_S, self._close_if_idle, self.cycle)


class Guarded:
    """An application that answers GET alone, to its own name, from its own pages, and to who has the token."""

    def __init__(self, app: ASGIApp, place: str, token: str) -> None:
        self._app, self._place, self._token = app, place, token.encode()
        self._cookie = f"skillopt-report-{place.partition(':')[2]}"  # cookies are those of all ports of a host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._refuse_or_welcome(Request(scope)) if scope["type"] == "http" else None
        await (answer or self._app)(scope, receive, send)

    def _refuse_or_welcome(self, request: Request) -> Response | None:
        """None for who has the cookie, a redirect that sets it for who has the token, else a refusal."""
        if request.headers.getlist("host") != [self._place]:
            return PlainTextResponse("Wrong Host header.", 421)
        if request.headers.get("origin", f"http://{self._place}") != f"http://{self._place}":
            return PlainTextResponse("Other pages may not look here.", 403)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("Read-only: use GET.", 405, {"Allow": "GET, HEAD"})
        if hmac.compare_digest(request.cookies.get(self._cookie, "").encode(), self._token):
            return None
        if not hmac.compare_digest(request.query_params.get("token", "").encode(), self._token):
            return PlainTextResponse("Open the address that skillopt-mcp printed, with its token.", 401)
        welcome = RedirectResponse(f"/{quote(request.scope['path'].lstrip('/'))}", 303, _HEADERS)
        welcome.set_cookie(self._cookie, self._token.decode(), httponly=True, samesite="strict")
        return welcome


def live_app(store: Store, place: Place, store_path: str | None) -> Starlette:
    """Return the application that shows the pages, and sends the parts of them that change."""

    def parts(path: str) -> dict[str, str]:
        if path.startswith("/report/"):
            facts = gather(store, place, unquote(path.removeprefix("/report/")))
            values = {"each": facts, "prefix": "", "level": 2, "store": store_path}
            return {f"{name}-part": html_part(name, **values) for name in facts.sections}
        return {"skills": html_part("skills", skills=gather_skills(store, place), store=store_path, is_live=True)}

    def skills(_: Request) -> Response:
        return HTMLResponse(html_page([], gather_skills(store, place), store_path, script="live"), headers=_HEADERS)

    def report(request: Request) -> Response:
        try:
            facts = gather(store, place, request.path_params["id"])
        except SkillOptError as error:
            return PlainTextResponse(str(error), 404, _HEADERS)
        return HTMLResponse(html_page([facts], (), store_path, script="live"), headers=_HEADERS)

    def events(request: Request) -> Response:
        """What changed since the last event that a page has seen. It asks again: a browser has few streams."""
        started, seen, lines, ids = time.monotonic(), request.headers.get("last-event-id", ""), list[str](), list[str]()
        try:
            found = parts(request.query_params.get("path", "/"))
        except SkillOptError:  # what was shown is gone, or the store: the page stays as it was
            found = {}
        for id, html in found.items():
            data = json.dumps({"id": id, "html": html})
            ids.append(hashlib.sha256(data.encode()).hexdigest()[:16])
            lines += [] if ids[-1] in seen else [f"data: {data}\n\n"]
        wait_s = max(EVERY_S, _SHARE * (time.monotonic() - started))
        text = "".join([*lines, f"id: {' '.join(ids)}\nretry: {1000 * wait_s:.0f}\n\n"])
        return Response(text, headers=_HEADERS, media_type="text/event-stream")

    return Starlette(routes=[Route("/", skills), Route("/report/{id:path}", report), Route("/events", events)])


def serve_live(
    store: Store, place: Place, path: str, store_path: str | None, port: int, announce: Callable[[str], None]
) -> None:
    """Show the pages until the process is stopped; `announce` is given the address of the one at `path`.

    Raises BadInput for a port in use.
    """
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        raise BadInput(f"cannot listen at port {port} ({error}): choose another with --port") from None
    address, token = f"127.0.0.1:{listening.getsockname()[1]}", secrets.token_urlsafe(32)
    announce(f"http://{address}{quote(path)}?token={token}")
    config = uvicorn.Config(
        Guarded(live_app(store, place, store_path), address, token), log_level="warning", access_log=False,
        server_header=False, lifespan="off", timeout_graceful_shutdown=1, http=Impatient,
    )  # fmt: skip
    # uvicorn ends in good order at these signals, and then raises them once more.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    uvicorn.Server(config).run(sockets=[listening])
