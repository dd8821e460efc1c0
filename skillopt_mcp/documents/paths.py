"""Paths: which files of a skill an edit may touch."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath

from skillopt_mcp.documents.text import path_fault, quoted
from skillopt_mcp.limits import PATH_CHARACTERS
from skillopt_mcp.records.skills import MAIN_FILE

TEXT_SUFFIXES = (".md", ".markdown", ".txt", ".rst", ".csv", ".tsv", ".json", ".yaml", ".yml", ".toml", ".xml")
_UNPORTABLE = re.compile(r'[<>:"|?*]|[. ](?:/|\Z)|(?i:(?:\A|/)(?:con|prn|aux|nul|com\d|lpt\d)(?:[./]|\Z))')
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
    if fault := path_fault(path):
        return f"{quoted(path)} {fault}"
    return ""


def unportable(path: str) -> bool:
    """Return whether some system takes a part of the path for a device, or another name than it is."""
    return _UNPORTABLE.search(path) is not None


def collision(path: str, others: Iterable[str]) -> str:
    """Return the one of `others` that a new file at `path` would collide with on some disk, or an empty string.

    It does where one is a folder of the other, or parts that some disk takes for the same are written differently.
    """
    new = [(part, _folded(part)) for part in path.split("/")]
    return next((other for other in others if other != path and _collides(new, other)), "")


def _collides(new: list[tuple[str, str]], other: str) -> bool:
    for (part, folded), old in zip(new, other.split("/"), strict=False):
        if part != old:
            return folded == _folded(old)
    return True


def _folded(part: str) -> str:
    """Return a name as a disk sees it that ignores case and how an accent is written."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", part).casefold())
