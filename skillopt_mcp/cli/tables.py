"""Tables: rows laid out in columns, or one below the other where the terminal is too narrow for that."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

GAP = "  "
_CUT = "..."
# Fewer characters of a long cell say nothing: rather than that, every row becomes a record.
_LEAST = 12
_ON_ONE_LINE = str.maketrans("\n\t", "  ")


def lay_out_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, n_long: int = 1
) -> tuple[str, list[str]]:
    """Return the head of a table and its lines: the last `n_long` columns are cut to fit, all others stay whole.

    Where that leaves those no room, there is no head, and the lines are records of "column: value", an empty line
    between two of them.
    """
    rows = [[cell.translate(_ON_ONE_LINE) for cell in row] for row in rows]
    natural = [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)]
    widths, long = natural[:-n_long], natural[-n_long:]
    left = width - sum(widths) - len(GAP) * (len(natural) - 1)
    if left < sum(min(each, _LEAST) for each in long):
        return "", _records(columns, rows, width, n_long)
    for n, each in enumerate(long):
        later = sum(min(other, _LEAST) for other in long[n + 1 :])
        widths.append(min(each, left - later, max(_LEAST, left // (n_long - n))))
        left -= widths[-1]
    return _line(columns, widths), [_line(row, widths) for row in rows]


def shorten_to(text: str, width: int) -> str:
    """Return a text that takes at most `width` cells: prose is cut at its end, a word in its middle."""
    if cell_len(text) <= width:
        return text
    room = max(0, width - len(_CUT))
    if " " in text.strip():
        return f"{set_cell_size(text, room).rstrip()}{_CUT}"[:width]
    tail = set_cell_size(text[::-1], room // 2)[::-1].strip()
    return f"{set_cell_size(text, room - room // 2).rstrip()}{_CUT}{tail}"[:width]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (shorten_to(cell, width) for cell, width in zip(row, widths, strict=True))
    return GAP.join(cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _records(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, n_long: int) -> list[str]:
    lines: list[str] = []
    for row in rows:
        lines += [""] if lines else []
        for n, (column, cell) in enumerate(zip(columns, row, strict=True)):
            name = f"{column}: " if column else ""
            room = width - cell_len(name) if n >= len(columns) - n_long else cell_len(cell)
            if cell:
                lines.append(f"{name}{shorten_to(cell, max(room, _LEAST))}")
    return lines
