"""Drawn edits: random documents of every shape, random patches to them, and whether a byte outside of them changed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from random import Random

from skillopt_mcp.core.edits import Edit, Op, Patch
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.documents.edits import apply_patch

_LINES = (
    "# Ledger", "## Reading", "- Find the number first.", "- Round once.", "  - nested", "\t- tabbed", "1. Write it.",
    "Plain text of two sentences. And the second.", "Äpfel und Öl – 3 €", "| a | b |", "|---|---|", "```python",
    "total = sum(lines)", "```", "~~~", "> quoted", "", "   ", "<!-- a comment -->", "<!-- open", "-->", "---",
    "name: x", "key: &a [x]", "x\u200by", "\U0001f600 \u202e", "- Round once, or twice.", "a" * 200,
    "<!-- SLOW_UPDATE_START -->", "<!-- SLOW_UPDATE_END -->", "<!-- APPENDIX_START -->", "<!--APPENDIX_END-->",
)  # fmt: skip
_NEW = (
    "- New.",
    "- New.\n",
    "\n- New.\n\n",
    "one\n\ntwo",
    "",
    " ",
    "\t",
    "```\ncode\n```",
    "```",
    "---",
    "x" * 300,
    "é\r\nb",
)
_FRONTS = ("", "", "---\nname: x\ndescription: d\n---\n", "---\nname: [\n---\n", "---\n", "\ufeff---\nname: x\n---\n")
_MOST_WAYS = 100_000
_ANCHORED: tuple[Op, ...] = ("insert_after", "replace", "replace", "delete")


def document(chance: Random) -> bytes:
    """Return a document."""
    lines = chance.choices(_LINES, k=chance.randint(0, 25))
    text = chance.choice(_FRONTS) + "\n".join(lines) + chance.choice(("\n", "\n", "", "\n\n"))
    return text.replace("\n", chance.choice(("\n", "\n", "\n", "\r\n", "\r"))).encode()


def patch(chance: Random, content: bytes) -> tuple[Edit, ...]:
    """Return one append, or one to three edits with anchors out of the document, or none in it."""
    if chance.random() < 0.2:
        return (Edit("append", content=chance.choice(_NEW)),)
    text = content.decode()
    edits = []
    for _ in range(chance.randint(1, 3)):
        start = chance.randrange(len(text) + 1)
        target = text[start : start + chance.choice((3, 10, 30, 80))] if chance.random() < 0.95 else "nowhere at all"
        op = chance.choice(_ANCHORED)
        edits.append(Edit(op, target, None if op == "delete" else chance.choice(_NEW)))
    return tuple(edits)


def changed_outside(content: bytes, edits: Sequence[Edit]) -> int:
    """Return how many bytes differ outside of what the applied edits of a patch name; the engine may raise nothing."""
    files = SkillFiles((SkillFile(MAIN_FILE, content),))
    result = apply_patch(files, Patch(tuple(edits)))
    applied = [edit for edit, report in zip(edits, result.reports, strict=True) if report.status == "applied"]
    after = result.files.main
    if not applied:
        return 0 if after == content else len(content)
    if applied[0].op == "append":
        return _missing_around(content, after)
    # A text that the front matter or a protected region holds too is not meant there: one of the places has to fit.
    fewest = len(content)
    for spans in itertools.islice(itertools.product(*(_spans(content, edit) for edit in applied)), _MOST_WAYS):
        fewest = min(fewest, _lost(_around(content, sorted(spans)), after))
        if not fewest:
            break
    return fewest


def _around(content: bytes, spans: Sequence[tuple[int, int]]) -> list[bytes]:
    kept, at = list[bytes](), 0
    for start, end in spans:
        kept.append(content[at:start])
        at = end
    return [*kept, content[at:]]


def _missing_around(content: bytes, after: bytes) -> int:
    """Return how much of a text is gone when something was put into it at one place."""
    head = next(
        (n for n, (a, b) in enumerate(zip(content, after, strict=False)) if a != b), min(len(content), len(after))
    )
    tail = content[head:]
    return 0 if after.endswith(tail) else len(tail)


def _spans(content: bytes, edit: Edit) -> list[tuple[int, int]]:
    """Return from where to where an edit may change bytes: its anchor's, or none behind the anchor's last line."""
    text = content.decode()
    wanted = (edit.target or "").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    pattern = re.compile("(?=(" + re.escape(wanted).replace("\\\n", "(?:\\r\\n|\\n|\\r)") + "))")
    spans = []
    for found in pattern.finditer(text):
        start, end = (len(text[:at].encode()) for at in found.span(1))
        if content[start - 1 : start + 1] == b"\r\n":
            start -= 1
        if edit.op == "insert_after":
            ending = re.search(rb"\r\n|\n|\r|\Z", content[max(end - 1, 0) :])
            end = start = max(end - 1, 0) + (ending.end() if ending else 0)
        spans.append((start, end))
    return spans


def _lost(kept: list[bytes], after: bytes) -> int:
    """Return how many bytes of the parts that stay are not there any more, in their order."""
    if not after.startswith(kept[0]) or not after.endswith(kept[-1]):
        return max(len(kept[0]), len(kept[-1]), 1)
    at = len(kept[0])
    for part in kept[1:-1]:
        at = after.find(part, at)
        if at < 0:
            return max(len(part), 1)
        at += len(part)
    return 0 if at <= len(after) - len(kept[-1]) else 1
