"""Tasks and trajectories at rest: stored once, in a split that stays, and held out from what learns."""

from dataclasses import replace

import pytest
from children import SKILL, attempt
from children import record as record_attempts

from skillopt_mcp.errors import StoreError
from skillopt_mcp.judges.specs import parse_judge
from skillopt_mcp.records.calls import Message, messages_json
from skillopt_mcp.records.evidence import Trajectory
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.records.tasks import NewTask, TaskFile
from skillopt_mcp.splits import EQUAL_SHARES
from skillopt_mcp.store.exposures import expose_asked
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.soundness import Soundness
from skillopt_mcp.store.tasks import NewTrajectory
from tests.processes import Spawn, together
from tests.reads import noted, plans

JUDGE = parse_judge({"kind": "exact", "expected": "42"})


@pytest.fixture
def skill(store: Store) -> Skill:
    return store.skills.track("s", "/s", SKILL)


def add(store: Store, skill: Skill, *tasks: NewTask) -> list[str]:
    return store.tasks.add_tasks(skill.id, tasks, EQUAL_SHARES)


def record(store: Store, skill: Skill, new: NewTrajectory) -> tuple[int, bool, int]:
    return store.tasks.add_trajectory(skill.id, skill.live_version, new)


def test_a_task_comes_back_as_it_was_given(store: Store, skill: Skill) -> None:
    new = NewTask("what?\né", JUDGE, "mine", "val", ("easy", "short"), (TaskFile("in/a.txt", "text\0"),))
    assert add(store, skill, new) == ["added"]
    [task] = store.tasks.list_tasks(skill.id)
    assert (task.prompt, task.judge, task.name, task.split, task.tags, task.files, task.digest) == (
        new.prompt, JUDGE, "mine", "val", ("easy", "short"), new.files, new.digest,
    )  # fmt: skip


def test_every_task_says_what_became_of_it(store: Store, skill: Skill) -> None:
    one = NewTask("one", JUDGE, "a")
    outcomes = add(store, skill, one, one, replace(one, name="b"), NewTask("two", JUDGE, "a"), NewTask("three", JUDGE))
    assert outcomes == ["added", "duplicate", "duplicate", "name taken", "added"]
    assert add(store, skill, NewTask("three", JUDGE), NewTask("four", JUDGE, "a")) == ["duplicate", "name taken"]
    assert [task.prompt for task in store.tasks.list_tasks(skill.id)] == ["one", "three"]


def test_the_same_task_may_belong_to_two_skills(store: Store, skill: Skill) -> None:
    other = store.skills.track("t", "/t", SKILL)
    task = NewTask("one", JUDGE, "a")
    assert [add(store, skill, task), add(store, other, task)] == [["added"], ["added"]]


def test_tasks_join_the_split_furthest_below_its_share(store: Store, skill: Skill) -> None:
    add(store, skill, *(NewTask(f"given {n}", JUDGE, split="test") for n in range(3)))
    add(store, skill, *(NewTask(f"free {n}", JUDGE) for n in range(6)))
    assert store.tasks.count_tasks(skill.id) == {"train": 3, "val": 3, "test": 3}


def test_a_retired_task_keeps_its_name_though_another_takes_it(store: Store, skill: Skill) -> None:
    add(store, skill, NewTask("one", JUDGE, "a", "val"), NewTask("two", JUDGE, "b", "test"))
    old, other = store.tasks.list_tasks(skill.id)
    assert store.tasks.retire(skill.id, [old.id], "wrong") == [old.id]
    assert add(store, skill, NewTask("one", JUDGE, "c"), NewTask("uno", JUDGE, "a")) == ["retired", "added"]
    new = store.tasks.list_in_use(skill.id)[-1]
    assert (new.name, new.prompt, new.split) == ("a", "uno", "val")
    assert store.tasks.list_tasks(skill.id) == [old, other, new]
    assert store.tasks.get_task(old.id) == old
    assert store.tasks.count_tasks(skill.id) == {"train": 0, "val": 1, "test": 1}


def test_a_name_that_was_given_twice_is_retired_twice(store: Store, skill: Skill) -> None:
    for prompt in ("one", "uno", "eins"):
        assert add(store, skill, NewTask(prompt, JUDGE, "a", "test")) == ["added"]
        store.tasks.retire(skill.id, [task.id for task in store.tasks.list_in_use(skill.id)], "")
    assert [each.name for each in store.tasks.list_retired(skill.id).values()] == ["a"] * 3
    assert list(store.room(Soundness).chain_problems(store.events)) == []


def test_tasks_are_retired_once_and_only_by_their_own_skill(store: Store, skill: Skill) -> None:
    other = store.skills.track("t", "/t", SKILL)
    add(store, skill, NewTask("one", JUDGE, "a"), NewTask("two", JUDGE, "b"))
    first, second = (task.id for task in store.tasks.list_tasks(skill.id))
    assert store.tasks.retire(other.id, [first], "") == []
    assert store.tasks.retire(skill.id, [first], "early") == [first]
    assert store.tasks.retire(skill.id, [first, second], "late") == [second]
    assert [each.reason for each in store.tasks.list_retired(skill.id).values()] == ["early", "late"]


