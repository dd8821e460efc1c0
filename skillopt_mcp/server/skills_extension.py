"""Skills extension: tracked skills as SEP-2640 serves them: skills/list, skills/get and resources/directory/read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, RequestParams

IDENTIFIER = "io.modelcontextprotocol/skills"
_Context = ServerRequestContext[Any, Any]
Answer = dict[str, Any]
Ask = Callable[..., Awaitable[Any]]
# The files may change at any moment: nothing here is worth keeping.
_FRESHNESS: Answer = {"ttlMs": 0, "cacheScope": "private"}


class _ByUri(RequestParams):
    uri: str


class _Directory(PaginatedRequestParams):
    uri: str


class SkillsExtension(Extension):
    """Serves the skills that `ask` (the library's method of that name, in a thread) knows of."""

    identifier = IDENTIFIER

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def settings(self) -> dict[str, Any]:
        """Return what is advertised."""
        return {"directoryRead": True}

    def methods(self) -> Sequence[MethodBinding]:
        """Return the three methods."""
        return [
            MethodBinding("skills/list", PaginatedRequestParams, self._list),
            MethodBinding("skills/get", _ByUri, self._get),
            MethodBinding("resources/directory/read", _Directory, self._children),
        ]

    async def _list(self, _: _Context, params: PaginatedRequestParams) -> Answer:
        skills, cursor = await self._ask("list_entries", params.cursor)
        return {"skills": skills, **_FRESHNESS, **_next(cursor)}

    async def _get(self, _: _Context, params: _ByUri) -> Answer:
        entry = await self._ask("get_entry", params.uri)
        if entry is None:
            raise _unknown(params.uri, "no skill is served at")
        return {"skill": entry, **_FRESHNESS}

    async def _children(self, _: _Context, params: _Directory) -> Answer:
        children = await self._ask("list_children", params.uri)
        if children is None:
            raise _unknown(params.uri, "no directory is served at")
        return {"resources": children}


def _next(cursor: str | None) -> Answer:
    return {"nextCursor": cursor} if cursor else {}


def _unknown(uri: str, what: str) -> MCPError:
    return MCPError(INVALID_PARAMS, f"{what} {uri[:300]}", {"uri": uri[:300]})
