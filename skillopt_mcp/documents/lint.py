"""Lint: where a skill departs from the Agent Skills specification, and marks of an unfinished merge."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import Literal

from skillopt_mcp.core.limits import DESCRIPTION_CHARACTERS
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.core.text import BOM, is_text, quoted, to_lf
from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.markdown import Fenced, Link, fenced_code, links

SETTLE = "settle the conflict, or fence or indent what is meant to be there"
"""What to do about a conflict: what only shows one stands in fenced code, or not at the beginning of its line."""
_MARK = re.compile(rb"^(?:<{7}|>{7})(?= |$)", re.MULTILINE)
_PART = re.compile(rb"^(?:(?:<{7}|>{7})(?= |$)|={7}$)", re.MULTILINE)
_PROSE = (".md", ".markdown", ".txt")
_LINES_SHOWN = 4


def conflicts(files: SkillFiles) -> Iterator[str]:
    """Yield of each text that git left a conflict in, where its marks are; fenced code may show some.

    A program cannot fence what it holds: there it takes all three marks, in their order.
    """
    for file in files.files:
        is_prose = file.path.lower().endswith(_PROSE)
        if (lines := _find_marks(file.content)) and is_text(file.content) and (is_prose or _is_whole(file.content)):
            shown = ", ".join(map(str, lines[:_LINES_SHOWN])) + (", ..." if len(lines) > _LINES_SHOWN else "")
            yield f"{quoted(file.path)} has the marks of an unfinished merge (line {shown})"


def _find_marks(content: bytes) -> list[int]:
    """Return the lines, from 1, that are marks outside of fenced code: as many as are shown, and one more."""
    text = to_lf(content)
    marks = [found.start() for found in _MARK.finditer(text)]
    code = fenced_code(text, frontmatter.block_end(text) or 0) if marks else ()
    outside = (at for at in marks if not _is_fenced(code, at))
    return [text.count(b"\n", 0, at) + 1 for at in islice(outside, _LINES_SHOWN + 1)]


def _is_whole(content: bytes) -> bool:
    """Return whether a conflict's beginning, middle and end follow each other somewhere."""
    parts = b"".join(found[0][:1] for found in _PART.finditer(to_lf(content)))
    middle = parts.find(b"=", parts.find(b"<") + 1)
    return b"<" in parts and middle >= 0 and b">" in parts[middle:]


def _is_fenced(code: Sequence[Fenced], at: int) -> bool:
    after = bisect_right(code, at, key=lambda each: each.end)
    return after < len(code) and code[after].start <= at


MAIN_LINES = 500
MAIN_CHARACTERS = 20_000
COMPATIBILITY_CHARACTERS = 500
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NAME_CHARACTERS = 64
Severity = Literal["error", "advice"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, as a sentence: an error departs from the specification, advice is what it recommends."""

    severity: Severity
    text: str


def lint(files: SkillFiles, folder: str) -> tuple[Problem, ...]:
    """Return the problems, given the name of the skill's folder; a sound skill has none.

    A memory file has no front matter to keep and no size to stay below; its links count, and so do git's marks.
    """
    of_a_skill = files.main_path == MAIN_FILE
    front = (Problem("error", text) for text in _front(files.main, folder)) if of_a_skill else ()
    sizes = (Problem("advice", text) for text in _sizes(files)) if of_a_skill else ()
    unmerged = (Problem("error", f"{found}: {SETTLE}") for found in conflicts(files))
    return (*front, *unmerged, *sizes, *_links(files))


def list_introduced(before: SkillFiles, after: SkillFiles, folder: str) -> tuple[str, ...]:
    """Return the problems that `after` has and `before` has not, one sentence each."""
    known = set(lint(before, folder))
    return tuple(problem.text for problem in lint(after, folder) if problem not in known)


def _front(main: bytes, folder: str) -> Iterator[str]:
    front = frontmatter.read(main)
    if front is None:
        yield _describe_unread(main)
        return
    yield from _name(front.name, folder)
    fields = dict(front.fields)
    if not (front.description or "").strip():
        yield "the description is missing: say what the skill does and when to use it"
    elif len(front.description or "") > DESCRIPTION_CHARACTERS:
        yield f"the description has {len(front.description or '')} characters, {DESCRIPTION_CHARACTERS} are allowed"
    compatibility = json.loads(fields.get("compatibility", '""'))
    if len(str(compatibility)) > COMPATIBILITY_CHARACTERS:
        yield f"compatibility has {len(str(compatibility))} characters, {COMPATIBILITY_CHARACTERS} are allowed"
    if "metadata" in fields and not isinstance(json.loads(fields["metadata"]), dict):
        yield "metadata is no mapping of names to values"


def _describe_unread(main: bytes) -> str:
    """Return why a document's front matter could not be read."""
    if fault := frontmatter.fault(main):
        problem = "the front matter cannot be read as plain YAML: hosts may not find the skill"
        return f"{problem}. Line {fault.line}: {fault.why}"
    opening = main.removeprefix(BOM).splitlines()[:1]
    if opening and opening[0].rstrip() == b"---":
        return "the front matter is never closed: put a line of --- below its last field"
    return "there is no front matter: hosts find a skill by its name and description"


def _name(name: str | None, folder: str) -> Iterator[str]:
    if not name:
        yield "the name is missing"
        return
    if len(name) > _NAME_CHARACTERS or not _NAME.fullmatch(name):
        yield f"the name {quoted(name)} is not 1 to 64 of a-z, 0-9 and single hyphens between them"
    if name != folder:
        yield f"the name {quoted(name)} is not that of the folder, {quoted(folder)}"


def _sizes(files: SkillFiles) -> Iterator[str]:
    text = files.main.decode("utf-8", "replace")
    n_lines = len(text.splitlines())
    if n_lines > MAIN_LINES:
        yield f"{MAIN_FILE} has {n_lines} lines; above {MAIN_LINES}, details belong into files under references/"
    if len(text) > MAIN_CHARACTERS:
        yield (
            f"{MAIN_FILE} has {len(text):,} characters (about {len(text) // 4:,} tokens); above {MAIN_CHARACTERS:,}, "
            "details belong into files under references/"
        )


def _links(files: SkillFiles) -> Iterator[Problem]:
    present = {file.path for file in files.files}
    folders = {str(parent) for path in present for parent in PurePosixPath(path).parents}
    for file in files.files:
        if not file.path.lower().endswith((".md", ".markdown")) or not is_text(file.content):
            continue
        for link in dict.fromkeys(links(file.content)):
            # A file is named from the skill's folder, a link starts from that of its own file.
            resolved = _resolve_path(link.path if link.is_mention else f"{PurePosixPath(file.path).parent}/{link.path}")
            if resolved not in present and resolved not in folders:
                yield _describe_unmet(file, link, resolved)


def _describe_unmet(file: SkillFile, link: Link, resolved: str) -> Problem:
    """Return what is wrong with a link to what the skill does not hold; a mention may be of another place."""
    if link.is_mention:
        return Problem("advice", f"{quoted(file.path)} names {quoted(link.written)}, which is not there")
    start = f"{quoted(file.path)} links to {quoted(link.written)}, which "
    if resolved.startswith("../") or resolved == "..":
        return Problem("error", f"{start}leads out of the skill: hosts get its folder alone")
    place = f" (no {quoted(resolved)})" if resolved != link.path else ""
    return Problem("error", f"{start}is not there{place}")


def _resolve_path(path: str) -> str:
    """Return a path without dots; one that leaves the skill keeps those at its beginning."""
    parts: list[str] = []
    for part in PurePosixPath(path).parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts) or "."
