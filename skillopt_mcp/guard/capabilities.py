"""Capabilities: what a new version of a skill could do, hide or demand that its parent could not, or did forbid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.lines import BOM, is_text
from skillopt_mcp.guard.commands import blocks, commands
from skillopt_mcp.guard.demands import demands
from skillopt_mcp.guard.found import Found
from skillopt_mcp.guard.hiding import comments, disguised, hidden, secrets
from skillopt_mcp.guard.reach import encoded, hosts, places, variables
from skillopt_mcp.guard.restraints import lost
from skillopt_mcp.records.skills import SkillFile, SkillFiles
from skillopt_mcp.redaction.known import NOTHING_KNOWN, KnownSecrets

_LOOKS: tuple[Callable[[str], Iterator[Found]], ...] = (
    hidden, comments, disguised, blocks, hosts, places, variables, commands, encoded, demands,
)  # fmt: skip
_MOST = 50
_SHOWN = 120
_ByKey = dict[tuple[str, str], list[Found]]


def findings(before: SkillFiles, after: SkillFiles, known: KnownSecrets = NOTHING_KNOWN) -> tuple[str, ...]:
    """Return one sentence for everything that `after` adds and a person should see before it is used; none is good.

    The values of `known` are secrets whatever they look like.
    """
    if before.digest == after.digest:
        return ()
    looks = (_front_matter_findings, _file_findings, _text_findings, _restraint_findings)
    told = (*(finding for look in looks for finding in look(before, after)), *secrets_added(before, after, known))
    found = tuple(dict.fromkeys(told))
    if len(found) <= _MOST:
        return found
    return (*found[:_MOST], f"and {len(found) - _MOST} more findings")


def secrets_added(before: SkillFiles, after: SkillFiles, known: KnownSecrets = NOTHING_KNOWN) -> tuple[str, ...]:
    """Return those of the findings that tell of secrets, in texts and in the names of files."""
    new_texts = _texts(after)
    old = {path: _secrets(text, known) for path, text in _texts(before).items()}
    added = _added(old, {path: _secrets(text, known) for path, text in new_texts.items()}, new_texts)
    names = "\n".join(file.path for file in after.files if before.get(file.path) is None)
    return (*added, *(f"the name of a new file holds {each.told}" for each in secrets(names, known)))


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


def _file_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    for file in after.files:
        old = before.get(file.path)
        if old == file:
            continue
        shown = quoted(file.path)
        if file.path.startswith("scripts/") and (old is None or old.content != file.content):
            yield f"{shown}: {'changes' if old else 'adds'} a script"
        if file.executable and not (old and old.executable):
            yield f"{shown}: becomes executable"
        if (old is None or old.content != file.content) and not is_text(file.content):
            yield f"{shown}: is not text, so it cannot be checked"


def _text_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    old_texts, new_texts = _texts(before), _texts(after)
    for n in range(len(_LOOKS)):
        old = {path: _seen(text)[n] for path, text in old_texts.items()}
        new = {path: _seen(text)[n] for path, text in new_texts.items()}
        yield from _added(old, new, new_texts)


def _added(old: Mapping[str, _ByKey], new: Mapping[str, _ByKey], new_texts: Mapping[str, str]) -> Iterator[str]:
    """Yield what was found more often in the new texts than in the old ones, each by its path."""
    added = _total(new) - _total(old)
    for path, here in new.items():
        was = old.get(path, {})
        for key, founds in here.items():
            # What moved to another file, or stands there already, is nothing that the skill could not do before.
            if key in added and len(founds) > len(was.get(key, ())):
                del added[key]
                line = new_texts[path].count("\n", 0, founds[-1].at) + 1
                yield f"{quoted(path)}: adds {founds[-1].told} (line {line})"


def _restraint_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    for restraint in lost(_texts(before).values(), _texts(after).values()):
        yield f"takes away or changes what was forbidden or had to be asked: {quoted(restraint, _SHOWN)}"


@lru_cache(maxsize=32)
def _seen(text: str) -> tuple[_ByKey, ...]:
    """Return what each look finds in a text; kept, for most texts stay, and a new one is the next one's parent."""
    return tuple(_by_key(look(text)) for look in _LOOKS)


@lru_cache(maxsize=32)
def _secrets(text: str, known: KnownSecrets) -> _ByKey:
    return _by_key(secrets(text, known))


def _by_key(found: Iterator[Found]) -> _ByKey:
    by_key: _ByKey = {}
    for each in found:
        by_key.setdefault((each.told, each.key), []).append(each)
    return by_key


def _texts(files: SkillFiles) -> dict[str, str]:
    return {file.path: _text(file) for file in files.files if is_text(file.content)}


def _text(file: SkillFile) -> str:
    return file.content.removeprefix(BOM).decode().replace("\r\n", "\n").replace("\r", "\n")


def _total(by_path: Mapping[str, _ByKey]) -> Counter[tuple[str, str]]:
    total: Counter[tuple[str, str]] = Counter()
    for by_key in by_path.values():
        total.update({key: len(found) for key, found in by_key.items()})
    return total
