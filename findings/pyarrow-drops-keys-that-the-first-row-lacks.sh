#!/bin/sh
# pyarrow 26.0.0: Table.from_pylist takes its columns from the first row, and drops what later rows have besides.
#
# Task rows often have optional fields. Written to Parquet this way, a `group` or `split` that the first task happens not to
# have is gone for all, without an error. A row order that begins with the fullest row keeps everything.
#
# Seen:
#     [{'id': 1}, {'id': 2, 'group': 'b'}] -> columns ['id']
#     reversed                             -> columns ['id', 'group']
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile pyarrow==26.0.0
venv/bin/python - <<'PYTHON'
import pyarrow

rows = [{"id": 1}, {"id": 2, "group": "b"}]
for given in (rows, rows[::-1]):
    print(given, "->", pyarrow.Table.from_pylist(given).column_names)
assert pyarrow.Table.from_pylist(rows).column_names == ["id"]
assert pyarrow.Table.from_pylist(rows[::-1]).column_names == ["id", "group"]
PYTHON
