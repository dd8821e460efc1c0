"""Lint: what the Agent Skills specification or a host forbids of a skill, and what is advised."""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from posixpath import normpath
from typing import Literal

from skillopt_mcp.core.limits import DESCRIPTION_CHARACTERS
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.core.text import BOM, is_text, quoted, to_lf
from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.markdown import fenced_code, find_links, guess_links

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
        if b"<<<<<<<" not in file.content and b">>>>>>>" not in file.content:
            continue
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
_NAME = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_NAME_CHARACTERS = 64
# What the specification defines, and what hosts document of their own.
_FIELDS = frozenset([
    "name", "description", "license", "compatibility", "metadata", "allowed-tools", "agent", "argument-hint",
    "arguments", "context", "disable-model-invocation", "disallowed-tools", "effort", "hooks", "model", "paths",
    "shell", "user-invocable", "version", "when_to_use",
])  # fmt: skip
# Who does not load front matter with a fault, by words of the fault, as seen with the hosts of `find_host_differences`.
_REFUSED_BY = {
    "colon": "Copilot does not list the skill", "tab": "Codex and Copilot do not load the skill",
    "twice": "Codex, opencode and Copilot do not load the skill", "&, *": "Codex does not load the skill", 
    "alphabetic or numeric": "Codex does not load the skill",
    "never closed": "Codex, opencode and Copilot do not load the skill",
}  # fmt: skip
Severity = Literal["error", "advice"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, as a sentence: an error is what the specification or a host forbids."""

    severity: Severity
    text: str


def lint(files: SkillFiles, folder: str, *, is_whole: bool = True) -> tuple[Problem, ...]:
    """The problems, given the name of the skill's folder; a sound skill has none. Of a part no link is followed.

    A memory file has no front matter to keep and no size to stay below; its links count, and so do git's marks.
    """
    of_a_skill = files.main_path == MAIN_FILE
    problems = list(_check_front_matter(files.main, folder)) if of_a_skill else []
    problems += (Problem("advice", f"{found}: {SETTLE}") for found in find_conflicts(files))
    if of_a_skill:
        text = files.main.decode("utf-8", "replace")
        n_lines, advice = len(text.splitlines()), "details belong into files under references/"
        if n_lines > MAIN_LINES:
            problems.append(Problem("advice", f"{MAIN_FILE} has {n_lines} lines; above {MAIN_LINES}, {advice}"))
        if len(text) > MAIN_CHARACTERS:
            size = f"{len(text):,} characters (about {len(text) // 4:,} tokens)"
            problems.append(Problem("advice", f"{MAIN_FILE} has {size}; above {MAIN_CHARACTERS:,}, {advice}"))
    return (*problems, *(_check_links(files) if is_whole else ()))


def list_introduced(before: SkillFiles, after: SkillFiles, folder: str) -> tuple[str, ...]:
    """Return the problems that `after` has and `before` has not, one sentence each."""
    known = set(lint(before, folder))
    return tuple(problem.text for problem in lint(after, folder) if problem not in known)


def _check_front_matter(main: bytes, folder: str) -> Iterator[Problem]:
    front = frontmatter.read(main)
    if front is None:
        opening = main.removeprefix(BOM).splitlines()[:1]
        fault = frontmatter.find_fault(main)
        if fault and fault[1] in frontmatter.OWN_LIMITS:
            text = f"the front matter was not checked, though hosts may read it: line {fault[0]}: {fault[1]}"
            yield Problem("advice", text)
        elif fault:
            hosts = (each for word, each in _REFUSED_BY.items() if word in fault[1])
            problem = f"the front matter cannot be read as plain YAML: {next(hosts, 'hosts may not find the skill')}"
            yield Problem("error", f"{problem}. Line {fault[0]}: {fault[1]}")
        elif opening and opening[0].rstrip() == b"---":
            yield Problem("error", "the front matter is never closed: put a line of --- below its last field")
        else:
            yield Problem("error", "there is no front matter: hosts find a skill by its name and description")
        return
    fields, description = {key: json.loads(value) for key, value in front.fields}, front.description or ""
    name, own = (unicodedata.normalize("NFKC", each.strip()) for each in (front.name or "", folder))
    if not name:
        yield Problem("error", "the name is missing")
    else:
        if len(name) > _NAME_CHARACTERS or not _NAME.fullmatch(name) or name != name.lower():
            text = f"the name {quoted(name)} is not 1 to 64 of small letters, digits and single hyphens between them"
            yield Problem("error", text)
        if name != own:
            yield Problem("error", f"the name {quoted(name)} is not that of the folder, {quoted(folder)}")
    if not description.strip():
        text = "the description is missing: say what the skill does and when to use it (Codex does not load it)"
        yield Problem("error", text)
    elif len(description) > DESCRIPTION_CHARACTERS:
        text = "Copilot does not load the skill, Codex cuts there, and Claude Code at 1,536"
        n = len(description)
        yield Problem("error", f"the description has {n} characters, {DESCRIPTION_CHARACTERS} are allowed: {text}")
    compatibility = fields.get("compatibility", "")
    if not isinstance(compatibility, str):
        yield Problem("error", "compatibility is no text")
    elif len(compatibility) > COMPATIBILITY_CHARACTERS:
        text = f"compatibility has {len(compatibility)} characters, {COMPATIBILITY_CHARACTERS} are allowed"
        yield Problem("error", text)
    if "metadata" in fields and not isinstance(fields["metadata"], dict):
        yield Problem("error", "metadata is no mapping of names to values")
    if unknown := [key for key in fields if key not in _FIELDS]:
        shown = ", ".join(map(quoted, unknown[:_LINES_SHOWN])) + (", ..." if len(unknown) > _LINES_SHOWN else "")
        yield Problem("advice", f"no known host reads {shown} in front matter: put what is your own into metadata")


def _check_links(files: SkillFiles) -> Iterator[Problem]:
    present = {file.path for file in files.files}
    folders = {".", *(path[:at] for path in present for at, letter in enumerate(path) if letter == "/")}

    def resolve(file: SkillFile, path: str, is_mention: bool) -> str:
        # A file is named from the skill's folder, a link starts from that of its own file.
        resolved = normpath(path if is_mention else f"{file.path.rpartition('/')[0] or '.'}/{path}")
        return "" if resolved in present or resolved in folders else resolved

    for file in files.files:
        if not file.path.lower().endswith((".md", ".markdown")) or not is_text(file.content):
            continue
        if not any(resolve(file, *guess) for guess in guess_links(file.content)):
            continue
        for written, path, is_mention in dict.fromkeys(find_links(file.content)):
            if not (resolved := resolve(file, path, is_mention)):
                continue
            start = f"{quoted(file.path)} links to {quoted(written)}, which"
            if is_mention:  # it may be of another place
                yield Problem("advice", f"{quoted(file.path)} names {quoted(written)}, which is not there")
            elif resolved.startswith("../") or resolved == "..":
                yield Problem("advice", f"{start} leads out of the skill: who copies its folder alone lacks it")
            else:
                place = f" (no {quoted(resolved)})" if resolved != path else ""
                yield Problem("advice", f"{start} is not there{place}")
