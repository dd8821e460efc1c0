"""TOML edits: the tables of one server put into a TOML text or taken out of it; every other byte stays."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import JsonValue

from skillopt_mcp.errors import BadInput

_HEADER = re.compile(r"[ \t]*\[")


def toml_value(text: str) -> dict[str, JsonValue]:
    """Return what a text says. Raises BadInput with line and column where it is no TOML."""
    try:
        return cast(dict[str, JsonValue], tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(str(error)) from None


def with_table(text: str, path: Sequence[str], table: Mapping[str, JsonValue]) -> str:
    """Return the text with this table at `path`, in the place of one that is there, else at the end."""
    if _at(toml_value(text), path) == table:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline.join(_lines(path, table)) + newline
    found = _block(text, path)
    if found:
        return text[: found[0]] + block + text[found[1] :]
    if not text.strip():
        return block
    return text + ("" if text.endswith("\n") else newline) + newline + block


def without_table(text: str, path: Sequence[str]) -> str:
    """Return the text without the table at `path`, the tables in it, and the blank line before it."""
    found = _block(text, path)
    if not found:
        return text
    head, tail = text[: found[0]], text[found[1] :]
    return (head.removesuffix("\r\n") if head.endswith("\n\r\n") else head.removesuffix("\n")) + tail


def _at(value: JsonValue, path: Sequence[str]) -> JsonValue:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _block(text: str, path: Sequence[str]) -> tuple[int, int] | None:
    """Return where the table's header begins, and where the last line ends that is its own or of a table in it."""
    dotted = r"\s*\.\s*".join(rf"[\"']?{re.escape(key)}[\"']?" for key in path)
    own = re.compile(rf"[ \t]*\[\s*{dotted}\s*[.\]]")
    start, end, at = None, 0, 0
    for line in text.splitlines(keepends=True):
        if own.match(line):
            start = at if start is None else start
        elif start is not None and _HEADER.match(line):
            break
        if start is not None and line.strip() and not line.lstrip().startswith("#"):
            end = at + len(line)
        at += len(line)
    return None if start is None else (start, end)


def _lines(path: Sequence[str], table: Mapping[str, JsonValue]) -> list[str]:
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    plain = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items() if key not in inner]
    lines = [f"[{'.'.join(path)}]", *plain] if plain or not inner else []
    for key, value in inner.items():
        lines += [*([""] if lines else []), *_lines([*path, key], value)]
    return lines
