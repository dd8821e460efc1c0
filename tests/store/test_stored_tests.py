"""Promotion tests at rest: their rows are frozen, and `verify` shows what was changed in them by other means."""

from __future__ import annotations

from typing import Any

import pytest
from children import SKILL
from filling import JUDGE, add, change

from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Answer, Scripted
from skillopt_mcp.core.calls import Call, Rollout
from skillopt_mcp.core.candidates import Candidate, NewCandidate, candidate_id
from skillopt_mcp.core.errors import Busy, StoreError
from skillopt_mcp.core.evidence import TestAttempt as Attempt
from skillopt_mcp.core.skills import MAIN_FILE, Skill, SkillFile
from skillopt_mcp.core.tasks import NewTask
from skillopt_mcp.gates.promotion import Plan, alpha_of
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.promotion_tests import NewTest, _release_after, note_answer
from skillopt_mcp.store.promotion_tests import TestRow as StoredTest
from skillopt_mcp.training.promotion_test import Asked, open_test, run_test

EDITED = SKILL.replaced(SkillFile(MAIN_FILE, SKILL.main + b"- Say 42.\n"))


def answer(call: Call) -> Answer:
    """Be right with the candidate alone; one attempt of it has no answer, and one of the base was lost."""
    assert isinstance(call.request, Rollout)
    if "/0/candidate/0" in call.draw:
        return BackendFault("refusal", "no")
    if call.draw.endswith("/1/base/0"):
        return BackendFault("internal", "nobody knows")
    return "42" if call.request.files == EDITED else "41"


@pytest.fixture
def tested(store: Store, skill: Skill) -> str:
    """Return the id of a promotion test that has its verdict, in a store that is sound."""
    add(store, skill, *(NewTask(f"what is {n}?", JUDGE, f"t{n}", split="test") for n in range(10)))
    made = candidate_id(skill.id, SKILL.digest, EDITED.digest)
    candidate = Candidate(made, skill.id, SKILL.digest, EDITED.digest, "host", "")
    store.candidates.add_candidate(NewCandidate(candidate, EDITED))
    tasks = store.tasks.list_tasks(skill.id)
    test = open_test(store, NewTest(skill.id, SKILL.digest, EDITED.digest, "scripted"), tasks, Asked(salt="again"))
    backend = Scripted(answer)
    with Asker(store, {"target": backend}, test.row.id) as ask:
        end = run_test(test, store, ask)
    assert (end.verdict, end.lost.target, end.lost.asked_again) == ("better", 1, 1)
    assert problems(store) == []
    return test.row.id


def problems(store: Store) -> list[str]:
    return [str(each) for each in verify_store(store.path, live=False).problems]


_FROZEN = "promotion_test_is_frozen"
_AT = "where unit = 2 and arm = 'candidate' and number = 0"
_DECIDED = "decision 1 (promotion) does not recompute: the attempts of its test are not those that it was taken on"


@pytest.mark.parametrize(
    ("sql", "trigger", "found"),
    [
        (f"update test_attempt set score = 0.0 {_AT}", "", "attempt 0 of the candidate at unit 2 of test "),
        (f"update test_attempt set score = 0.5 {_AT}", "", "attempt 0 of the candidate at unit 2 of test "),
        (f"update test_attempt set cause = 'target' {_AT}", "", "attempt 0 of the candidate at unit 2 of test "),
        ("update test_attempt set cause = '' where cause <> ''", "", "attempt 0 of the candidate at unit 0 of test "),
        (f"update test_attempt set call_id = 1 {_AT}", "", "attempt 0 of the candidate at unit 2 of test "),
        (f"update test_attempt set cause = 'target', score = 0 {_AT}", "", _DECIDED),
        ("update test_attempt set n_again = 0 where n_again > 0", "", _DECIDED),
        (f"update test_attempt set number = 9 {_AT}", "", _DECIDED),
        (f"delete from test_attempt {_AT}", "", _DECIDED),
        ("delete from test_attempt", "", _DECIDED),
        ("update promotion_test set plan = json_set(plan, '$.passes', 7)", _FROZEN, "promotion_test t-"),
        ("update promotion_test set plan = json_set(plan, '$.salt', 'x')", _FROZEN, "promotion_test t-"),
        ("update promotion_test set tasks = replace(tasks, ',', ', ')", _FROZEN, "promotion_test t-"),
        ("update decision set verdict = 'cant_tell'", "", "decision 1 (promotion) does not recompute: it is cant_tell"),
        ("delete from decision", "", "decision 1 is not what event"),
        (
            "update task set split = 'train' where id = 1",
            "split_is_frozen",
            "task 1 of a promotion test is not held out",
        ),
    ],
)
def test_what_was_changed_in_a_test_by_other_means_is_named(
    store: Store, tested: str, sql: str, trigger: str, found: str
) -> None:
    change(store, sql, trigger)
    assert any(problem.startswith(found) for problem in problems(store)), problems(store)


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("update promotion_test set number = 2", "a promotion test is never rewritten"),
        ("delete from promotion_test", "FOREIGN KEY"),
        ("update test_attempt set test_id = 'x'", "FOREIGN KEY"),
        ("update test_attempt set call_id = 999", "FOREIGN KEY"),
        ("update test_attempt set arm = 'other'", "CHECK"),
        ("update test_attempt set score = 1.5", "CHECK"),
        ("update test_attempt set cause = 'lost'", "CHECK"),
        ("insert into test_attempt select * from test_attempt limit 1", "UNIQUE"),
        ("insert into finish(run_id, test_id) select 'r', id from promotion_test", "FOREIGN KEY"),
    ],
)
def test_the_store_itself_keeps_the_rules_of_tests(store: Store, tested: str, sql: str, rule: str) -> None:
    with pytest.raises(StoreError, match=rule):
        change(store, sql)
    assert problems(store) == []


