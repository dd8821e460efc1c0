"""Hunks: what differs between two versions of a skill, as edits that a third version may take."""

from __future__ import annotations

from collections.abc import Iterator

from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.alignment import changes
from skillopt_mcp.documents.lines import BOM, is_text, to_lf
from skillopt_mcp.records.edits import Edit
from skillopt_mcp.records.skills import SkillFiles

_Change = tuple[int, int, int, int]


def edits_between(before: SkillFiles, after: SkillFiles) -> tuple[Edit, ...]:
    """Return the edits of text files that lead from `before` to `after`, one for each place that differs.

    Each anchor is as many whole lines around its place as occur there alone. A file that went away gives none.
    """
    edits: list[Edit] = []
    for file in after.files:
        old = before.get(file.path)
        if old == file or not is_text(file.content):
            continue
        if old is None:
            edits.append(Edit("append", content=_text(file.content), path=file.path))
        elif is_text(old.content):
            edits += _of_file(file.path, old.content, file.content)
    return tuple(edits)


def _of_file(path: str, old: bytes, new: bytes) -> Iterator[Edit]:
    fronts = frontmatter.read(old), frontmatter.read(new)
    if fronts[0] and fronts[1]:
        description = fronts[1].description
        if description is not None and description != fronts[0].description:
            yield Edit("set_description", content=description, path=path)
        old, new = old[fronts[0].end :], new[fronts[1].end :]
    lines, after = to_lf(old).splitlines(keepends=True), to_lf(new).splitlines(keepends=True)
    for start, end, inside in _apart(lines, changes(lines, after)):
        written, at = list[bytes](), start
        for old_start, old_end, new_start, new_end in inside:
            written += [*lines[at:old_start], *after[new_start:new_end]]
            at = old_end
        target, content = b"".join(lines[start:end]), b"".join([*written, *lines[at:end]])
        yield (
            Edit("replace", _text(target), _text(content), path)
            if target
            else Edit("append", None, _text(content), path)
        )


def _apart(lines: list[bytes], found: list[_Change]) -> list[tuple[int, int, list[_Change]]]:
    """Return ranges of lines that no other place of the text is like, in order, each with the changes inside it."""
    apart: list[tuple[int, int, list[_Change]]] = []
    text = b"".join(lines)
    for change in found:
        start, end = change[0], change[1]
        while (start > 0 or end < len(lines)) and not _is_alone(b"".join(lines[start:end]), text):
            start, end = max(start - 1, 0), min(end + 1, len(lines))
        inside = [change]
        while apart and start < apart[-1][1]:
            earlier = apart.pop()
            start, end, inside = min(start, earlier[0]), max(end, earlier[1]), [*earlier[2], *inside]
        apart.append((start, end, inside))
    return apart


def _is_alone(part: bytes, text: bytes) -> bool:
    return bool(part) and text.find(part, text.find(part) + 1) < 0


def _text(content: bytes) -> str:
    return content.removeprefix(BOM).decode("utf-8", "replace")
