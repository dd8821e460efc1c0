"""Lint: where a skill departs from the Agent Skills specification, and marks of an unfinished merge."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Literal

from skillopt_mcp.core.limits import DESCRIPTION_CHARACTERS
from skillopt_mcp.core.skills import MAIN_FILE, SkillFiles
from skillopt_mcp.core.text import BOM, is_text, quoted, to_lf
from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.markdown import fenced_code, find_links

SETTLE = "settle the conflict, or fence or indent what is meant to be there"
"""What to do about a conflict: what only shows one stands in fenced code, or not at the beginning of its line."""
_MARK = re.compile(rb"^(?:<{7}|>{7})(?= |$)", re.MULTILINE)
_PART = re.compile(rb"^(?:(?:<{7}|>{7})(?= |$)|={7}$)", re.MULTILINE)
_PROSE = (".md", ".markdown", ".txt")
_LINES_SHOWN = 4


def find_conflicts(files: SkillFiles) -> Iterator[str]:
    """Yield of each text that git left a conflict in, where its marks are; fenced code may show some.

    A program cannot fence what it holds: there it takes all three marks, in their order.
    """
    for file in files.files:
        text = to_lf(file.content)
        if not (marks := [found.start() for found in _MARK.finditer(text)]) or not is_text(file.content):
            continue
        parts = b"".join(found[0][:1] for found in _PART.finditer(text))
        if not file.path.lower().endswith(_PROSE) and b">" not in parts.partition(b"<")[2].partition(b"=")[2]:
            continue
        code = fenced_code(text, frontmatter.block_end(text) or 0)
        lines: list[int] = []
        for at in marks:
            after = bisect_right(code, at, key=lambda each: each.end)
            if len(lines) <= _LINES_SHOWN and (after == len(code) or at < code[after].start):
                lines.append(text.count(b"\n", 0, at) + 1)
        if lines:
            shown = ", ".join(map(str, lines[:_LINES_SHOWN])) + (", ..." if len(lines) > _LINES_SHOWN else "")
            yield f"{quoted(file.path)} has the marks of an unfinished merge (line {shown})"


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
    problems = [Problem("error", text) for text in _check_front_matter(files.main, folder)] if of_a_skill else []
    problems += (Problem("error", f"{found}: {SETTLE}") for found in find_conflicts(files))
    if of_a_skill:
        text = files.main.decode("utf-8", "replace")
        n_lines, advice = len(text.splitlines()), "details belong into files under references/"
        if n_lines > MAIN_LINES:
            problems.append(Problem("advice", f"{MAIN_FILE} has {n_lines} lines; above {MAIN_LINES}, {advice}"))
        if len(text) > MAIN_CHARACTERS:
            size = f"{len(text):,} characters (about {len(text) // 4:,} tokens)"
            problems.append(Problem("advice", f"{MAIN_FILE} has {size}; above {MAIN_CHARACTERS:,}, {advice}"))
    return (*problems, *_check_links(files))


def list_introduced(before: SkillFiles, after: SkillFiles, folder: str) -> tuple[str, ...]:
    """Return the problems that `after` has and `before` has not, one sentence each."""
    known = set(lint(before, folder))
    return tuple(problem.text for problem in lint(after, folder) if problem not in known)


def _check_front_matter(main: bytes, folder: str) -> Iterator[str]:
    front = frontmatter.read(main)
    if front is None:
        opening = main.removeprefix(BOM).splitlines()[:1]
        if fault := frontmatter.find_fault(main):
            problem = "the front matter cannot be read as plain YAML: hosts may not find the skill"
            yield f"{problem}. Line {fault[0]}: {fault[1]}"
        elif opening and opening[0].rstrip() == b"---":
            yield "the front matter is never closed: put a line of --- below its last field"
        else:
            yield "there is no front matter: hosts find a skill by its name and description"
        return
    name, fields, description = front.name, dict(front.fields), front.description or ""
    if not name:
        yield "the name is missing"
    else:
        if len(name) > _NAME_CHARACTERS or not _NAME.fullmatch(name):
            yield f"the name {quoted(name)} is not 1 to 64 of a-z, 0-9 and single hyphens between them"
        if name != folder:
            yield f"the name {quoted(name)} is not that of the folder, {quoted(folder)}"
    if not description.strip():
        yield "the description is missing: say what the skill does and when to use it"
    elif len(description) > DESCRIPTION_CHARACTERS:
        text = "Copilot does not load the skill, Codex cuts there, and Claude Code at 1,536"
        yield f"the description has {len(description)} characters, {DESCRIPTION_CHARACTERS} are allowed: {text}"
    compatibility = str(json.loads(fields.get("compatibility", '""')))
    if len(compatibility) > COMPATIBILITY_CHARACTERS:
        yield f"compatibility has {len(compatibility)} characters, {COMPATIBILITY_CHARACTERS} are allowed"
    if "metadata" in fields and not isinstance(json.loads(fields["metadata"]), dict):
        yield "metadata is no mapping of names to values"


def _check_links(files: SkillFiles) -> Iterator[Problem]:
    present = {file.path for file in files.files}
    folders = {str(parent) for path in present for parent in PurePosixPath(path).parents}
    for file in files.files:
        if not file.path.lower().endswith((".md", ".markdown")) or not is_text(file.content):
            continue
        for written, path, is_mention in dict.fromkeys(find_links(file.content)):
            # A file is named from the skill's folder, a link starts from that of its own file.
            resolved = normpath(path if is_mention else f"{PurePosixPath(file.path).parent}/{path}")
            if resolved in present or resolved in folders:
                continue
            start = f"{quoted(file.path)} links to {quoted(written)}, which"
            if is_mention:  # it may be of another place
                yield Problem("advice", f"{quoted(file.path)} names {quoted(written)}, which is not there")
            elif resolved.startswith("../") or resolved == "..":
                yield Problem("error", f"{start} leads out of the skill: hosts get its folder alone")
            else:
                place = f" (no {quoted(resolved)})" if resolved != path else ""
                yield Problem("error", f"{start} is not there{place}")