@pytest.mark.parametrize("sql", ["update retirement set reason = 'x'", "delete from retirement"])
def test_a_retirement_is_never_taken_back(store: Store, skill: Skill, sql: str) -> None:
    add(store, skill, NewTask("one", JUDGE, "a"))
    store.tasks.retire(skill.id, [1], "wrong")
    pool = Pool(store.path)
    with pytest.raises(StoreError, match="a retirement is never rewritten"), pool.write() as connection:
        connection.execute(sql)
    pool.close()


def test_a_retirement_that_was_changed_behind_the_program_is_named(store: Store, skill: Skill) -> None:
    add(store, skill, NewTask("one", JUDGE, "a"), NewTask("two", JUDGE, "b"))
    store.tasks.retire(skill.id, [1], "wrong")
    pool = Pool(store.path)
    with pool.write() as connection:
        connection.execute("drop trigger retirement_stands")
        connection.execute("update retirement set n_looks = 7")
        connection.execute("insert into retirement(task_id, name, reason, n_tests, n_looks) values (2, 'b', '', 0, 0)")
    pool.close()
    told = "\n".join(store.room(Soundness).chain_problems(store.events))
    assert "table retirement: [1] is not what event 3 (tasks_retired) recorded" in told
    assert "table retirement: 2 has no event" in told


def test_learning_passes_over_what_was_rolled_out_on_a_retired_task(store: Store, skill: Skill) -> None:
    add(store, skill, NewTask("one", JUDGE, "a", "train"), NewTask("two", JUDGE, "b", "train"))
    pool = Pool(store.path)
    with pool.write() as connection:
        for n in (1, 2):
            connection.execute(
                "insert into call(key, scope, role, stage, draw, owner) values (?, 'r', 'target', 'rollout', ?, 'o')",
                [f"{n}".encode(), f"d{n}"],
            )
            connection.execute(
                "insert into trial(scope, version_id, task_id, draw, call_id, hard, soft, reason)"
                " values ('r', ?, ?, ?, ?, 1, 1.0, '')",
                [skill.live_version, n, f"d{n}", n],
            )
    pool.close()
    assert store.tasks.list_train_draws(skill.id, skill.live_version, 9) == [(1, "d1"), (2, "d2")]
    store.tasks.retire(skill.id, [1], "")
    assert store.tasks.list_train_draws(skill.id, skill.live_version, 9) == [(2, "d2")]


def test_a_trajectory_comes_back_as_it_was_recorded(store: Store, skill: Skill) -> None:
    messages = (Message("user", "what?"), Message("tool", "é\0", "grep"), Message("tool", "", ""))
    new = NewTrajectory("what?", "42", False, 0.5, "close", messages_json(messages), "s1", 0)
    trajectory_id, added, n_new = record(store, skill, new)
    assert (added, n_new) == (True, 1)
    assert store.tasks.get_trajectory(trajectory_id) == (
        skill.id,
        Trajectory(
            f"trajectory:{trajectory_id}", "what?", "42", messages, False, 0.5, "close", "session", session="s1"
        ),
    )
    assert store.tasks.get_trajectory(trajectory_id + 1) is None


def test_the_same_session_and_index_are_one_trajectory_and_the_first_stays(store: Store, skill: Skill) -> None:
    first = record(store, skill, attempt("s1", 0))
    again = record(store, skill, replace(attempt("s1", 0), answer="other"))
    assert (first[1:], again[1:]) == ((True, 1), (False, 1))
    assert first[0] == again[0]
    found = store.tasks.get_trajectory(first[0])
    assert found
    assert found[1].answer == attempt("s1", 0).answer


def test_attempts_without_a_session_or_index_are_all_kept(store: Store, skill: Skill) -> None:
    for new in [replace(attempt("s1", 0), session_id=None), replace(attempt("s1", 0), position=None)] * 2:
        assert record(store, skill, new)[1]
    assert store.tasks.count_trajectories(skill.id) == (4, 4)


def test_eight_processes_recording_the_same_hundred_attempts_leave_a_hundred_rows(
    store: Store, skill: Skill, spawn: Spawn
) -> None:
    said = together([spawn(record_attempts, store.path, "s1", 100) for _ in range(8)])
    told = [each for child in said for each in child]
    assert len(told) == 800
    assert len({(position, trajectory_id) for _, position, trajectory_id, _ in told}) == 100
    assert sum(added for *_, added in told) == 100
    assert store.tasks.count_trajectories(skill.id) == (100, 100)


