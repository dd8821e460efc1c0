"""Integrity: what the digests, the chain and the schema show of a change that was made by other means."""

import pytest
from children import SKILL

from skillopt_mcp.judges.judging import parse_judge
from skillopt_mcp.records.budgets import NO_CAPS, Cost, Spent
from skillopt_mcp.records.calls import Call, Question, Reply, Usage
from skillopt_mcp.records.tasks import NewTask
from skillopt_mcp.splits import EQUAL_SHARES
from skillopt_mcp.store.budgets import Bill
from skillopt_mcp.store.calls import Settlement
from skillopt_mcp.store.integrity import Integrity
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.trajectories import NewTrajectory


@pytest.fixture
def full(store: Store) -> Store:
    """Return a store with rows of several tables, sound as it is."""
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
    integrity = store.room(Integrity)
    rows = [*integrity.row_problems(), *integrity.chain_problems(store.events)]
    return [*integrity.file_problems(), *integrity.shape_problems(), *rows]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("update task set tags = '[]'", "table task: 1 1 is not what event 3 (tasks_added) recorded"),
        ("update task set digest = 'x'", "table task: row 1 is not what its digest names"),
        ("update skill set name = 'x'", "table skill: 1 is not what event 1 (skill_tracked) recorded"),
        ("update skill_root set path = '/x'", "table skill_root: / is not what event 2 (root_added) recorded"),
        ("insert into permission(skill_id, granted_by) values (1, 'me')", "table permission: 1 has no event"),
        ("insert into skill_root(path) values ('/x')", "table skill_root: /x has no event"),
        ("drop index call_by_scope", "the schema differs in index 'call_by_scope'"),
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
