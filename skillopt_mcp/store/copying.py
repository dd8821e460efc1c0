"""Copying: a store as one other file, while others use it; and a store held alone, to be replaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from skillopt_mcp.core.errors import BadInput, Busy, UnsafeStore
from skillopt_mcp.gates.promotion import alpha_of
from skillopt_mcp.store.files import SIDE_FILES, check_store, forget_mark, is_empty, make_file, remove_store
from skillopt_mcp.store.pool import (
    Connection,
    connect,
    explain_failure,
    failures,
    has_schema,
    is_busy,
    is_damage,
    is_safe_for_wal,
    sqlite,
    sqlite_version,
    storage_errors,
)

_PAGES = 4096
_MAGIC = b"SQLite format 3\0"


def copy_into(
    source: Connection, path: Path, target: Path, advance: Callable[[int, int], None] = lambda _done, _total: None
) -> None:
    """Copy the store at `path`, open as `source`, into an empty file that is complete without side files.

    `advance` is called with how many pages are copied, and of how many. Raises StoreError, of the file at fault.
    """
    copy = connect(target)
    try:
        # Held: else it would begin again with each write of another process.
        with storage_errors(path):
            source.execute("begin")
            source.execute("select 1 from sqlite_schema limit 1").fetchone()
        with storage_errors(target):
            try:
                source.backup(copy, pages=_PAGES, progress=lambda _, left, n: advance(n - left, n))
            except failures() as error:
                if is_damage(error):
                    raise explain_failure(error, path) from error
                raise
            copy.execute("pragma journal_mode = delete")
    finally:
        if source.in_transaction:
            source.execute("rollback")
        copy.close()


ALONE_MS = 1_000


def copy_store(source: Path, target: Path, advance: Callable[[int, int], None] = lambda _done, _total: None) -> None:
    """Copy a store into a new private file that is complete without side files.

    `advance` is called as by `copy_into`. Raises NotFound when there is no store, BadInput when
    the file is there or cannot be made, StoreError.
    """
    check_store(source)
    connection = connect(source)
    try:
        with storage_errors(source):
            if not has_schema(connection, source):
                raise is_empty(source)
        _make(target)
        try:
            copy_into(connection, source, target, advance)
        except BaseException:
            remove_store(target)
            raise
    finally:
        connection.close()


def is_database(path: Path) -> bool:
    """Whether a file begins as an SQLite database does: of any other, SQLite would delete the log. Raises OSError."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


_PROMOTION_ID = "p.id, p.to_version, p.created_at"
# Rows of the store that is replaced ("old"), which the backup ("main") does not have.
_LOST = f"""
    select 'promotion test', t.id, s.name, t.number
    from old.promotion_test t join old.skill s on s.id = t.skill_id
    where t.number > 0 and t.id not in (select id from main.promotion_test)
    union all
    select p.kind, 'version ' || substr(p.to_version, 1, 12) || ' at ' || p.created_at, s.name, 0
    from old.promotion p join old.skill s on s.id = p.skill_id
    where p.state = 'done' and ({_PROMOTION_ID}) not in (select {_PROMOTION_ID} from main.promotion p)
    union all
    select 'erasure', 'trajectory:' || e.trajectory_id, s.name, 0
    from old.erased e join old.trajectory o on o.id = e.trajectory_id join old.skill s on s.id = o.skill_id
    join main.trajectory t on t.id = o.id and t.created_at = o.created_at
    where e.trajectory_id not in (select trajectory_id from main.erased)
"""


def read_lost(path: Path, backup: Path) -> list[tuple[str, str, str, float]]:
    """Promotion tests, promotions, rollbacks and erasures that a store has and a backup lacks.

    Each is (kind, which, skill, error rate spent). Raises StoreError.
    """
    connection = connect(backup)
    try:
        with storage_errors(path):
            connection.execute("attach database ? as old", [str(path)])
            found = connection.execute(_LOST).fetchall()
            return [(*names, float(alpha_of(number)) if number else 0.0) for *names, number in found]
    finally:
        connection.close()


@contextmanager
def hold_alone(path: Path) -> Iterator[None]:
    """Hold a store that no other process has open, its journal brought in, so that its file may be replaced.

    Raises Busy when another process has it open, UnsafeStore when it is too damaged to see that. (Of a store
    in rollback mode, an idle process is not seen; it gets an error when it writes next.)
    """
    connection = connect(path)
    replaced = False
    try:
        with storage_errors(path):
            connection.execute(f"pragma busy_timeout = {ALONE_MS}")
            try:
                connection.execute("pragma journal_mode = delete")
                connection.execute("begin exclusive")
            except sqlite().OperationalError as error:
                if is_busy(error):
                    raise Busy(
                        f"another process has the store '{path}' open: end it (a host that runs the server, a replay), "
                        "then restore again; nothing was changed"
                    ) from error
                raise
        yield
        replaced = True
    finally:
        if connection.in_transaction:
            connection.execute("rollback")
        if not replaced:
            with storage_errors(path):
                _set_wal(connection)
        connection.close()


def replace_store(path: Path, new: Path, kept: Path) -> None:
    """Put a copy in the place of the store, whose files stay under other names. At every moment there is a whole store.

    Raises Busy when another process has it open. A process that had it open unseen writes no more.
    """
    connection = connect(new)
    try:
        with storage_errors(new):
            _set_wal(connection)
    finally:
        connection.close()
    with ExitStack() as stack:
        if is_database(path):
            with suppress(UnsafeStore):  # too damaged to be held: its files are kept as they are
                stack.enter_context(hold_alone(path))
        for end in ("", *SIDE_FILES):
            if os.path.exists(f"{path}{end}"):
                os.link(f"{path}{end}", f"{kept}{end}")
        for end in SIDE_FILES:  # they would be taken for the new store's, and written over it
            Path(f"{path}{end}").unlink(missing_ok=True)
        forget_mark(path)
        os.replace(new, path)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def _set_wal(connection: Connection) -> None:
    if is_safe_for_wal(sqlite_version()):
        connection.execute("pragma journal_mode = wal")


def _make(path: Path) -> None:
    try:
        make_file(path)
    except FileExistsError:
        raise BadInput(f"'{path}' is there already, and is not overwritten: name another file") from None
    except OSError as error:
        raise BadInput(f"'{path}' cannot be made ({error.strerror}): name another file") from error
