"""Drawn patches: random documents, and random patches to them as models write them."""

from __future__ import annotations

from random import Random

Edit = dict[str, str | None]
Case = tuple[str, list[Edit]]

_LINES = (
    "# Ledger", "## Reading", "## Answering", "- Find the number first.", "- Stay on that document.", "- Round once.",
    "  - at the very end", "1. Write it down.", "Plain text of two sentences. And the second.", "Äpfel und Öl – 3 €",
    "| a | b |", "```python", "total = sum(lines)", "```", "> quoted", "- Round once, or twice.", "",
)  # fmt: skip
_NEW = (
    "- Check the sign.", "- Check the sign.\n", "\n- Mind the date.\n\n", "  - nested\n  - twice", "one\n\ntwo", "word",
    "", "- Round once.", "   ", "\ttabbed", "```\ncode\n```", "```", "---", "x" * 300,
)  # fmt: skip
_REGIONS = (
    "<!-- SLOW_UPDATE_START -->\n- Slow guidance.\n<!-- SLOW_UPDATE_END -->",
    "<!-- APPENDIX_START -->\n- A note.\n- Round once.\n<!-- APPENDIX_END -->",
    "<!-- SLOW_UPDATE_START -->\n<!-- SLOW_UPDATE_END -->",
)
_FRONT = "---\nname: ledger\ndescription: Add things up. Round once.\n---\n"
_ABSENT = ("no such text", "- Find the number second.", "Ledger\n\n\n\n\n## Nothing")
_OPS = ("append", "insert_after", "insert_after", "replace", "replace", "delete")


def draw(random: Random) -> Case:
    """Return one document and a patch of one to four edits."""
    document = _document(random)
    edits = [_edit(random, document) for _ in range(random.choice((1, 1, 2, 3, 4)))]
    if random.random() < 0.05:
        edits.append(dict(random.choice(edits)))
    return document, edits


def _document(random: Random) -> str:
    lines = random.sample(_LINES, random.randint(2, len(_LINES)))
    if random.random() < 0.3:
        lines += random.choices(_LINES, k=3)
    if random.random() < 0.25:
        lines += ["", *random.sample(_REGIONS, random.randint(1, 2))]
    if random.random() < 0.06:
        lines.insert(random.randint(0, len(lines)), random.choice(_REGIONS))
    text = (_FRONT if random.random() < 0.25 else "") + "\n".join(lines) + random.choice(("\n", "\n", "", "\n\n"))
    return text.replace("\n", "\r\n") if random.random() < 0.06 else text


def _edit(random: Random, document: str) -> Edit:
    op = random.choice(_OPS)
    content = "" if op == "delete" else random.choice(_NEW)
    if random.random() < 0.01:
        content = f"- Sneak in.\n{_REGIONS[2]}"
    edit: Edit = {"op": op, "target": "" if op == "append" else _target(random, document), "content": content}
    if random.random() < 0.03:
        edit[random.choice(("target", "content"))] = None
    if op == "delete" and random.random() < 0.05:
        edit["content"] = "- and put this"
    return edit


def _target(random: Random, document: str) -> str:
    """Return a whole line, a part of one, some lines with or without the last ending, or what is not there."""
    document = document.replace("\r\n", "\n")
    if random.random() < 0.08:
        return random.choice((*_ABSENT, ""))
    lines = document.splitlines()
    at = random.randrange(len(lines))
    whole = lines[at]
    kind = random.random()
    if kind < 0.15 and len(whole) > 8:
        start = random.randrange(len(whole) - 4)
        return whole[start : start + random.randint(4, 12)]
    if kind < 0.3:
        return "\n".join(lines[at : at + random.randint(2, 3)])
    return whole + "\n" if kind < 0.4 else whole