def test_a_view_shows_what_became_of_each_task(store: Store, tested: str, pool: Pool) -> None:
    rows = pool.rows("select skill, test, unit, base, candidate, gain, n_attempts from test_tasks order by unit")
    assert rows == [
        ("s", tested, 0, 0.0, 0.0, 0.0, 2), *(("s", tested, n, 0.0, 1.0, 1.0, 2) for n in range(1, 10))
    ]  # fmt: skip
    row = store.tests.find(tested)
    assert row is not None
    names = {task.id: task.name for task in store.tasks.list_tasks(row.skill_id)}
    shown = pool.rows("select task from test_tasks order by unit")
    assert [name for [name] in shown] == [names[task_id] for task_id in row.tasks]
    assert pool.rows("select n_promotion_tests from skills") == [(1,)]
    assert pool.rows("select gate, verdict, scope from verdicts") == [("promotion", "better", tested)]
    assert pool.rows("select sum(n_calls) from spend where scope = ?", [tested]) == [(21,)]


def drafted(
    store: Store, skill: Skill, tasks: list[int], backend: str = "a", margin: float | None = None, **plan: Any
) -> StoredTest:
    """Return a new test on these tasks."""
    store.skills.add_version(skill.id, EDITED)

    def draft(test_id: str, number: int) -> tuple[list[int], Plan]:
        names = tuple(map(str, tasks))
        return tasks, Plan(salt=f"salt of {test_id}", units=names, passes=8, number=number, margin=margin, **plan)

    return store.tests.open(NewTest(skill.id, SKILL.digest, EDITED.digest, backend), draft)


def answered(store: Store, *test_ids: str) -> None:
    """Open tests as their first answers would."""
    with Pool(store.path).write() as connection:
        for test_id in test_ids:
            note_answer(connection, test_id)


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("plan = json_set(plan, '$.salt', 'x'), number = 1", "never rewritten"),
        ("tasks = '[]', number = 1", "never rewritten"),
        ("other_id = skill_id, other_version = base_version, number = 1", "never rewritten"),
        ("plan = json_set(plan, '$.passes', 1), number = 1", "never rewritten"),
        ("plan = json_set(plan, '$.kind', json('[1]')), number = 1", "never rewritten"),
        ("release = 1", "never rewritten"),
    ],
)
def test_before_its_first_answer_a_test_takes_its_place_and_changes_in_nothing_else(
    store: Store, skill: Skill, sql: str, rule: str
) -> None:
    add(store, skill, *(NewTask(f"what is {n}?", JUDGE, f"t{n}", split="test") for n in range(10)))
    row = drafted(store, skill, [task.id for task in store.tasks.list_tasks(skill.id)])
    with pytest.raises(StoreError, match=rule):
        change(store, f"update promotion_test set {sql}")
    with pytest.raises(StoreError, match="has its number before its first attempt"):
        change(store, f"insert into test_attempt values ('{row.id}', 0, 'base', 0, 1.0, '', 0, 1)")
    assert problems(store) == []


