"""Soundness: no value of any table can change without one of the checks telling."""

import re

import pytest
from children import SKILL
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.judges.specs import parse_judge
from skillopt_mcp.records.budgets import NO_CAPS, Cost, Spent
from skillopt_mcp.records.calls import Call, Question, Reply, Usage
from skillopt_mcp.records.tasks import NewTask
from skillopt_mcp.splits import EQUAL_SHARES
from skillopt_mcp.store.budgets import Bill
from skillopt_mcp.store.calls import Settlement
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.soundness import Soundness
from skillopt_mcp.store.sums import SUMMED, is_summed, row_sum
from skillopt_mcp.store.trajectories import NewTrajectory

# Named by a digest that is recomputed, or chained.
BY_DIGEST = {
    "blob": {"content", "size", "encoding"},
    "version_file": {"skill_id", "version_id", "path", "executable", "sha256"},
    "task": {"prompt", "judge", "files"},
    "archive": {"content"},
    "event": {"seq", "kind", "content", "prev_hash", "hash"},
}
VALUES = st.lists(st.none() | st.text(max_size=9) | st.integers(-9, 9) | st.floats(-9, 9) | st.binary(max_size=9))


@pytest.fixture
def full(store: Store) -> Store:
    """Return a store with a row in every table whose rows have a checksum or a digest, sound as it is."""
    skill = store.skills.track("s", "/s", SKILL)
    store.permissions.add_root("/")
    task = NewTask("what?", parse_judge({"kind": "exact", "expected": "42"}), split="val", tags=("a",))
    store.tasks.add_tasks(skill.id, [task], EQUAL_SHARES)
    store.trajectories.add_trajectory(skill.id, skill.live_version, NewTrajectory("a", "b", True, 1, "c", "[]"))
    call = Call("optimizer", "reflect", Question("q", "e", "r"), "1")
    bill = Bill("b", NO_CAPS, Spent(), [Cost(1, 0, 0)])
    claimed = store.calls.settle(Settlement([], [], 0, [(b"k", call)], "r", "o", bill))
    reply = Reply("said", (), Usage(1, 2, 0, 3), id=claimed.claims[0].id)
    store.calls.settle(Settlement([reply], [], 0, [], "r", "o", Bill("b", NO_CAPS, Spent(), [])))
    assert problems(store) == []
    return store


def problems(store: Store) -> list[str]:
    soundness = store.room(Soundness)
    rows = [*soundness.row_problems(), *soundness.chain_problems(store.events)]
    return [*soundness.file_problems(), *soundness.shape_problems(), *rows]


def test_every_column_stands_in_an_index_or_under_a_digest(pool: Pool) -> None:
    open_to_change = set()
    tables = pool.rows("select name, wr from pragma_table_list where schema = 'main' and name not like 'sqlite_%'")
    for table, is_its_own_index in tables:
        columns = pool.rows("select name, pk from pragma_table_info(?)", [table])
        indexed = pool.rows(
            "select i.name from pragma_index_list(?) l, pragma_index_info(l.name) i where l.partial = 0"
            " and not (l.origin = 'pk' and ?)",
            [table, is_its_own_index],
        )
        partial = pool.rows("select sql from sqlite_schema where tbl_name = ? and sql like '% where %'", [table])
        told = {str(word) for [sql] in partial for word in re.findall(r"(\w+) is (?:not )?null", str(sql))}
        keys = {name for name, pk in columns if pk and indexed}  # which every index of a table holds
        covered = {name for [name] in indexed} | keys | BY_DIGEST.get(str(table), set())
        if table in SUMMED:
            assert "sum" in told, "a sum that becomes null has to be noticed"
            continue
        open_to_change |= {f"{table}.{name}" for name, _ in columns} - {f"{table}.{name}" for name in covered | told}
    assert open_to_change == set(), "name these columns in an index of their table, or cover them by a digest"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("update trajectory set answer = 'x'", "table trajectory: row 1 is not what was written"),
        ("update trajectory set hard = 0", "table trajectory: row 1 is not what was written"),
        ("update trajectory set created_at = '2026'", "table trajectory: row 1 is not what was written"),
        ("update reply set text = 'x'", "table reply: row 1 is not what was written"),
        ("update reply set usd = null", "table reply: row 1 is not what was written"),
        ("update task set tags = '[]'", "table task: 1 1 is not what event 3 (tasks_added) recorded"),
        ("update task set digest = 'x'", "table task: row 1 is not what its digest names"),
        ("update skill set name = 'x'", "table skill: 1 is not what event 1 (skill_tracked) recorded"),
        ("update skill_root set path = '/x'", "table skill_root: / is not what event 2 (root_added) recorded"),
        ("insert into permission(skill_id, granted_by) values (1, 'me')", "table permission: 1 has no event"),
        ("insert into skill_root(path) values ('/x')", "table skill_root: /x has no event"),
        ("drop index task_by_split", "the schema differs in index 'task_by_split'"),
        ("create table other(a)", "the schema differs in table 'other'"),
    ],
)
def test_a_row_that_was_changed_behind_the_program_is_named(full: Store, sql: str, said: str) -> None:
    pool = Pool(full.path)
    with pool.write() as connection:
        connection.execute(sql)
    pool.close()
    assert any(problem.startswith(said) for problem in problems(full)), problems(full)


@pytest.mark.parametrize(
    ("trigger", "sql", "said"),
    [
        ("blob_is_never_rewritten", "update blob set content = x'00'", "table blob"),
        ("version_file_is_never_rewritten", "update version_file set path = 'x'", "table version: the files of"),
        ("task_is_frozen", "update task set files = '[ ]'", "table task: row 1"),
        ("event_is_never_rewritten", "update event set kind = 'root_added' where seq = 1", "event 1 (root_added)"),
        ("event_is_never_removed", "delete from event where seq = 2", "event 3 (tasks_added) does not follow"),
        ("event_is_never_removed", "delete from event where seq = 3", "table task: 1 has no event"),
    ],
)
def test_what_the_store_itself_forbids_is_noticed_when_the_rule_was_taken_away(
    full: Store, trigger: str, sql: str, said: str
) -> None:
    pool = Pool(full.path)
    with pool.write() as connection:
        [rule] = connection.execute("select sql from sqlite_schema where name = ?", [trigger]).fetchone()
        connection.execute(f"drop trigger {trigger}")
        connection.execute(sql)
        connection.execute(rule)
    pool.close()
    assert any(problem.startswith(said) for problem in problems(full)), problems(full)


def test_rows_from_before_there_were_checksums_are_counted(full: Store) -> None:
    assert full.room(Soundness).n_unsummed() == 0
    pool = Pool(full.path)
    with pool.write() as connection:
        connection.execute("update trajectory set sum = null")
    pool.close()
    assert (full.room(Soundness).n_unsummed(), problems(full)) == (1, [])


@given(VALUES, st.data())
def test_a_changed_value_changes_the_sum(values: list[str | int | float | bytes | None], data: st.DataObject) -> None:
    assert is_summed([*values, row_sum(*values)])
    assert is_summed([*values, None])
    at = data.draw(st.integers(0, len(values)))
    assert not is_summed([*values[:at], "other text", *values[at:], row_sum(*values)])


def test_a_whole_number_has_one_sum_in_either_type() -> None:
    assert row_sum(1, 0, None) == row_sum(1.0, -0.0, float("nan")) != row_sum("1", 0, None)
