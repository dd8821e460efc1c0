"""Names: what callers may call a skill or any other thing by, before it is looked for."""

from __future__ import annotations

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import NotFound
from skillopt_mcp.records.calls import storable

_LONGEST = 4096


def known(name: str) -> str:
    """Return an id, a name or a path as it was given. Raises NotFound for a text that nothing can be called by."""
    if not name or "\0" in name or len(name) > _LONGEST or storable(name) != name:
        raise NotFound(f"nothing is called {quoted(name)}: use an id, a name or a path as a result gave it")
    return name
