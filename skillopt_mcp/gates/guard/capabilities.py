"""Capabilities: what an edit lets a skill do that its parent could not, decided by form and never by wording."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import astuple
from functools import lru_cache
from pathlib import PurePosixPath

from skillopt_mcp.core.redacting import NOTHING_KNOWN, KnownSecrets
from skillopt_mcp.core.skills import SkillFile, SkillFiles, is_memory
from skillopt_mcp.core.text import BOM, TEXT_SUFFIXES, is_text, quoted
from skillopt_mcp.documents import frontmatter
from skillopt_mcp.gates.guard.shapes import LOOKS, RUN_BLOCK, Passage, blank_code, blocks, flatten_lines, secrets
from skillopt_mcp.prompts.loading import load_prompts

_MAX_FOUND = 50
_SENTENCE_SHOWN = 120
_ByKey = dict[tuple[str, str], list[Passage]]


def findings(
    before: SkillFiles, after: SkillFiles, known: KnownSecrets = NOTHING_KNOWN, *, is_undo: bool = False
) -> tuple[str, ...]:
    """Return one sentence for everything that `after` adds and a person should see before it is used; none is good.

    The values of `known` are secrets whatever they look like. What an undo takes away came with what it undoes.
    """
    if before.digest == after.digest:
        return ()
    looks = [_front_matter_findings, _file_findings, _import_findings, _text_findings, _language_findings]
    if not is_undo:
        looks.append(_restraint_findings)
    every = (*(finding for look in looks for finding in look(before, after)), *secrets_added(before, after, known))
    found = tuple(dict.fromkeys(every))
    if len(found) <= _MAX_FOUND:
        return found
    return (*found[:_MAX_FOUND], f"and {len(found) - _MAX_FOUND} more findings")


def secrets_added(before: SkillFiles, after: SkillFiles, known: KnownSecrets = NOTHING_KNOWN) -> tuple[str, ...]:
    """Return those of the findings that are secrets, in texts and in the names of files."""
    new_texts = _texts(after)
    old = {path: _secrets(text, known) for path, text in _texts(before).items()}
    added = _list_added(old, {path: _secrets(text, known) for path, text in new_texts.items()}, new_texts)
    names = "\n".join(file.path for file in after.files if before.get(file.path) is None)
    return (*added, *(f"the name of a new file holds {each.text}" for each in secrets(names, known)))


def _front_matter_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    old, new = frontmatter.read(before.main), frontmatter.read(after.main)
    if old is None and new is None:
        start, end = frontmatter.block_end(before.main), frontmatter.block_end(after.main)
        if end is not None and (start is None or before.main[:start] != after.main[:end]):
            yield f"{quoted(after.main_path)}: changes front matter that cannot be read"
        return
    if new is None:
        yield f"{quoted(after.main_path)}: the front matter can no longer be read"
        return
    was, now = dict(old.fields if old else ()), dict(new.fields)
    for key in dict.fromkeys((*was, *now)):
        if key == "description" and old is not None:
            continue
        if was.get(key) != now.get(key):
            verb = "removes" if key not in now else "changes" if key in was else "adds"
            yield f"{quoted(after.main_path)}: {verb} the front matter key {quoted(key)}"
    # A host that loads the file drops its comments; an agent that reads it sees them.
    fronts = [(files.main, front) for files, front in ((before, old), (after, new)) if front]
    cut = [main[: front.value_start or 0] + main[front.value_end or 0 : front.end] for main, front in fronts]
    if was | {"description": ""} == now | {"description": ""} and cut[0].split() != cut[-1].split():
        yield f"{quoted(after.main_path)}: changes a comment of the front matter, or how it is written"


def _file_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    for file in after.files:
        old = before.get(file.path)
        if old == file:
            continue
        shown = quoted(file.path)
        is_changed = old is None or old.content != file.content
        # An agent may run what lies with the scripts, begins like one, or is no document by its name.
        is_document = not is_text(file.content) or PurePosixPath(file.path).suffix.lower() in ("", *TEXT_SUFFIXES)
        is_script = file.path.startswith("scripts/") or file.content.startswith(b"#!") or not is_document
        if is_changed and is_script:
            yield f"{shown}: {'changes' if old else 'adds'} a script"
        if file.executable and not (old and old.executable):
            yield f"{shown}: becomes executable"
        if is_changed and not is_text(file.content):
            yield f"{shown}: is not text, so it cannot be checked"


_IMPORT = re.compile(r"(?<!\S)@([\w~./\\-]*[/.][\w~./\\-]*\w)")


def _import_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    """Yield the files that a host reads in place of their names, as it does in memory files alone."""
    if is_memory(after.main_path):
        was, now = (_IMPORT.findall(files.main.decode("utf-8", "replace")) for files in (before, after))
        for name in dict.fromkeys(now):
            if name not in was:
                yield f"{quoted(after.main_path)}: imports the file {quoted(name)}"


def _text_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    old_texts, new_texts = _texts(before), _texts(after)
    for n in range(len(LOOKS)):
        old = {path: _look_at(text)[n] for path, text in old_texts.items()}
        new = {path: _look_at(text)[n] for path, text in new_texts.items()}
        yield from _list_added(old, new, new_texts)


def _list_added(old: Mapping[str, _ByKey], new: Mapping[str, _ByKey], new_texts: Mapping[str, str]) -> Iterator[str]:
    """Yield what was found more often in the new texts than in the old ones, each by its path."""
    added = _count_keys(new) - _count_keys(old)
    for path, here in new.items():
        was = old.get(path, {})
        breaks = [found.start() for found in re.finditer("\n", new_texts[path])]
        for key, founds in here.items():
            # What moved to another file, or stands there already, is nothing that the skill could not do before.
            if key in added and len(founds) > len(was.get(key, ())):
                del added[key]
                line = bisect_left(breaks, founds[-1].at) + 1
                yield f"{quoted(path)}: adds {founds[-1].text} (line {line})"


def find_commands(files: SkillFiles) -> frozenset[str]:
    """What a host runs by loading a skill: command blocks, hooks of the front matter, and the files that these name.

    A file stands for its content, too: who changes it changes what runs.
    """
    front, text = frontmatter.read(files.main), files.main.decode("utf-8", "replace")
    found = {block[1].strip() for block in RUN_BLOCK.finditer(text)}
    if front:
        found |= {f"hooks: {value}" for key, value in front.fields if key.lower() == "hooks"}
    elif re.search(r"(?mi)^\W*hooks\W*:", head := text.removesuffix(frontmatter.body_of(text))):
        found.add(head)
    named = "\n".join(found)
    others = {file for file in files.files if file.path != files.main_path}
    while new := [file for file in others if named and PurePosixPath(file.path).name in named]:
        others -= {*new}
        found |= {f"{file.path} (sha256 {hashlib.sha256(file.content).hexdigest()[:12]})" for file in new}
        named = "\n".join([named, *(file.content.decode("utf-8", "replace") for file in new)])
    return frozenset(found)


_RESTRAINS = re.compile(
    r"\b(?:never|(?:do|must|may|should|shall|can)(?: not|n't)|cannot|unless|without|ask"
    r"|only (?:if|when|after|with|once))\b"
)
_SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+")


def _restraint_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    """Yield each sentence with a word of restraint that stands nowhere any more as it was, below the same parents."""
    old, new = _texts(before).values(), _texts(after).values()
    # A line that is added below a paragraph takes nothing from it.
    lines = frozenset(line for text in old for line in text.split("\n"))
    kept = {rule for text in new for rule in _sentences(text, lines)}
    for rule in dict.fromkeys(each for text in old for each in _sentences(text, lines)):
        if rule not in kept and _RESTRAINS.search(rule[-1]):
            yield f"takes away or changes what was forbidden or had to be asked: {quoted(rule[-1], _SENTENCE_SHOWN)}"


def _sentences(text: str, lines: Container[str]) -> Iterator[tuple[str, ...]]:
    """Yield each sentence after its parents; of a block also those that its lines among `lines` make alone."""
    for parents, block in blocks(text):
        known = [line for line in block if line in lines]
        for part in (block, known) if len(known) < len(block) else (block,):
            clause = ""
            for sentence in _SENTENCE_END.split(flatten_lines(part)):
                if bare := sentence.strip(" .!;:"):
                    yield (*parents, clause, bare)
                # What a colon ends is said of what follows.
                clause = bare if sentence.endswith(":") else ""


_LETTERS = re.compile(r"(?<![\w./:-])[^\W\d_]+\b(?![/:(\[]|[._-]\w)")  # no parts of names and paths
_SHORT_WORD = range(2, 4)
_FEWEST_WORDS, _FEWEST_SHORT = 8, 3
_LEAST_KNOWN = 0.25


def _language_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    """Yield what is added to an English skill in another language: hardly one of its short words is known.

    Short words make the grammar of a language. Known are those of the skill, and of the package's own prompts.
    """
    english, was = _english(), "\n".join(_texts(before).values())
    if _is_foreign(was, english):
        return
    known, old = english | _short_words(was), set(_blocks(was))
    for path, text in _texts(after).items():
        for block in _blocks(text):
            if block not in old and _is_foreign(block, known):
                yield f"{quoted(path)}: adds words in a language that the skill did not have, {quoted(block)}"


def _is_foreign(text: str, known: frozenset[str]) -> bool:
    words = [word.casefold() for word in _LETTERS.findall(text)]
    short = [word for word in words if len(word) in _SHORT_WORD]
    is_told = len(words) >= _FEWEST_WORDS and len(short) >= _FEWEST_SHORT
    return is_told and sum(word in known for word in short) < _LEAST_KNOWN * len(short)


def _short_words(text: str) -> frozenset[str]:
    return frozenset(word for word in _LETTERS.findall(text.casefold()) if len(word) in _SHORT_WORD)


@lru_cache(maxsize=1)
def _english() -> frozenset[str]:
    return _short_words(" ".join(astuple(load_prompts())))


@lru_cache(maxsize=32)
def _blocks(text: str) -> tuple[str, ...]:
    return tuple(flatten_lines(block) for _, block in blocks(blank_code(text)))


@lru_cache(maxsize=32)
def _look_at(text: str) -> tuple[_ByKey, ...]:
    """Return what each look finds in a text; kept, for most texts stay, and a new one is the next one's parent."""
    return tuple(_group_by_key(look(text)) for look in LOOKS)


@lru_cache(maxsize=32)
def _secrets(text: str, known: KnownSecrets) -> _ByKey:
    return _group_by_key(secrets(text, known))


def _group_by_key(found: Iterator[Passage]) -> _ByKey:
    by_key: _ByKey = {}
    for each in found:
        by_key.setdefault((each.text, each.key), []).append(each)
    return by_key


def _texts(files: SkillFiles) -> dict[str, str]:
    return {file.path: _text(file) for file in files.files if is_text(file.content)}


def _text(file: SkillFile) -> str:
    text = file.content.removeprefix(BOM).decode().replace("\r\n", "\n")
    # Next to other line endings, a carriage return is a hidden character.
    return text if "\n" in text else text.replace("\r", "\n")


def _count_keys(by_path: Mapping[str, _ByKey]) -> Counter[tuple[str, str]]:
    total: Counter[tuple[str, str]] = Counter()
    for by_key in by_path.values():
        total.update({key: len(found) for key, found in by_key.items()})
    return total
