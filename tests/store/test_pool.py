"""The pool: every write is one immediate transaction, on a connection with every setting."""

from collections.abc import Sequence
from contextlib import suppress
from typing import cast

import pytest
from children import SKILL, count, fork

from skillopt_mcp.core.errors import StoreError
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Connection, Cursor, Pool, sqlite
from tests.processes import Spawn, together


def test_read_then_write_loses_no_update_among_eight_processes(store: Store, spawn: Spawn) -> None:
    store.skills.track("s", "/s", SKILL)
    together([spawn(count, store.path, 200) for _ in range(8)])
    pool = Pool(store.path)
    assert pool.row("select n_seen from skill where id = 1") == (8 * 200,)
    pool.close()


def test_a_write_that_raises_leaves_nothing_behind(pool: Pool) -> None:
    def interrupted() -> None:
        with pool.write() as connection:
            connection.execute("insert into skill_root(path) values ('half')")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert pool.rows("select * from skill_root") == []
    with pool.write() as connection:
        connection.execute("insert into skill_root(path) values ('whole')")
    assert pool.rows("select path from skill_root") == [("whole",)]


def test_what_is_written_within_a_joined_write_is_kept_with_it_or_not_at_all(pool: Pool) -> None:
    sql, count = "insert into skill_root(path) values (?)", "select count(*) from skill_root"
    with suppress(StoreError), pool.write(joined=True), pool.write() as connection:
        connection.execute(sql, ["a"])
        assert pool.number(count) == 1
        pool.rows("select * from no_table")
    assert pool.number(count) == 0
    with pool.write(joined=True), pool.write() as connection:
        connection.execute(sql, ["a"])
    assert pool.number(count) == 1


def test_a_reader_sees_what_was_committed_while_a_writer_is_busy(pool: Pool) -> None:
    with pool.write() as connection:
        connection.execute("insert into skill_root(path) values ('new')")
        assert pool.rows("select * from skill_root") == []
    assert pool.rows("select path from skill_root") == [("new",)]


def test_a_connection_that_is_lent_while_the_pool_closes_can_still_commit(pool: Pool) -> None:
    with pool.write() as connection:
        pool.close()
        connection.execute("insert into skill_root(path) values ('last')")
    assert pool._idle == []
    with pytest.raises(sqlite().ProgrammingError, match="closed"):
        connection.execute("select 1")
    again = Pool(pool.path)
    assert again.rows("select path from skill_root") == [("last",)]
    again.close()


def test_a_forked_child_is_refused_and_harms_nothing(pool: Pool, spawn: Spawn) -> None:
    assert together([spawn(fork, pool.path)]) == [[(0, [("after",), ("before",)])]]
    assert pool.row("pragma integrity_check") == ("ok",)


class Interrupted:
    """A connection during whose first statement of this kind somebody types Ctrl-C."""

    def __init__(self, connection: Connection, statement: str) -> None:
        self._connection, self._statement = connection, statement

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, sql: str, *values: object) -> object:
        cursor = self._connection.execute(sql, *values)
        if sql == self._statement:
            self._statement = ""
            raise KeyboardInterrupt
        return cursor


@pytest.mark.parametrize("statement", ["begin immediate", "select 1", "commit"])
def test_after_a_ctrl_c_during_any_statement_the_next_transaction_begins_as_ever(pool: Pool, statement: str) -> None:
    pool._idle = [Interrupted(connection, statement) for connection in pool._idle]
    with pytest.raises(KeyboardInterrupt), pool.write() as connection:
        connection.execute("select 1")
    with pool.write() as connection:
        assert connection.execute("select 2").fetchone() == (2,)
    assert len(pool._idle) == 1


def test_a_store_that_was_removed_or_replaced_takes_nothing_more(pool: Pool) -> None:
    with pool.write() as connection:
        connection.execute("insert into skill_root(path) values ('/before')")
    elsewhere = pool.path.with_name("elsewhere.db")
    pool.path.rename(elsewhere)
    with pytest.raises(StoreError, match=f"the store '{pool.path}' was removed, moved or replaced"):
        pool.rows("select 1")
    assert not pool.path.exists()
    Pool(pool.path).close()
    with (
        pytest.raises(StoreError, match=r"skillopt-mcp store restore FILE\), then start again"),
        pool.write() as connection,
    ):
        connection.execute("insert into skill_root(path) values ('/lost')")
    there = Pool(pool.path)
    assert there.rows("select path from skill_root") == []
    there.close()


def test_only_evidence_is_committed_without_waiting_for_the_disk(pool: Pool) -> None:
    levels = []
    for evidence in (False, True, False):
        with pool.write(evidence=evidence) as connection:
            levels.append(connection.execute("pragma synchronous").fetchone()[0])
    assert levels == [2, 1, 2]


def test_a_store_that_is_replaced_while_a_writer_waits_for_it_takes_nothing_from_it(pool: Pool) -> None:
    class Held:
        """A connection that waits for its turn until another process has put a backup in the store's place."""

        def __init__(self, real: Connection) -> None:
            self.real = real
            self.in_transaction = True

        def execute(self, sql: str, *values: Sequence[object]) -> Cursor:
            if sql == "begin immediate":
                pool.path.rename(pool.path.with_name("kept.db"))
                pool.path.touch()
            return self.real.execute(sql, *values)

    [real] = pool._idle
    pool._idle[:] = [cast(Connection, Held(real))]
    with pytest.raises(StoreError, match="was removed, moved or replaced"), pool.write() as connection:
        connection.execute("insert into skill_root(path) values ('/lost')")
    assert real.execute("select path from skill_root").fetchall() == []
    pool._idle[:] = [real]