def test_tests_are_numbered_within_a_release_by_their_first_answers(store: Store, skill: Skill) -> None:
    add(store, skill, *(NewTask(f"what is {n}?", JUDGE, f"t{n}", split="test") for n in range(10)))
    tasks = [task.id for task in store.tasks.list_tasks(skill.id)]
    opened = [drafted(store, skill, tasks, *asked) for asked in (("a", None), ("a", 0.1), ("b", None))]
    opened.append(drafted(store, skill, tasks, "simulated:x"))
    assert [row.number for row in opened] == [1, 0, 1, 1], "before the first answer each is the next one"
    found = store.tests.list_of_skill(skill.id)
    assert [row.id for row in found] == [row.id for row in opened]
    answered(store, *[row.id for row in reversed(opened)])
    found = store.tests.list_of_skill(skill.id)
    assert [(row.number, row.is_open) for row in found] == [(2, True), (0, True), (1, True), (1, True)]
    assert [row.plan.alpha for row in found] == [alpha_of(2), alpha_of(1), alpha_of(1), alpha_of(1)]
    assert [(row.plan.salt, row.tasks) for row in found] == [(row.plan.salt, row.tasks) for row in opened]
    assert store.tests.list_of(skill.id, SKILL.digest, EDITED.digest) == found[::-1]
    assert [event.kind for event in store.events.walk()] == ["test_planned"] * 4 + ["test_opened"] * 4
    answered(store, opened[0].id)
    assert store.tests.list_of_skill(skill.id) == found, "a place in a release is taken once"
    assert problems(store) == []
    store.retirements.retire(skill.id, tasks[:1], "spoiled")
    with pytest.raises(Busy, match="tasks were removed"):
        drafted(store, skill, tasks, "c")
    assert drafted(store, skill, tasks).id == opened[0].id, "what is open already is not opened again"
    assert len(store.tests.list_of_skill(skill.id)) == 4


def test_an_attempt_that_is_stored_stays_as_it_is(store: Store, tested: str) -> None:
    before = store.tests.list_attempts(tested)
    again = [Attempt(each.arm, each.unit, each.number, 1 - each.score, call_id=each.call_id) for each in before]
    store.tests.add_attempts(tested, again, [])
    assert store.tests.list_attempts(tested) == before
    assert store.tests.count_attempts(tested) == len(before) == 20
    scores = store.tests.scores_of(1, EDITED.digest, "scripted")
    assert sorted(map(sum, scores.values())) == [0.0, *[1.0] * 9]
    assert store.tests.scores_of(1, EDITED.digest, "another") == {}


def test_a_kind_of_too_few_units_for_the_place_that_a_test_gets_weighs_no_more(store: Store, skill: Skill) -> None:
    add(store, skill, *(NewTask(f"what is {n}?", JUDGE, f"t{n}", split="test") for n in range(14)))
    tasks = [task.id for task in store.tasks.list_tasks(skill.id)]
    first = drafted(store, skill, tasks)
    second = drafted(store, skill, tasks, "b", kind=tuple(range(6)), tag="priority")
    third = drafted(store, skill, tasks, "c", kind=tuple(range(7)), tag="priority")
    answered(store, first.id, third.id, second.id)
    found = {row.id: (row.number, row.plan.kind) for row in store.tests.list_of_skill(skill.id)}
    assert found == {first.id: (1, ()), third.id: (2, tuple(range(7))), second.id: (3, ())}
    assert problems(store) == []


@pytest.mark.parametrize(
    ("changes", "release"),
    [
        ([], 0),
        ([("promote", "a", "b", 0)], 0),
        ([("promote", "a", "b", 1)], 1),
        ([("promote", "a", "b", 1), ("promote", "b", "c", 0)], 1),
        ([("promote", "a", "b", 1), ("rollback", "b", "a", 0)], 0),
        ([("promote", "a", "b", 1), ("rollback", "b", "a", 0), ("promote", "a", "c", 1)], 2),
        ([("promote", "a", "b", 1), ("rollback", "b", "a", 0), ("rollback", "a", "b", 0)], 1),
        ([("promote", "a", "b", 1), ("promote", "b", "c", 1), ("rollback", "c", "b", 0)], 1),
        ([("promote", "a", "b", 1), ("rollback", "b", "z", 0)], 1),
    ],
)
def test_a_proof_alone_opens_a_release_and_a_rollback_returns_to_that_of_its_text(
    changes: list[tuple[Any, ...]], release: int
) -> None:
    assert _release_after(changes) == release


def test_a_test_that_is_planned_after_another_was_withdrawn_has_an_id_of_its_own(
    store: Store, skill: Skill, tested: str
) -> None:
    tasks, new = store.tasks.list_tasks(skill.id), NewTest(skill.id, SKILL.digest, EDITED.digest, "scripted")
    graded, no_worse = (open_test(store, new, tasks, asked).row.id for asked in (Asked(graded=True), Asked(margin=0.1)))
    assert store.tests.withdraw(graded)
    again = open_test(store, new, tasks, Asked(graded=True)).row.id
    assert [row.id for row in store.tests.list_of_skill(skill.id)] == [tested, no_worse, again]
