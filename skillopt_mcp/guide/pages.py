"""Pages: the user's guide, which ships with the program: one Markdown file a subject."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import NotFound

_FOLDER = Path(__file__).parent
_ORDER = (
    "hosts", "recording", "tasks", "work", "backends", "replay", "settings", "evidence", "comparing", "promoting",
    "skills", "checking", "store", "sharing", "scripting", "python", "extending",
)  # fmt: skip
_COMMENT = re.compile(r"^<!-- .*? -->\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the guide: the name it is asked for by, its title, and its text (Markdown)."""

    name: str
    title: str
    text: str


def pages() -> list[Page]:
    """Return all pages, in the order in which a newcomer needs them."""
    return [_read(name) for name in _ORDER]


def page(name: str) -> Page:
    """Return one page. Raises NotFound for a name that no page has, with the pages that speak of it."""
    known = pages()
    for each in known:
        if each.name == name.lower().removesuffix(".md"):
            return each
    near = difflib.get_close_matches(name.lower(), _ORDER, n=1)
    speaking = [each.name for each in known if name.lower() in each.text.lower()]
    if near:
        said = f"did you mean {quoted(near[0])}?"
    elif speaking:
        said = f"read of it in: {', '.join(speaking)}"
    else:
        said = f"its pages: {', '.join(_ORDER)}"
    raise NotFound(f"the guide has no page {quoted(name)}: {said}")


def _read(name: str) -> Page:
    text = _COMMENT.sub("", (_FOLDER / f"{name}.md").read_text("utf-8"))
    return Page(name, text.split("\n", 1)[0].removeprefix("# "), text)
