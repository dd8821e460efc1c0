"""Sessions: who proposed or saw a candidate, and who answered its test, cannot be rewritten without a trace."""

import pytest
from children import SKILL

from skillopt_mcp.core.budgets import NO_CAPS
from skillopt_mcp.core.calls import Reply
from skillopt_mcp.core.candidates import Candidate, NewCandidate
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.gates.promotion import Plan
from skillopt_mcp.store.integrity import Integrity
from skillopt_mcp.store.leases import Offer, Term
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.promotion_tests import NewTest

EDITED = SkillFiles((SkillFile("SKILL.md", b"# Skill\n- Be exact, always.\n"),))


@pytest.fixture
def answered(store: Store) -> Store:
    """Return a store with a test of a candidate that two sessions saw, and answered in two and one attempts."""
    skill = store.skills.track("s", "/s", SKILL)
    made = Candidate("c-1", skill.id, SKILL.digest, EDITED.digest, "host", "why", ("a new hook",))
    store.candidates.add_candidate(NewCandidate(made, EDITED, []))
    new = NewTest(skill.id, SKILL.digest, EDITED.digest, "host")
    test = store.tests.open(new, lambda _id, _n: ([], Plan(salt="00", units=tuple("abcdefgh"), passes=8)))
    with Pool(store.path).write() as connection:
        for n in range(3):
            sql = "insert into call(key, scope, role, stage, draw, owner) values (?, ?, 'target', 'test', ?, 'o')"
            connection.execute(sql, [bytes([n]), test.id, str(n)])
    for session in ("author", "author", "other"):
        store.candidates.note_seen("c-1", session)
    for n, session in enumerate(("author", "author", "fresh")):
        store.leases.take([Offer(f"w-{n}", n + 1, None)], Term(test.id, session, 0.0, 9.0), NO_CAPS)
        assert store.leases.answer(f"w-{n}", Reply("42", id=n + 1), session) == "accepted"
    kinds = [event.kind for event in store.events.walk()]
    assert kinds == [
        "candidate_made",
        "test_planned",
        "candidate_seen",
        "candidate_seen",
        "test_opened",
        "test_answered",
        "test_answered",
    ]
    assert problems(store) == []
    return store


def problems(store: Store) -> list[str]:
    return [str(each) for each in store.table(Integrity).check_chain(store.events)]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("update lease set session = 'nobody' where session = 'author'", "lease t-"),
        ("update lease set session = 'author' where session = 'fresh'", "lease t-"),
        ("update lease set session = 'nobody' where id = 'w-0'", "lease t-"),
        ("update lease set state = 'failed' where session = 'fresh'", "lease t-"),
        ("update candidate set findings = '[]'", "candidate c-1"),
        ("delete from lease where session = 'author'", "lease t-"),
        ("delete from candidate_session where session = 'author'", "candidate_session c-1"),
        ("delete from candidate_session", "candidate_session c-1"),
        ("insert into candidate_session values ('c-1', 'x')", "candidate_session c-1"),
    ],
)
def test_a_session_that_is_rewritten_or_removed_is_named(answered: Store, sql: str, found: str) -> None:
    with Pool(answered.path).write() as connection:
        connection.execute(sql)
    [problem] = problems(answered)
    assert problem.startswith(found)
    assert "is not what event" in problem


def test_sessions_without_an_event_are_named(answered: Store) -> None:
    with Pool(answered.path).write() as connection:
        rules = connection.execute("select name, sql from sqlite_schema where name like 'event_is%'").fetchall()
        for name, _ in rules:
            connection.execute(f"drop trigger {name}")
        connection.execute("delete from event where seq > 2")
        for _, sql in rules:
            connection.execute(sql)
    assert {each.partition(" ")[0] for each in problems(answered)} == {"candidate_session", "lease", "promotion_test"}
