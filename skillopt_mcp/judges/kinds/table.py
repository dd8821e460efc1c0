"""Table: the judge that finds the last table of an answer and compares its cells."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.base import QUOTED, comparable, is_encodable, is_whole, looked_at, quoted
from skillopt_mcp.judges.kinds.numeric import Margin, last_number
from skillopt_mcp.records.judging import Attempt, Judge, Score, judge

MAX_CELLS = 5_000
MAX_ROWS = 500
_MAX_CELL_CHARS = 2_000
_RULE = re.compile(r":?-+:?")
_PIPE = re.compile(r"(?<!\\)\|")
_FENCE = re.compile(r"`{3,}")
_MARKUP = "*_`"
# All that may be next to the digits of a number: a cell "12 of 30" is none.
_NUMERIC = re.compile(r"[-+−]?\s*[$€£¥₹]?\s*[-−]?[\d.,\u00a0\u2009\u202f]*\d(?:\.\d*)?(?:[eE][-+−]?\d+)?\s*%?")

Rows = list[list[str]]


class _Cell(NamedTuple):
    """A cell as it is compared; `number` is None for one that is no number."""

    text: str
    number: float | None
    is_percent: bool


_Read = Sequence[tuple[_Cell, ...]]


@judge("table")
class Table(Judge):
    """The answer's last Markdown, CSV or TSV table has the cells of `expected` (rows, or a table as text).

    Rows after the first may stand in `any_order`; numbers are equal within `tolerance`; soft is the share of right
    cells (of right rows in any order).
    """

    expected: str | list[list[str]]
    any_order: bool = False
    tolerance: Margin = 1e-9

    def score(self, attempt: Attempt) -> Score:
        expected, unit = rows_of(self.expected), "rows" if self.any_order else "cells"
        given = parse_table(looked_at(attempt.answer)) if is_whole(attempt.answer) else []
        if not given:
            reason = f"no table in {quoted(attempt.answer)}, expected {_size(expected)}"
            return Score(hard=False, soft=0.0, reason=reason)
        read, wanted = [_read(row) for row in given], [_read(row) for row in expected]
        if self.any_order:
            n_right, n_all = _right_rows(read, wanted, self.tolerance), max(len(given), len(expected))
        else:
            n_right, n_all = _right_cells(read, wanted, self.tolerance)
        if n_right == n_all:
            return Score(hard=True, soft=1.0, reason=f"all {n_all} {unit} as expected")
        reasons = [f"{n_right} of {n_all} {unit} as expected"]
        if _size(given) != _size(expected):
            reasons.append(f"{_size(given)}, expected {_size(expected)}")
        reasons.append(_first_difference(given, expected, self.tolerance))
        return Score(hard=False, soft=n_right / n_all, reason="; ".join(reasons))

    def check(self) -> None:
        rows = rows_of(self.expected)
        if not rows or not any(rows):
            raise BadInput('table judge: "expected" holds no table; give rows, or a table as Markdown, CSV or TSV')
        if sum(map(len, rows)) > MAX_CELLS or len(rows) > MAX_ROWS:
            raise BadInput(f"table judge: the table is too large; give at most {MAX_ROWS} rows and {MAX_CELLS:,} cells")
        for cell in (cell for row in rows for cell in row):
            if len(cell) > _MAX_CELL_CHARS or not is_encodable(cell):
                raise BadInput(f"table judge: cell {quoted(cell, 40)} is too long, or not UTF-8")

    def references(self) -> list[str]:
        return ["\n".join("\t".join(row) for row in rows_of(self.expected))]


def parse_table(text: str) -> Rows:
    """Return the cells of the last table in a text, row by row, without the rule of a Markdown table; [] when none."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    start = _last_rule(lines)
    if start:
        end = next((n for n in range(start + 1, len(lines)) if "|" not in lines[n]), len(lines))
        return [_markdown_cells(line) for line in [lines[start - 1], *lines[start + 1 : end]]]
    for delimiter in "\t,;":
        rows = _delimited(lines, delimiter)
        if rows:
            return rows
    return []


