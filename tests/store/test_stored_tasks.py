"""Tasks at rest: stored once, in a split that stays, and held out from what learns."""

from dataclasses import replace

from filling import JUDGE, add, record

from skillopt_mcp.core.mining import Draft
from skillopt_mcp.core.skills import Skill
from skillopt_mcp.core.tasks import NewTask, TaskFile
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.trajectories import NewTrajectory


def test_every_task_says_what_became_of_it(store: Store, skill: Skill) -> None:
    one = NewTask("one", JUDGE, "a")
    outcomes = add(store, skill, one, one, replace(one, name="b"), NewTask("two", JUDGE, "a"), NewTask("three", JUDGE))
    assert outcomes == ["added", "duplicate", "duplicate", "rejected", "added"]
    assert add(store, skill, NewTask("three", JUDGE), NewTask("four", JUDGE, "a")) == ["duplicate", "rejected"]
    assert [task.prompt for task in store.tasks.list_tasks(skill.id)] == ["one", "three"]


def test_hostile_texts_are_values_and_never_schema(store: Store, skill: Skill) -> None:
    hostile = "'); drop table task; -- \" ] ` \0 ?1 :a %s {x}"
    pool = Pool(store.path)
    before = pool.rows("select * from sqlite_schema")
    add(store, skill, NewTask(hostile, JUDGE, hostile, tags=(hostile,), files=(TaskFile(hostile, hostile),)))
    record(store, skill, NewTrajectory(hostile, hostile, True, 1.0, hostile, "[]", hostile, 0))
    assert pool.rows("select * from sqlite_schema") == before
    pool.close()
    assert [task.prompt for task in store.tasks.list_tasks(skill.id)] == [hostile]


def test_what_a_task_was_drafted_from_stays_with_it(store: Store, skill: Skill) -> None:
    mined = Draft(NewTask("one", JUDGE, "a", tags=("r1",)), "sessions", "s-1#0", "yes", "no", "'); drop table draft")
    plain = Draft(NewTask("two", JUDGE, "b"), "skill", "Say hello.")
    shares = {"train": 1.0, "test": 2.0}
    placed = store.tasks.add_tasks(skill.id, [mined, plain, mined, NewTask("three", JUDGE)], shares, waits=True)
    assert [each.is_duplicate for each in placed] == [False, False, True, False]
    store.retirements.retire(skill.id, [1], "")
    kept = list(store.tasks.list_drafts(skill.id).values())
    assert [replace(each, task=mined.task) for each in kept] == [mined, replace(plain, task=mined.task)]
    assert [each.task.digest for each in kept] == [mined.task.digest, plain.task.digest]
    assert [task.waits for task in store.tasks.list_in_use(skill.id)] == [True, True]
