"""Faults: what is wrong with the arguments of a tool, in one line that a model can act on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from pydantic import ValidationError

_SHOWN_INPUT = 60
_SHOWN_FAULTS = 3


def known_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without nulls. Raises ToolError when the tool does not take one of them."""
    taken = tool.parameters["properties"]
    for name in arguments:
        if name not in taken:
            raise ToolError(f'{tool.name} takes no argument "{name}": it takes {", ".join(taken)}')
    return {name: value for name, value in arguments.items() if value is not None}


def faults(name: str, error: ValidationError) -> str:
    """Return what is wrong with the arguments, in one line."""
    faults = "; ".join(_fault(dict(each)) for each in error.errors()[:_SHOWN_FAULTS])
    return f"{name}: {faults}: correct it and call again"


def _fault(error: Mapping[str, Any]) -> str:
    """Return one fault of the arguments in a few words."""
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "missing":
        return f'"{where}" is missing'
    shown = json.dumps(error["input"], ensure_ascii=False)
    if len(shown) > _SHOWN_INPUT:
        shown = f"{shown[:_SHOWN_INPUT]}..."
    return f'"{where}" is {shown}, but {error["msg"][:1].lower()}{error["msg"][1:]}'
