"""Retirements at rest: once and for good, and the name is free for another."""

import pytest
from children import SKILL
from filling import JUDGE, add

from skillopt_mcp.core.errors import StoreError
from skillopt_mcp.core.skills import Skill
from skillopt_mcp.core.tasks import NewTask
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool


def test_a_retired_task_keeps_its_name_though_another_takes_it(store: Store, skill: Skill) -> None:
    add(store, skill, NewTask("one", JUDGE, "a", "val"), NewTask("two", JUDGE, "b", "test"))
    old, other = store.tasks.list_tasks(skill.id)
    assert store.retirements.retire(skill.id, [old.id], "wrong") == [old.id]
    assert add(store, skill, NewTask("one", JUDGE, "c"), NewTask("uno", JUDGE, "a")) == ["rejected", "added"]
    new = store.tasks.list_in_use(skill.id)[-1]
    assert (new.name, new.prompt, new.split) == ("a", "uno", "val")
    assert store.tasks.list_tasks(skill.id) == [old, other, new]
    assert store.tasks.list_by_id([old.id]) == [old]
    assert store.tasks.count_tasks(skill.id) == {"train": 0, "val": 1, "test": 1}


def test_tasks_are_retired_once_and_only_by_their_own_skill(store: Store, skill: Skill) -> None:
    other = store.skills.track("t", "/t", SKILL)
    add(store, skill, NewTask("one", JUDGE, "a"), NewTask("two", JUDGE, "b"))
    first, second = (task.id for task in store.tasks.list_tasks(skill.id))
    assert store.retirements.retire(other.id, [first], "") == []
    assert store.retirements.retire(skill.id, [first], "early") == [first]
    assert store.retirements.retire(skill.id, [first, second], "late") == [second]
    assert [each.reason for each in store.retirements.list_retired(skill.id).values()] == ["early", "late"]


@pytest.mark.parametrize("sql", ["update retirement set reason = 'x'", "delete from retirement"])
def test_a_retirement_is_never_taken_back(store: Store, skill: Skill, sql: str) -> None:
    add(store, skill, NewTask("one", JUDGE, "a"))
    store.retirements.retire(skill.id, [1], "wrong")
    pool = Pool(store.path)
    with pytest.raises(StoreError, match="a retirement is never rewritten"), pool.write() as connection:
        connection.execute(sql)
    pool.close()
