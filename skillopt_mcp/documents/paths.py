"""Paths: which files of a skill an edit may touch."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.limits import PATH_CHARACTERS
from skillopt_mcp.records.skills import MAIN_FILE

TEXT_SUFFIXES = (".md", ".markdown", ".txt", ".rst", ".csv", ".tsv", ".json", ".yaml", ".yml", ".toml", ".xml")
_ALLOWED = f'an edit may name "{MAIN_FILE}" or a text file under "references/"'


def path_refusal(path: str, main_path: str = MAIN_FILE) -> str:
    """Return why an edit may not touch `path`, or an empty string when it may. A memory file is one document alone."""
    if path == main_path:
        return ""
    if main_path != MAIN_FILE:
        return f"{quoted(path)} is out of reach; {quoted(main_path)} stands alone, so leave out the path"
    if path.startswith("scripts/"):
        return f"{quoted(path)} is a script; changing it needs a person"
    if not path.isprintable() or path != unicodedata.normalize("NFC", path) or len(path) > PATH_CHARACTERS:
        return f"{quoted(path)} is not a plain path; {_ALLOWED}"
    if "\\" in path or ":" in path or path != str(PurePosixPath(path)):
        return f"{quoted(path)} is not a normalised relative path with forward slashes; {_ALLOWED}"
    parts = path.split("/")
    if any(part.startswith(".") or part != part.strip() for part in parts):
        return f"{quoted(path)} has a hidden, dotted or padded part; {_ALLOWED}"
    if len(parts) < 2 or parts[0] != "references" or not path.lower().endswith(TEXT_SUFFIXES):
        return f"{quoted(path)} is out of reach; {_ALLOWED} ({', '.join(TEXT_SUFFIXES)})"
    return ""


def collision(path: str, others: Iterable[str]) -> str:
    """Return the one of `others` that a new file at `path` would collide with on some disk, or an empty string."""
    new = path.casefold()
    for other in others:
        old = other.casefold()
        if other != path and (old == new or old.startswith(new + "/") or new.startswith(old + "/")):
            return other
    return ""
