"""Sentences: advice that other rooms still write in words, put into commands; goes when every result has a NextStep."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from skillopt_mcp.next_step import as_commands
from skillopt_mcp.records.next_step import NextStep

_COMMANDS = Path(__file__).parent / "commands"


def on_store(text: str, store: str | None) -> str:
    """Return a text whose commands name the store, where it was named: they are copied."""
    if not store:
        return text
    # The demo has a store of its own.
    verbs = "|".join({path.stem.partition("_")[0] for path in _COMMANDS.glob("*.py")} - {"demo", ""})
    named = f"skillopt-mcp --store {shlex.quote(store)} "
    return re.sub(rf"\bskillopt-mcp (?=(?:{verbs})\b)", lambda _: named, text)


def advice(step: NextStep | str, store: str | None) -> str:
    """Return what to do next, as a command where it is one."""
    if isinstance(step, NextStep):
        return step.as_line(store)
    return f"Next: {on_store(as_commands(step), store)}"


def advised(value: Any, store: str | None) -> Any:
    """Return a JSON value in which each next step that is a sentence speaks of commands."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, list):
        return [advised(each, store) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: on_store(as_commands(each), store)
        if name == "next_step" and isinstance(each, str)
        else advised(each, store)
        for name, each in value.items()
    }
