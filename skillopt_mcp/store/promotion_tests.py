"""Promotion tests at rest: what is fixed when one opens, and its attempts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from skillopt_mcp.core.calls import ALSO, CONFIGURATION
from skillopt_mcp.core.errors import Busy
from skillopt_mcp.core.evidence import Arm, TestAttempt, Trial, Unanswered
from skillopt_mcp.core.skills import DocumentVersion
from skillopt_mcp.gates.promotion import Plan
from skillopt_mcp.store.candidates import insert_trials
from skillopt_mcp.store.events import append
from skillopt_mcp.store.pending import IS_SIMULATED, SIMULATED
from skillopt_mcp.store.pool import Connection, Pool, Row, Value

_TEST = (
    "select id, skill_id, base_version, version_id, release, number, backend, tasks, plan, created_at, series,"
    " other_id, other_version from promotion_test"
)
# A target that can open a skill says in its first message whether it did.
_OPENED = 'case when r.messages glob \'[[][[]"skill",*\' then r.messages glob \'[[][[]"skill","opened",*\' end'
_UNDECIDED = (
    f"{_TEST} where skill_id = ? and base_version = ? and version_id = ? and backend = ? and series = ?"
    " and other_id is ? and other_version is ? and not exists (select 1 from decision where scope = promotion_test.id)"
)
# What changed a skill, the oldest first, and whether a proven gain did: for real models, what they proved.
_CHANGES = (
    "select kind, from_version, to_version, exists (select 1 from decision where decision.skill_id = p.skill_id"
    " and base_version = p.from_version and version_id = p.to_version and p.verdict = 'better'"
    f" and verdict = 'better' and ({SIMULATED.format('?2')} or not {IS_SIMULATED}))"
    " from promotion p where skill_id = ?1 and state = 'done' order by id"
)
# Those of real models and those of simulations are apart: neither takes of the other's budget.
_LAST_NUMBER = (
    "select coalesce(max(number), 0) from promotion_test where skill_id = ?1 and release = ?2 and series = ?4"
    # Where the skill was never opened nothing was compared, and nothing is used up.
    " and not exists (select 1 from decision where scope = promotion_test.id and verdict = 'not_tested')"
    f" and {SIMULATED.format('backend')} = {SIMULATED.format('?3')}"
)


@dataclass(frozen=True, slots=True)
class NewTest:
    """A promotion test before it opens: its arms, the backend's name as evidence, and the other document of the run.

    Tests of a `series` are numbered apart.
    """

    skill_id: int
    base_version: str
    version_id: str
    backend: str
    other: DocumentVersion | None = None
    series: str = ""


@dataclass(frozen=True, slots=True)
class TestRow:
    """A promotion test: the `number`-th of its release; `tasks` are one per unit, in order.

    Of a run with two documents it is of one, and all its attempts see a version of the `other`, too.
    One that is in rounds is outside the budget of a release: its number is 0. Until a test `is_open`, by its first
    answer, release and number are those that it would have now.
    """

    id: str
    skill_id: int
    base_version: str
    version_id: str
    release: int
    number: int
    backend: str
    tasks: tuple[int, ...]
    plan: Plan
    created_at: str = ""
    is_open: bool = False
    other: DocumentVersion | None = None
    series: str = ""


class TestAnswer(NamedTuple):
    """The answer of one attempt of a test, its score, and what the judge said of it."""

    unit: int
    arm: Arm
    score: float
    text: str
    comment: str


Rows = Callable[[str, list[Value]], list[Row]]
Draft = Callable[[str, int], tuple[Sequence[int], Plan]]
"""Given a test's id and its number, returns the tasks of its units, and its plan."""


