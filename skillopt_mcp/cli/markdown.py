"""Markdown: a page of the guide as a person reads it at a terminal: words whole, links as commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.table import Table
from rich.text import Text

_LINK = re.compile(r"\[(?P<words>[^\]]+)\]\((?P<page>[\w-]+\.md)?(?:#[\w-]*)?\)")
_FENCE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})(?P<rest>.*)")
_GAP = 2
# In less room a column of prose is a ribbon: rather than that, every row becomes a record.
_LEAST = 20


def with_commands(text: str) -> str:
    """Return a page whose links to other pages name the command that prints them; code stays as it is."""
    lines, fence = list[str](), ""
    paragraph = list[str]()
    for line in text.split("\n"):
        after = _fence_after(fence, line)
        if fence or after or not line or line.startswith("    "):
            lines += [*_linked(paragraph), line]
            paragraph = []
        else:
            paragraph.append(line)
        fence = after
    return "\n".join([*lines, *_linked(paragraph)])


def _fence_after(fence: str, line: str) -> str:
    """Return the marks of the code block that is open after a line, "" where none is; only its own kind closes one."""
    found = _FENCE.match(line.lstrip())
    if not found:
        return fence
    marks, rest = found["marks"], found["rest"]
    if not fence:
        return "" if marks[0] == "`" and "`" in rest else marks
    return "" if marks.startswith(fence) and not rest.strip() else fence


def _linked(paragraph: Sequence[str]) -> list[str]:
    # A link may begin on one line and end on the next.
    return [_LINK.sub(_command, "\n".join(paragraph))] if paragraph else []


def _command(link: re.Match[str]) -> str:
    page = link["page"]
    return f"{link['words']} (`skillopt-mcp guide {page.removesuffix('.md')}`)" if page else link["words"]


def column_widths(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return how wide each column of a table is so that no word is cut, None where it has no room for that."""
    columns = list(zip(*rows, strict=True))
    natural = [max(map(_cells, column)) for column in columns]
    words = [max(_cells(word) for cell in column for word in (cell.split() or [""])) for column in columns]
    least = [max(word, min(whole, _LEAST)) for word, whole in zip(words, natural, strict=True)]
    left = width - sum(least) - _GAP * len(columns)
    if left < 0:
        return None
    wishes = sorted((natural[n] - least[n], n) for n in range(len(columns)))
    for n_served, (wish, n) in enumerate(wishes):
        more = min(wish, left // (len(wishes) - n_served))
        least[n] += more
        left -= more
    return least


def _cells(text: str) -> int:
    return Text(text).cell_len


class _Table(TableElement):
    """A table whose words stay whole: as wide as they need, or one record for each row."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = [cell.content for cell in self.header.row.cells] if self.header and self.header.row else []
        rows = [[cell.content for cell in row.cells] for row in (self.body.rows if self.body else [])]
        widths = column_widths([[cell.plain for cell in row] for row in (head, *rows)], options.max_width)
        if widths is None:
            yield from _records(head, rows)
            return
        is_tall = any(cell.cell_len > width for row in rows for cell, width in zip(row, widths, strict=True))
        table = Table(
            box=box.SIMPLE, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0), leading=int(is_tall),
            style="markdown.table.border",
        )  # fmt: skip
        for name, width in zip(head, widths, strict=True):
            table.add_column(Text.assemble(name, style="markdown.table.header"), width=width)
        for row in rows:
            table.add_row(*row)
        yield table


def _records(head: Sequence[Text], rows: Sequence[Sequence[Text]]) -> Iterator[Text]:
    for n, row in enumerate(rows):
        if n:
            yield Text()
        for name, cell in zip(head, row, strict=True):
            if cell.plain:
                yield Text.assemble(name, ": " if name.plain else "", cell, style="" if cell is not row[0] else "bold")


class Page(Markdown):
    """A page of the guide, laid out for a terminal."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = Markdown.elements | {"table_open": _Table}

    def __init__(self, text: str) -> None:
        super().__init__(with_commands(text), hyperlinks=False)
