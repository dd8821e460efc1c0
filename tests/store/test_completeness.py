"""Completeness: what is gone is told by its number, and nothing that the program does leaves a hole."""

from __future__ import annotations

import pytest
from filling import add, record

from skillopt_mcp.errors import StoreError
from skillopt_mcp.judges.specs import parse_judge
from skillopt_mcp.records.budgets import NO_CAPS, Cost, Spent
from skillopt_mcp.records.calls import Call, Question, Reply, Usage
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.records.tasks import NewTask
from skillopt_mcp.store.budgets import Bill
from skillopt_mcp.store.calls import Calls, Claim, Settlement
from skillopt_mcp.store.completeness import Completeness
from skillopt_mcp.store.failing import Attempt
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.trajectories import NewTrajectory


def problems(store: Store) -> list[str]:
    return list(store.room(Completeness).problems())


def attempt(n: int) -> NewTrajectory:
    return NewTrajectory(f"task {n}", "a", False, 0.0, "", "[]", "s", n)


def change(store: Store, *statements: str) -> None:
    with store._pool.write() as connection:
        for sql in statements:
            connection.execute(sql)


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        ((1,), ["row 1 is gone"]),
        ((3,), ["row 3 is gone"]),
        ((1, 2, 5, 6, 7), ["rows 1 to 2 are gone", "rows 5 to 7 are gone"]),
        ((9,), []),
    ],
)
def test_rows_that_are_gone_are_told_by_their_numbers_but_for_the_last(
    store: Store, skill: Skill, gone: tuple[int, ...], told: list[str]
) -> None:
    for n in range(9):
        record(store, skill, attempt(n))
    assert problems(store) == []
    change(store, *(f"delete from trajectory where id = {each}" for each in gone))
    assert problems(store) == [f"table trajectory: {each}" for each in told]


def test_an_attempt_that_is_recorded_twice_or_rolled_back_leaves_no_hole(store: Store, skill: Skill) -> None:
    for n in (0, 1, 1, 0, 2):
        record(store, skill, attempt(n))
    made = "insert into trajectory(skill_id, version_id, prompt, answer, reason, messages) values"
    with pytest.raises(StoreError, match="no such table"):
        change(store, f"{made} (1, '{skill.live_version}', '', '', '', '[]')", "delete from nowhere")
    record(store, skill, attempt(3))
    assert problems(store) == []
    assert store.trajectories.count_trajectories(skill.id) == (4, 4)


def call(n: int) -> tuple[bytes, Call]:
    return bytes([n]), Call("target", "rollout", Question("q", "e", str(n)), f"1/{n}")


def claimed(calls: Calls, owner: str, *numbers: int) -> list[Claim]:
    bill = Bill("r", NO_CAPS, Spent(), [Cost(1, 0, 0)] * len(numbers))
    return list(calls.settle(Settlement([], [], 0, [call(n) for n in numbers], "r", owner, bill)).claims)


def test_calls_that_another_process_claimed_and_replies_that_are_late_are_no_fault(store: Store) -> None:
    claimed(store.calls, "one", 1, 3)
    mine = claimed(store.calls, "other", 1, 2, 3, 4)
    assert [claim.owner for claim in mine] == ["one", "other", "one", "other"]
    assert [row[0] for row in store._pool.rows("select id from call order by id")] != [1, 2, 3, 4]
    failed = [Attempt(claim.id, "server", "x") for claim in mine]
    for _ in range(2):
        replies = [Reply("said", (), Usage(1, 2, 0, 3), id=claim.id) for claim in mine]
        store.calls.settle(Settlement(replies, failed, 0, [], "r", "other", Bill("r", NO_CAPS, Spent(1), [])))
    assert problems(store) == []


def test_the_reply_behind_a_score_and_what_a_run_has_used_are_missed(store: Store, skill: Skill, pool: Pool) -> None:
    add(store, skill, NewTask("what?", parse_judge({"kind": "exact", "expected": "42"})))
    [claim] = claimed(store.calls, "one", 1)
    answered = Reply("42", (), Usage(1, 2, 0, 3), id=claim.id)
    store.calls.settle(Settlement([answered], [], 0, [], "r", "one", Bill("r", NO_CAPS, Spent(), [])))
    change(
        store,
        "insert into trial(scope, version_id, task_id, draw, call_id, hard, soft, reason)"
        f" values ('r', '{skill.live_version}', 1, '1/1', {claim.id}, 1, 1, '')",
    )
    assert problems(store) == []
    change(store, "delete from reply", "delete from budget")
    assert problems(store) == [
        "table reply: the reply to call 1 is gone, on which trial 1 rests", "table budget: what r has used is gone"
    ]  # fmt: skip


def test_what_was_asked_before_there_were_budgets_needs_none(store: Store) -> None:
    claimed(store.calls, "one", 1)
    change(store, "delete from budget", "update call set sum = null")
    assert problems(store) == []
