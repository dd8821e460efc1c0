"""Reads: the selects that something makes of a store, and how SQLite plans them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from skillopt_mcp.store.pool import Pool, Value, connect

Read = list[tuple[str, Sequence[Value]]]


@contextmanager
def noted() -> Iterator[Read]:
    """Note every select that is made meanwhile, with its values."""
    read: Read = []

    def noting(fetch: Callable[[Pool, str, Sequence[Value]], object]) -> Callable[..., object]:
        def fetched(pool: Pool, sql: str, values: Sequence[Value] = ()) -> object:
            read.append((sql, values))
            return fetch(pool, sql, values)

        return fetched

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Pool, "row", noting(Pool.row))
        patched.setattr(Pool, "rows", noting(Pool.rows))
        yield read


def plans(store: Path, read: Read) -> list[str]:
    """Return SQLite's plan of each select."""
    connection = connect(store)
    try:
        return [str(connection.execute(f"explain query plan {sql}", values).fetchall()) for sql, values in read]
    finally:
        connection.close()
