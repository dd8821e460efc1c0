"""CSV rows: a table whose header names the fields; the cells of some hold JSON, and an empty one is left out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.tasks.formats.json_rows import decode_json, make_object
from skillopt_mcp.tasks.formats.registry import task_format

_WRITTEN_AS_JSON = frozenset({"judge", "tags", "files"})


def write_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Write a table that `read_csv` reads back."""
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    for row in rows:
        cells = {name: json.dumps(row[name], ensure_ascii=False) for name in _WRITTEN_AS_JSON & row.keys()}
        writer.writerow({**row, **cells})
    return table.getvalue()


@task_format("CSV", (".csv",), write=write_csv)
def read_csv(text: str, where: str) -> list[object]:
    """Read the rows of a table. Raises BadInput naming the line that is none."""
    head = text.partition("\n")[0]
    for mark, called in ((";", "semicolons"), ("\t", "tabs")):
        if mark in head and "," not in head:
            raise BadInput(f"{where} separates its columns by {called}: save it with commas")
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise BadInput(f"{where} line {reader.line_num} is not CSV ({error})") from error
    for n, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise BadInput(f"{where} row {n} has not as many cells as the header")
    if not {"prompt", "question"} & set(reader.fieldnames or ()):
        raise BadInput(f"the first line of {where} has to name the columns, as in: prompt,expected")
    found = list[object]()
    for row in rows:
        cells: dict[str, object] = {name: text for name, text in row.items() if text}
        for name in _WRITTEN_AS_JSON & cells.keys():
            with suppress(ValueError, RecursionError):
                cells[name] = decode_json(row[name])
        found.append(make_object([*cells.items()]))
    return found