class PromotionTests:
    """Tables promotion_test and test_attempt."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def open(self, new: NewTest, draft: Draft) -> TestRow:
        """Store a new promotion test: its tasks, order and plan. Its first answer gives it its place in a release.

        Where another process has just opened the same, it is that one. Raises Busy when one of its tasks was removed
        meanwhile.
        """
        other = new.other or (None, None)
        undecided = [new.skill_id, new.base_version, new.version_id, new.backend, new.series, *other]
        with self._pool.write() as connection:
            row = self._draft_row(lambda sql, values: connection.execute(sql, values).fetchall(), new, draft)
            for found in connection.execute(_UNDECIDED, undecided).fetchall():
                there = self._read(found)
                if there.plan.question == row.plan.question:
                    return there
            sql = "select 1 from retirement where task_id in (select value from json_each(?))"
            if connection.execute(sql, [json.dumps(row.tasks)]).fetchone():
                raise Busy("tasks were removed just when the promotion test was to open: call again")
            connection.execute(
                "insert into promotion_test(id, skill_id, base_version, version_id, release, backend,"
                " tasks, plan, series, other_id, other_version) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [row.id, row.skill_id, row.base_version, row.version_id, row.release, row.backend,
                 json.dumps(row.tasks), row.plan.model_dump_json(exclude_defaults=True), new.series, *other],
            )  # fmt: skip
            append(connection, "test_planned", row.id)
        return row

    def withdraw(self, test_id: str) -> bool:
        """Forget a test that was planned, and neither answered nor reached by a run; return whether it was one."""
        with self._pool.write() as connection:
            where = "id = ? and number is null and not exists (select 1 from finish where test_id = id)"
            if gone := connection.execute(f"delete from promotion_test where {where}", [test_id]).rowcount:
                append(connection, "test_withdrawn", test_id)
        return gone > 0

    def foresee(self, new: NewTest, draft: Draft) -> TestRow:
        """Return the promotion test that `open` would open now; nothing is stored."""
        return self._draft_row(self._pool.rows, new, draft)

    def _draft_row(self, rows: Rows, new: NewTest, draft: Draft) -> TestRow:
        release, number = _find_place(rows, new)
        names = (
            f"{new.skill_id}:{new.base_version}:{new.version_id}:{n}"
            for n in count(rows("select count(*) from promotion_test", [])[0][0])
        )
        ids = (f"t-{hashlib.sha256(name.encode()).hexdigest()[:12]}" for name in names)
        # Where a test was withdrawn, the count is that of a later one.
        test_id = next(id for id in ids if not rows("select 1 from promotion_test where id = ?", [id]))
        tasks, plan = draft(test_id, number)
        return TestRow(
            test_id, new.skill_id, new.base_version, new.version_id, release, 0 if plan.in_rounds else plan.number,
            new.backend, tuple(tasks), plan, other=new.other, series=new.series,
        )  # fmt: skip

    def find(self, test_id: str) -> TestRow | None:
        """Return a promotion test by its id, or None."""
        row = self._pool.row(f"{_TEST} where id = ?", [test_id])
        return self._read(row) if row else None

    def _read(self, row: Row) -> TestRow:
        test = _read_row(row)
        return test if test.is_open else _place_test(self._pool.rows, test)

    def list_of_skill(self, skill_id: int) -> list[TestRow]:
        """Return the promotion tests of a skill, in the order in which they were opened."""
        return [self._read(row) for row in self._pool.rows(f"{_TEST} where skill_id = ? order by rowid", [skill_id])]

    def list_of(self, skill_id: int, base_version: str, version_id: str) -> list[TestRow]:
        """Return the promotion tests of a version against a base, newest first."""
        where = "where skill_id = ? and base_version = ? and version_id = ? order by rowid desc"
        return [self._read(row) for row in self._pool.rows(f"{_TEST} {where}", [skill_id, base_version, version_id])]

    def promotions_on(self, tasks: Iterable[int]) -> int:
        """Return how many promotions rest on tests of any of these tasks: their later tests have less power."""
        sql = (
            "select count(*) from promotion p where p.kind = 'promote' and p.state = 'done' and exists ("
            " select 1 from promotion_test t, json_each(t.tasks) drawn where t.skill_id = p.skill_id"
            " and t.base_version = p.from_version and t.version_id = p.to_version"
            " and drawn.value in (select value from json_each(?)))"
        )
        return self._pool.number(sql, [json.dumps(list(tasks))])

    def scores_of(
        self, skill_id: int, version: str, backend: str, *, graded: bool = False, other: DocumentVersion | None = None
    ) -> dict[int, list[float]]:
        """Return the scores of a version's attempts in its baseline and in earlier tests with a backend, by task.

        They are passes, or soft scores of `graded` tests; what was lost for an unknown cause says nothing.
        """
        of_baseline = self.scores_in_baseline(baseline_id(skill_id, version, backend), graded=graded)
        found = {} if other else of_baseline
        rows = self._pool.rows(
            "select json_extract(t.tasks, '$[' || a.unit || ']'), a.score from promotion_test t"
            " join test_attempt a on a.test_id = t.id"
            " where t.skill_id = ?1 and t.backend = ?3 and a.cause <> 'bounded'"
            " and t.other_id is ?5 and t.other_version is ?6"
            " and coalesce(json_extract(t.plan, '$.graded'), 0) = ?4"
            " and ?2 = case a.arm when 'base' then t.base_version else t.version_id end"
            " order by t.rowid, a.unit, a.number",
            [skill_id, version, backend, int(graded), *(other or (None, None))],
        )
        for task_id, score in rows:
            found.setdefault(task_id, []).append(score)
        return found

    def scores_in_baseline(self, scope: str, *, graded: bool = False) -> dict[int, list[float]]:
        """The scores of a baseline's attempts by task: passes, or soft scores."""
        rows = self._pool.rows(
            "select t.task_id, iif(?2, t.soft, t.hard) from call c join trial t on t.call_id = c.id"
            " where c.scope = ?1 order by t.id",
            [scope, int(graded)],
        )
        found: dict[int, list[float]] = {}
        for task_id, score in rows:
            found.setdefault(task_id, []).append(float(score))
        return found

    def list_baselines(self, skill_id: int) -> dict[str, tuple[str, str, dict[int, list[float]]]]:
        """The baselines of a skill by their scopes, the oldest first: version, last answer's time, passes by task."""
        rows = self._pool.rows(
            "select c.scope, t.version_id, strftime('%Y-%m-%dT%H:%M:%SZ', r.answered_at, 'unixepoch'), t.task_id,"
            " t.hard from call c join reply r on r.call_id = c.id join trial t on t.call_id = c.id join task k"
            " on k.id = t.task_id where c.scope >= 'b-' and c.scope < 'b.' and k.skill_id = ? and t.hard is not null"
            " order by r.answered_at, t.id",
            [skill_id],
        )
        found: dict[str, tuple[str, str, dict[int, list[float]]]] = {}
        for scope, version, at, task_id, passed in rows:
            scores = found[scope][2] if scope in found else {}
            scores.setdefault(task_id, []).append(float(passed))
            found[scope] = (version, at, scores)
        return dict(sorted(found.items(), key=lambda each: each[1][1]))

    def add_baseline(self, trials: Sequence[Trial]) -> None:
        """Store the attempts of a baseline; one that is there stays as it is."""
        with self._pool.write() as connection:
            insert_trials(connection, trials)

    def is_ever_opened(self, skill_id: int, version: str, backend: str) -> bool:
        """Whether an attempt of a version in any test with a backend opened the skill."""
        sql = (
            "select count(*) from promotion_test t join test_attempt a on a.test_id = t.id"
            f" join reply r on r.call_id = a.call_id where t.skill_id = ? and t.backend = ? and {_OPENED}"
            " and ? = case a.arm when 'base' then t.base_version else t.version_id end"
        )
        return self._pool.number(sql, [skill_id, backend, version]) > 0

    def add_attempts(self, test_id: str, attempts: Sequence[TestAttempt], trials: Sequence[Trial]) -> None:
        """Store attempts of a test with the trials they come from; one that is there stays as it is."""
        with self._pool.write() as connection:
            if attempts:  # of which all may have been lost
                note_answer(connection, test_id)
            insert_trials(connection, trials)
            connection.executemany(
                "insert into test_attempt(test_id, unit, arm, number, score, cause, n_again, call_id)"
                " values (?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing",
                [
                    (test_id, each.unit, each.arm, each.number, each.score, each.cause, each.n_again, each.call_id)
                    for each in attempts
                ],
            )

    def count_strayed(self, row: TestRow) -> int:
        """Return how many attempts of a test have another score than the trial that they are."""
        sql = (
            f"select count(*) from test_attempt a join trial t on t.call_id = a.call_id"
            f" where a.test_id = ? and a.cause = '' and a.score <> t.{'soft' if row.plan.graded else 'hard'}"
        )
        return self._pool.number(sql, [row.id])

    def list_attempts(self, test_id: str) -> list[TestAttempt]:
        """Return the attempts of a test, by unit, arm and number."""
        rows = self._pool.rows(
            "select a.arm, a.unit, a.number, a.score, a.cause, a.n_again, a.call_id, s.name, r.answered_at,"
            f" {_OPENED}"
            " from test_attempt a left join reply r on r.call_id = a.call_id left join served s on s.id = r.served"
            " where a.test_id = ? order by a.unit, a.arm, a.number",
            [test_id],
        )
        return [
            TestAttempt(arm, unit, number, score, cause, n_again, call_id,
                        tuple(name.partition(f"/{CONFIGURATION}")[0] for name in (served or "").split(ALSO) if name),
                        at, None if opened is None else bool(opened))
            for arm, unit, number, score, cause, n_again, call_id, served, at, opened in rows
        ]  # fmt: skip

    def list_answers(self, test_id: str, units: Iterable[int], n_characters: int) -> list[TestAnswer]:
        """Return what was answered at some units of a test, as far as so many characters, and what the judge said."""
        rows = self._pool.rows(
            "select a.unit, a.arm, a.score, substr(coalesce(r.text, ''), 1, ?3),"
            " substr(coalesce((select reason from trial where call_id = a.call_id), nullif(a.cause, ''), ''), 1, ?3)"
            " from test_attempt a left join reply r on r.call_id = a.call_id"
            " where a.test_id = ?1 and a.unit in (select value from json_each(?2)) order by a.unit, a.arm, a.number",
            [test_id, json.dumps(list(units)), n_characters],
        )
        return [TestAnswer(*row) for row in rows]

    def list_unanswered(self, test_id: str) -> list[Unanswered]:
        """The attempts of a test that failed without an answer, by fault, the most frequent first."""
        rows = self._pool.rows(
            "select r.fault, sum(a.arm = 'base'), sum(a.arm = 'candidate'), max(r.text) from test_attempt a"
            " join reply r on r.call_id = a.call_id where a.test_id = ? and a.cause = 'target'"
            " group by 1 order by count(*) desc, 1",
            [test_id],
        )
        return [
            Unanswered(fault=str(fault), base=base, candidate=candidate, reason=str(text)[:300])
            for fault, base, candidate, text in rows
        ]

    def count_attempts(self, test_id: str) -> int:
        """Return how many attempts of a test are stored."""
        return self._pool.number("select count(*) from test_attempt where test_id = ?", [test_id])


