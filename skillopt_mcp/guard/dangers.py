"""Dangers: what no skill should hold that a host reads: secrets, characters that nobody sees, orders to take over."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from skillopt_mcp.documents.characters import hidden_offsets, quoted
from skillopt_mcp.documents.lines import is_text, to_lf
from skillopt_mcp.documents.lint import Problem
from skillopt_mcp.guard.demands import taking_over
from skillopt_mcp.records.skills import SkillFile, SkillFiles
from skillopt_mcp.redaction.finding import find_secrets

_SHOWN = 5
_MARKDOWN = (".md", ".markdown")
_BYTE_ORDER_MARK = "\ufeff"
_PAGE_BREAK = "\f"
_JOINERS = "\u200c\u200d"
# Persian, Hindi and their like cannot be spelled without joiners.
_JOINED = re.compile("[\u0600-\u0dff]")


def dangers(files: SkillFiles) -> Iterator[Problem]:
    """Yield what is dangerous in the texts of a skill, with its line; of a secret no more than its kind is told."""
    for file in files.files:
        if is_text(file.content):
            yield from _dangers(file)


def _dangers(file: SkillFile) -> Iterator[Problem]:
    shown, content = quoted(file.path), to_lf(file.content)
    text = content.decode()
    breaks = [found.start() for found in re.finditer(b"\n", content)]
    secrets = ((bisect_left(breaks, each.start), each.kind) for each in find_secrets(content))
    if places := _places(secrets):
        told = "take it out, revoke it, and write a made-up value such as <TOKEN>"
        yield Problem("error", f"{shown} holds what looks like a secret: {places}; {told}")
    if not text.isascii():
        breaks = [found.start() for found in re.finditer("\n", text)]
    unseen = ((bisect_left(breaks, at), f"U+{ord(text[at]):04X}") for at in _unseen(text))
    if places := _places(unseen):
        told = "characters that a reader does not see, or that turn text around"
        yield Problem("error", f"{shown} holds {told}: {places}; remove them")
    if file.path.lower().endswith(_MARKDOWN):
        orders = ((bisect_left(breaks, found.at), found.told) for found in taking_over(text))
        if places := _places(orders):
            yield Problem("advice", f"{shown} reads like an injected instruction: {places}; make sure who wrote it")


def _places(found: Iterable[tuple[int, str]]) -> str:
    """Return what was found where, in order and each once; the last ones as a number."""
    places = sorted(set(found))
    shown = ", ".join(f"{what} in line {n_before + 1}" for n_before, what in places[:_SHOWN])
    return f"{shown} and {len(places) - _SHOWN:,} more" if len(places) > _SHOWN else shown


def _unseen(text: str) -> Iterator[int]:
    """Yield where a text has hidden characters that it could do without."""
    for at in hidden_offsets(text):
        character = text[at]
        is_first_mark = at == 0 and character == _BYTE_ORDER_MARK
        is_spelling = character in _JOINERS and _JOINED.match(text, at - 1) and at
        if not (is_first_mark or is_spelling or character == _PAGE_BREAK):
            yield at