def test_what_came_since_the_last_proposal_is_new(store: Store, skill: Skill) -> None:
    other = store.skills.track("t", "/t", SKILL)
    store.tasks.mark_seen(skill.id)
    assert store.tasks.count_trajectories(skill.id) == (0, 0)
    for position in range(3):
        record(store, skill, attempt("s1", position))
    record(store, other, attempt("s1", 0))
    store.tasks.mark_seen(skill.id)
    assert store.tasks.count_trajectories(skill.id) == (3, 0)
    assert record(store, skill, attempt("s1", 3))[2] == 1
    assert store.tasks.count_trajectories(skill.id) == (4, 1)
    assert store.tasks.count_trajectories(other.id) == (1, 1)


def test_what_is_new_is_counted_on_whoever_recorded_or_proposed_meanwhile(store: Store, skill: Skill) -> None:
    new = NewTrajectory("p", "a", True, 1.0, "", "[]", "session")
    with Store(store.path) as other:
        counts = [record(who, skill, new)[2] for who in (store, store, other, store, other)]
        other.tasks.mark_seen(skill.id)
        counts += [record(who, skill, new)[2] for who in (store, other, other, store)]
    assert counts == [1, 2, 3, 4, 5, 1, 2, 3, 4]


def test_a_repeated_record_counts_nothing_and_one_of_another_skill_neither(store: Store, skill: Skill) -> None:
    other = store.skills.track("other", "/other", SKILL)
    new = NewTrajectory("p", "a", True, 1.0, "", "[]", "session")
    first, second = replace(new, position=0), replace(new, position=1)
    told = [
        record(store, to, each)[1:] for to, each in ((skill, first), (other, first), (skill, first), (skill, second))
    ]
    assert told == [(True, 1), (True, 1), (False, 1), (True, 2)]


def test_reflection_sees_the_newest_scored_attempts_but_none_of_a_held_out_task(store: Store, skill: Skill) -> None:
    splits = ("train", "val", "test")
    add(store, skill, *(NewTask(f"{split} prompt", JUDGE, split=split) for split in splits))
    prompts = ["free", *(f"{split} prompt" for split in splits), " \tval prompt\r\n", "unscored", "test prompt, more"]
    ids = {}
    for position, prompt in enumerate(prompts):
        hard = None if prompt == "unscored" else True
        ids[prompt] = record(store, skill, replace(attempt("s1", position), prompt=prompt, hard=hard, soft=None))[0]
    seen = [ids[prompt] for prompt in ("free", "train prompt", "test prompt, more")]
    assert store.tasks.recent_trajectories(skill.id, 10) == seen
    assert store.tasks.recent_trajectories(skill.id, 2) == seen[1:]
    assert [prompt for prompt in prompts if store.tasks.is_held_out(skill.id, prompt)] == [
        "val prompt", "test prompt", " \tval prompt\r\n",
    ]  # fmt: skip
    other = store.skills.track("t", "/t", SKILL)
    assert store.tasks.recent_trajectories(other.id, 10) == []
    assert not store.tasks.is_held_out(other.id, "val prompt")


def test_hostile_texts_are_values_and_never_schema(store: Store, skill: Skill) -> None:
    hostile = "'); drop table task; -- \" ] ` \0 ?1 :a %s {x}"
    pool = Pool(store.path)
    before = pool.rows("select * from sqlite_schema")
    add(store, skill, NewTask(hostile, JUDGE, hostile, tags=(hostile,), files=(TaskFile(hostile, hostile),)))
    record(store, skill, NewTrajectory(hostile, hostile, True, 1.0, hostile, "[]", hostile, 0))
    assert pool.rows("select * from sqlite_schema") == before
    pool.close()
    assert [task.prompt for task in store.tasks.list_tasks(skill.id)] == [hostile]


def test_what_is_asked_is_found_whatever_blanks_surround_it(store: Store, skill: Skill, pool: Pool) -> None:
    ending = " and say what it was, in one short line"
    add(store, skill, *(NewTask(f"\t find {n}{ending}\n", JUDGE, split="val") for n in range(10)))
    add(store, skill, NewTask(f"find 7{ending} ", JUDGE, split="train", files=(TaskFile("a", "b"),)))
    assert store.tasks.is_held_out(skill.id, f"find 7{ending}")
    assert not store.tasks.is_held_out(skill.id, f"mine 7{ending}")
    with pool.write() as connection:
        expose_asked(connection, skill.id, f"  find 7{ending}", "session")
    found = pool.rows("select prompt from task t join exposure e on e.task_id = t.id order by t.id")
    assert found == [(f"\t find 7{ending}\n",), (f"find 7{ending} ",)]


def test_what_is_asked_is_found_without_reading_every_task(store: Store, skill: Skill) -> None:
    with noted() as read:
        store.tasks.is_held_out(skill.id, "find it")
    [plan] = plans(store.path, read)
    assert "USING INDEX task_by_prompt" in plan