def baseline_id(skill_id: int, version: str, backend: str) -> str:
    """The scope of the attempts of a version's baseline with a backend."""
    return f"b-{hashlib.sha256(f'{skill_id}/{version}/{backend}'.encode()).hexdigest()[:12]}"


def note_answer(connection: Connection, test_id: str) -> None:
    """Open a promotion test with its first answer, in the caller's transaction: it takes its place in the release."""
    row = connection.execute(f"{_TEST} where id = ? and number is null", [test_id]).fetchone()
    if row:
        test = _place_test(lambda sql, values: connection.execute(sql, values).fetchall(), _read_row(row))
        connection.execute(
            "update promotion_test set release = ?, number = ?, plan = ? where id = ?",
            [test.release, test.number, test.plan.model_dump_json(exclude_defaults=True), test_id],
        )
        append(connection, "test_opened", test_id)


def _find_place(rows: Rows, test: NewTest | TestRow) -> tuple[int, int]:
    """The present release of a skill, and the number of the next test of a series that opens in it."""
    release = _release_after(rows(_CHANGES, [test.skill_id, test.backend]))
    return release, rows(_LAST_NUMBER, [test.skill_id, release, test.backend, test.series])[0][0] + 1


def _place_test(rows: Rows, test: TestRow) -> TestRow:
    release, number = _find_place(rows, test)
    if test.plan.in_rounds:
        return replace(test, release=release)
    if test.series:  # a plan may know of tests that this store does not have
        number = max(number, test.plan.number)
    return replace(test, release=release, number=number, plan=test.plan.numbered(number))


def _release_after(changes: Iterable[Row]) -> int:
    """The release after these changes: a proven promotion opens the next one, a rollback goes back to that of its text.

    Whatever else changes a skill stays in the release, so that nothing but a proof gives budget back.
    """
    release, n_proven, releases = 0, 0, dict[object, int]()
    for kind, before, after, is_proven in changes:
        releases.setdefault(before, release)
        if kind == "rollback":
            release = releases.get(after, release)
        elif is_proven:
            release = n_proven = n_proven + 1
        releases[after] = release
    return release


def _read_row(row: Row) -> TestRow:
    test_id, skill_id, base, version, release, number, backend, tasks, plan, created_at, series, *other = row
    return TestRow(
        test_id, skill_id, base, version, release, number or 0, backend, tuple(json.loads(tasks)),
        Plan.model_validate_json(plan), created_at, number is not None,
        None if other[0] is None else DocumentVersion(*other), series,
    )  # fmt: skip
