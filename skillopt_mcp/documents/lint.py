"""Lint: where a skill departs from the Agent Skills specification, or from what hosts make of one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.lines import is_text
from skillopt_mcp.documents.spans import parse
from skillopt_mcp.limits import DESCRIPTION_CHARACTERS
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles

MAIN_LINES = 500
MAIN_CHARACTERS = 20_000
COMPATIBILITY_CHARACTERS = 500
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NAME_CHARACTERS = 64
_LINK = re.compile(r"(?<!\\)\[[^\]\n]*\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'][^)]*)?\)")
_MENTION = re.compile(r"`((?:references|scripts|assets)/[\w./-]+\.\w+)`")
_ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|/|~")


def lint(files: SkillFiles, folder: str) -> tuple[str, ...]:
    """Return one sentence per problem, given the name of the skill's folder; a sound skill has none.

    A memory file has no front matter to keep and no size to stay below; its links count.
    """
    of_a_skill = files.main_path == MAIN_FILE
    return (*(_front(files.main, folder) if of_a_skill else ()), *(_sizes(files) if of_a_skill else ()), *_links(files))


def introduced(before: SkillFiles, after: SkillFiles, folder: str) -> tuple[str, ...]:
    """Return the problems that `after` has and `before` has not."""
    known = set(lint(before, folder))
    return tuple(problem for problem in lint(after, folder) if problem not in known)


def _front(main: bytes, folder: str) -> Iterator[str]:
    front = frontmatter.read(main)
    if front is None:
        missing = frontmatter.block_end(main) is None
        yield (
            "there is no front matter: hosts find a skill by its name and description"
            if missing
            else ("the front matter cannot be read as plain YAML: hosts may not find the skill")
        )
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


def _links(files: SkillFiles) -> Iterator[str]:
    present = {file.path for file in files.files}
    folders = {str(parent) for path in present for parent in PurePosixPath(path).parents}
    for file in files.files:
        for link in dict.fromkeys(_paths(file)):
            if link not in present and link not in folders:
                yield f"{quoted(file.path)} links to {quoted(link)}, which is not there"


def _paths(file: SkillFile) -> Iterator[str]:
    """Yield the paths inside the skill that a Markdown file links to, or names in the folders of the specification."""
    if not file.path.lower().endswith((".md", ".markdown")) or not is_text(file.content):
        return
    folder = str(PurePosixPath(file.path).parent)
    for span in parse(file.content).spans:
        if span.kind not in ("body", "protected"):
            continue
        text = file.content[span.start : span.end].decode()
        for found in _LINK.finditer(text):
            link = found[1].partition("#")[0].replace("%20", " ")
            if link and not _ELSEWHERE.match(found[1]):
                yield _resolved(f"{folder}/{link}")
        yield from (_resolved(found[1]) for found in _MENTION.finditer(text))


def _resolved(path: str) -> str:
    """Return a path without dots; one that leaves the skill keeps those at its beginning."""
    parts: list[str] = []
    for part in PurePosixPath(path).parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts) or "."
