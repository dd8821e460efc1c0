"""Integrity: what the digests, the chain and the schema show of a change that was made by other means."""

from pathlib import Path

import pytest
from children import SKILL
from filling import change

from skillopt_mcp.core.candidates import Approval
from skillopt_mcp.core.commands import RegisteredCommand
from skillopt_mcp.core.errors import StoreError
from skillopt_mcp.core.tasks import NewTask
from skillopt_mcp.store.events import append
from skillopt_mcp.store.integrity import Integrity
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.permissions import Permission
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.tasks.splits import DEFAULT_SHARES


def kinds(store: Store) -> list[str]:
    return [event.kind for event in store.events.walk()]


def problems(store: Store) -> list[str]:
    integrity = store.table(Integrity)
    found = [*integrity.check_file(), *integrity.check_schema(), *integrity.check_digests()]
    return [str(each) for each in [*found, *integrity.check_chain(store.events)]]


@pytest.fixture
def full(store: Store) -> Store:
    """Return a store with a task and three events: two skill roots, and a permission."""
    skill = store.skills.track("s", "/s", SKILL)
    store.tasks.add_tasks(
        skill.id, [NewTask("what?", parse_judge({"kind": "exact", "expected": "42"}))], DEFAULT_SHARES
    )
    for root in ("/", "/etc"):
        store.permissions.add_root(root)
    store.permissions.set_permission(skill.id, Permission("a person"))
    assert problems(store) == []
    return store


@pytest.mark.parametrize(
    ("sql", "trigger", "found"),
    [
        ("update task set digest = 'x'", "", "task 1 is not what its digest names"),
        ("update skill_root set path = '/x' where path = '/'", "", "skill_root / is not what event 1 (root_added)"),
        ("update permission set simulated = 1", "", "permission 1 is not what event 3 (permission_set) recorded"),
        ("insert into skill_root(path) values ('/x')", "", "skill_root /x has no event"),
        ("drop index call_by_scope", "", "the schema differs in index 'call_by_scope'"),
        ("create table other(a)", "", "the schema differs in table 'other'"),
        ("update blob set content = x'00'", "blob_is_never_rewritten", "the content "),
        ("update version_file set path = 'x'", "version_file_is_never_rewritten", "the files of version "),
        ("update task set files = '[ ]'", "task_is_frozen", "task 1 is not what its digest names"),
        ("update event set key = 'x' where seq = 1", "event_is_never_rewritten", "event 1 (root_added)"),
        ("delete from event where seq = 2", "event_is_never_removed", "event 3 (permission_set) does not follow"),
        ("delete from event where seq = 3", "event_is_never_removed", "permission 1 has no event"),
    ],
)
def test_a_row_that_was_changed_by_other_means_is_named(full: Store, sql: str, trigger: str, found: str) -> None:
    pool = Pool(full.path)
    if trigger:
        with pytest.raises(StoreError, match="never"), pool.write() as connection:
            connection.execute(sql)
    pool.close()
    change(full, sql, trigger)
    assert any(problem.startswith(found) for problem in problems(full)), problems(full)


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


def test_consents_are_recorded_once_and_in_order(store: Store) -> None:
    skill = store.skills.track("s", "/s", SKILL)
    store.permissions.set_permission(skill.id, Permission("a person"))
    for _ in range(2):
        store.permissions.set_permission(skill.id, None)
    store.commands.register(RegisteredCommand("c", ("/bin/true",), "0" * 64))
    for _ in range(2):
        store.commands.remove("c")
    given = Approval(skill.id, "rollback", SKILL.digest, SKILL.digest, (), "", "a terminal")
    for approval_id in [store.approvals.add_approval(given) for _ in range(2)]:
        store.approvals.drop(skill.id, approval_id)
    assert kinds(store) == [
        "permission_set", "permission_withdrawn", "command_registered", "command_removed", "approval_given",
        "approval_given", "approval_withdrawn", "approval_withdrawn",
    ]  # fmt: skip
    assert problems(store) == []
