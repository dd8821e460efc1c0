"""Events: a chain that tells of every change that matters, written with it or not at all, and cheap where it counts."""

import hashlib
import json
from pathlib import Path

import pytest
from children import SKILL

from skillopt_mcp.errors import StoreError
from skillopt_mcp.judges.judging import parse_judge
from skillopt_mcp.records.candidates import Approval
from skillopt_mcp.records.commands import RegisteredCommand
from skillopt_mcp.records.skills import SkillFile, SkillFiles
from skillopt_mcp.records.tasks import NewTask
from skillopt_mcp.splits import EQUAL_SHARES
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.events import KINDS, ROWS, append
from skillopt_mcp.store.integrity import Integrity
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.trajectories import NewTrajectory

EDITED = SkillFiles((SkillFile("SKILL.md", b"edited"),))


def kinds(store: Store) -> list[str]:
    return [event.kind for event in store.events.walk()]


def tasks(*prompts: str) -> list[NewTask]:
    return [NewTask(prompt, parse_judge({"kind": "exact", "expected": "42"})) for prompt in prompts]


def test_each_event_continues_the_one_before_it(store: Store) -> None:
    skill = store.skills.track("s", "/s", SKILL)
    store.permissions.add_root("/")
    store.permissions.grant(skill.id, "a person")
    events = store.events.list_events()
    assert [event.seq for event in events] == [1, 2, 3]
    before = ""
    for event in events:
        told = f"{before}\n{event.seq}\n{event.kind}\n{event.content}"
        assert (event.prev_hash, event.hash) == (before, hashlib.sha256(told.encode()).hexdigest())
        assert event.content == json.dumps(
            json.loads(event.content), ensure_ascii=False, sort_keys=True, separators=(",", ":")
        )
        before = event.hash
    assert store.events.last() == events[-1]


def test_what_happens_is_told_once_and_in_order(store: Store) -> None:
    skill = store.skills.track("s", "/s", SKILL)
    store.skills.track("s", "/s", SKILL)
    store.skills.track("s", "/s", EDITED)
    store.tasks.add_tasks(skill.id, tasks("a", "b"), EQUAL_SHARES)
    store.tasks.add_tasks(skill.id, tasks("a"), EQUAL_SHARES)
    store.permissions.grant(skill.id, "a person")
    store.permissions.revoke(skill.id)
    store.permissions.revoke(skill.id)
    store.commands.register(RegisteredCommand("c", ("/bin/true",), "0" * 64))
    store.commands.remove("c")
    store.commands.remove("c")
    assert kinds(store) == [
        "skill_tracked", "skill_edited", "tasks_added", "permission_set", "permission_withdrawn", "command_registered",
        "command_removed",
    ]  # fmt: skip


def test_an_event_is_undone_with_what_it_records(path: Path) -> None:
    pool = Pool(path)

    def fail() -> None:
        with pool.write() as connection:
            connection.execute("insert into skill_root(path) values ('/')")
            append(connection, "root_added", "/")
            raise ValueError("too late")

    with pytest.raises(ValueError, match="too late"):
        fail()
    assert pool.rows("select * from event") == []
    pool.close()


def test_recording_an_attempt_appends_nothing(store: Store) -> None:
    skill = store.skills.track("s", "/s", SKILL)
    store.trajectories.add_trajectory(skill.id, skill.live_version, NewTrajectory("what?", "42", True, 1.0, "", "[]"))
    assert kinds(store) == ["skill_tracked"]


@pytest.mark.parametrize("sql", ["update event set kind = 'root_added'", "delete from event"])
def test_an_event_is_never_rewritten_or_removed(store: Store, sql: str) -> None:
    store.skills.track("s", "/s", SKILL)
    pool = Pool(store.path)
    with pytest.raises(StoreError, match="an event is never"), pool.write() as connection:
        connection.execute(sql)
    pool.close()
    assert kinds(store) == ["skill_tracked"]


def test_every_kind_says_which_rows_it_stands_for(pool: Pool) -> None:
    assert set(KINDS.values()) <= set(ROWS)
    for table, sql in ROWS.items():
        assert pool.rows(sql, ["[]" if table in ("rotation", "retirement") else 1] * sql.count("?")) == []


def test_what_a_person_agreed_to_is_told_given_and_taken_back(store: Store) -> None:
    skill = store.skills.track("s", "/s", SKILL)
    given = Approval(skill.id, "rollback", SKILL.digest, SKILL.digest, (), "", "a terminal")
    for approval_id in [store.approvals.add_approval(given) for _ in range(2)]:
        store.approvals.drop(skill.id, approval_id)
    assert kinds(store)[1:] == ["approval_given"] * 2 + ["approval_withdrawn"] * 2
    assert list(store.room(Integrity).chain_problems(store.events)) == []


def test_a_promotion_test_that_more_tasks_join_is_told_each_time_it_grows(store: Store) -> None:
    skill = store.skills.track("s", "/s", SKILL)
    for tasks_of_it in ((1, 2), (1, 2, 3), (1, 2)):
        row = ConfirmationRow("t-1", skill.id, "a", "b", 0, 0.0, "x", tasks_of_it, "like_these")
        opened = store.decisions.open_confirmation(row, lambda j, staked: 0.05)
    assert opened.tasks == (1, 2, 3)
    assert kinds(store)[1:] == ["test_opened", "test_widened"]
    assert list(store.room(Integrity).chain_problems(store.events)) == []