def _last_rule(lines: Sequence[str]) -> int:
    """Return where the last Markdown table has its rule, 0 when there is none; a row of dashes below it is a row."""
    found, begins, has_rule = 0, 0, False
    for n, line in enumerate(lines):
        if "|" not in line:
            begins, has_rule = n + 1, False
        elif not has_rule and n > 0 and "-" in line and _is_rule(line):
            found, has_rule = n, n > begins
    return found


def _is_rule(line: str) -> bool:
    cells = line.strip().removeprefix("|").removesuffix("|").split("|")
    return all(_RULE.fullmatch(cell.strip()) for cell in cells)


def rows_of(expected: str | list[list[str]]) -> Rows:
    """Return the expected cells, whether given as rows or as the text of a table."""
    if isinstance(expected, str):
        return parse_table(expected.strip())
    return [[_cell(cell) for cell in row] for row in expected]


def _right_cells(given: _Read, expected: _Read, tolerance: float) -> tuple[int, int]:
    n_right = n_all = 0
    for row, wanted in zip_longest(given, expected, fillvalue=()):
        n_all += max(len(row), len(wanted))
        n_right += sum(_same(cell, other, tolerance) for cell, other in zip(row, wanted, strict=False))
    return n_right, n_all


def _right_rows(given: _Read, expected: _Read, tolerance: float) -> int:
    """Return how many rows are right: the first counts where it stands, each other one is met at most once."""
    n_right = int(_same_row(given[0], expected[0], tolerance))
    waiting = list(expected[1:])
    # A table that is longer is wrong anyhow: looking at twice the rows bounds the time.
    for row in given[1 : 2 * len(expected) + 1]:
        found = next((n for n, wanted in enumerate(waiting) if _same_row(row, wanted, tolerance)), None)
        if found is not None:
            del waiting[found]
            n_right += 1
    return n_right


def _read(row: Sequence[str]) -> tuple[_Cell, ...]:
    return tuple(_Cell(comparable(cell), _number(cell), cell.endswith("%")) for cell in row)


def _number(cell: str) -> float | None:
    return last_number(cell) if _NUMERIC.fullmatch(cell) else None


def _same_row(row: Sequence[_Cell], wanted: Sequence[_Cell], tolerance: float) -> bool:
    return len(row) == len(wanted) and all(_same(a, b, tolerance) for a, b in zip(row, wanted, strict=True))


def _same(cell: _Cell, wanted: _Cell, tolerance: float) -> bool:
    if cell.text == wanted.text:
        return True
    if cell.number is None or wanted.number is None or cell.is_percent != wanted.is_percent:
        return False
    return cell.number == wanted.number or abs(cell.number - wanted.number) <= tolerance


def _first_difference(given: Rows, expected: Rows, tolerance: float) -> str:
    for n, (row, wanted) in enumerate(zip_longest(given, expected, fillvalue=()), start=1):
        if not _same_row(_read(row), _read(wanted), tolerance):
            return f"row {n} is {quoted(' | '.join(row))}, expected {quoted(' | '.join(wanted), QUOTED)}"
    return "the rows differ"


def _size(rows: Rows) -> str:
    """Return how many rows there are, and columns in the first."""
    return f"{len(rows)} x {len(rows[0]) if rows else 0}"


def _markdown_cells(line: str) -> list[str]:
    inner = line.strip()
    inner = inner.removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [_cell(cell.replace("\\|", "|")) for cell in _PIPE.split(inner)]


def _delimited(lines: Sequence[str], delimiter: str) -> Rows:
    """Return the last run of lines with equally many (two or more) fields."""
    run: Rows = []
    for line in reversed(lines):
        if _FENCE.match(line.lstrip()) or not line.strip():
            if run:
                break
            continue
        cells = _fields(line, delimiter)
        if run and len(cells) != len(run[0]):
            break
        if len(cells) > 1:
            run.append(cells)
    return run[::-1]


def _fields(line: str, delimiter: str) -> list[str]:
    try:
        rows = list(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return [line]
    return [_cell(cell) for cell in rows[0]] if rows else []


def _cell(text: str) -> str:
    return " ".join(text.strip().strip(_MARKUP).split())
