"""Regions: the protected parts of a main document, which the engine writes and no edit reaches."""

from __future__ import annotations

from typing import Literal

from skillopt_mcp.documents.edits import text_fault
from skillopt_mcp.documents.lines import to_lf
from skillopt_mcp.documents.readable import unreadable
from skillopt_mcp.documents.spans import Document, has_marker, parse
from skillopt_mcp.errors import BadInput
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles

Region = Literal["SLOW_UPDATE", "APPENDIX"]


def region_text(files: SkillFiles, name: Region) -> str:
    """Return the text of a region, with line feeds and without blank ends; empty when there is no such region."""
    document = parse(files.main)
    found = document.region(name)
    return to_lf(document.content[slice(*found)]).decode("utf-8", "replace").strip() if found else ""


def with_region(files: SkillFiles, name: Region, text: str) -> SkillFiles:
    """Return the files with `text` as the region of their main document; where there is none, it is put at the end.

    All other bytes stay. Raises BadInput when the text has a marker, or would change where a protected part ends.
    """
    main = files.get(files.main_path)
    fault = text_fault(text)
    if main is None:
        raise BadInput(f"the skill has no {MAIN_FILE}: a region has no place")
    if fault or has_marker(text):
        raise BadInput(f"the text of the region {fault or 'has a marker of a protected region'}")
    document = parse(main.content)
    lines = to_lf(text.strip().encode())
    inner = b"\n" + lines + b"\n" if lines else b"\n"
    new = _written(document, name, inner.replace(b"\n", document.ending))
    after = files.replaced(SkillFile(main.path, new, main.executable))
    if fault := unreadable(after):
        raise BadInput(f"the text of the region cannot be added: {fault}")
    if region_text(after, name) != lines.decode() or _sealed(parse(new), name) != _sealed(document, name):
        raise BadInput("the text of the region would change where a protected part of the skill begins or ends")
    return after


def _written(document: Document, name: Region, inner: bytes) -> bytes:
    content, ending = document.content, document.ending
    found = document.region(name)
    if found:
        return content[: found[0]] + inner + content[found[1] :]
    gap = b"" if not content.strip() else ending * (1 if content.endswith((b"\n", b"\r")) else 2)
    start, end = (f"<!-- {name}_{edge} -->".encode() for edge in ("START", "END"))
    return content + gap + start + inner + end + ending


def _sealed(document: Document, name: Region) -> tuple[bytes, ...]:
    """Return what writing one region must leave alone: the front matter, and every other protected region."""
    own = document.region(name)
    others = [span for span in document.protected if own is None or not span[0] <= own[0] <= span[1]]
    return (document.content[: document.body_start], *(document.content[start:end] for start, end in others))
