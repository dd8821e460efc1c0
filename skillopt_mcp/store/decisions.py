"""Decisions at rest: the verdicts of gates, and the promotion tests with their pairs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from skillopt_mcp.errors import Busy
from skillopt_mcp.gates.confirm import Restarts
from skillopt_mcp.gates.recompute import PERSON, PersonInputs, PersonVerdict
from skillopt_mcp.records.candidates import Approval, Decision, PromotionKind, candidate_id
from skillopt_mcp.records.evidence import Claim, Pair, Trial
from skillopt_mcp.store.candidates import insert_trials
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.events import append
from skillopt_mcp.store.pool import Pool, Row
from skillopt_mcp.store.skills import KIN

_DECISION = "select skill_id, gate, base_version, version_id, scope, verdict, reason, inputs from decision"
_CONFIRMATION = "select id, skill_id, base_version, version_id, j, alpha, backend, tasks, claim, rule from confirmation"
# Whether a simulation or a script attempted or judged: `operations.testing.evaluating.is_simulated`, for a column.
_SIMULATED = "(' judged by ' || {0} glob '* judged by simulated*' or ' judged by ' || {0} glob '* judged by scripted*')"
IS_SIMULATED = f"exists (select 1 from confirmation c where c.id = decision.scope and {_SIMULATED.format('c.backend')})"
# Those of real models and those of simulations are two lives of a skill, each with the whole error budget.
_OF_ITS_KIND = (
    f"confirmation.skill_id in ({KIN}) and {_SIMULATED.format('confirmation.backend')} = {_SIMULATED.format('?2')}"
)
_STAKED = f"select count(*), total(alpha) from confirmation where {_OF_ITS_KIND}"
_N_PAIRS = "select count(*) from pair where confirmation_id = ?"
_N_TESTS = f"select count(*) from confirmation where skill_id in ({KIN})"


@dataclass(frozen=True, slots=True)
class ConfirmationRow:
    """One promotion test: the `j`-th of its skill and its kin, at its own share `alpha` of the lifetime error budget.

    `tasks` are those it draws from, in order; under the claim `like_these` each once. `rule` is what it asks of its
    pairs (json), None where it was opened before that was kept.
    """

    id: str
    skill_id: int
    base_version: str
    version_id: str
    j: int
    alpha: float
    backend: str
    tasks: tuple[int, ...]
    claim: Claim = "these"
    rule: str | None = None


class Late(NamedTuple):
    """The tasks that joined a promotion test in its course: how many, and after how many pairs the first did."""

    n: int
    n_pairs: int


class Decisions:
    """Tables confirmation, pair and decision."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def open_confirmation(self, new: ConfirmationRow, alpha_for: Callable[[int, float], float]) -> ConfirmationRow:
        """Return the promotion test of this base, candidate and backend, opened as the skill's next one if it is new.

        `j` and `alpha` of `new` are ignored: they come from the count of tests opened, and from `alpha_for`, which is
        given what `staked` returns, and this one counted. A test that is there keeps its claim, its rule and its tasks;
        under `like_these` those of `new` join them at the end. Raises Busy when a task of a new test is retired.
        """
        identity = [new.skill_id, new.base_version, new.version_id, new.backend]
        where = "where skill_id = ? and base_version = ? and version_id = ? and backend = ?"
        with self._pool.write() as connection:
            row = connection.execute(f"{_CONFIRMATION} {where}", identity).fetchone()
            if row is None:
                _check_in_use(connection, new.tasks)
                [n_before] = connection.execute(_N_TESTS, [new.skill_id]).fetchone()
                n, staked = connection.execute(_STAKED, [new.skill_id, new.backend]).fetchone()
                connection.execute(
                    "insert into confirmation(id, skill_id, base_version, version_id, j, alpha, backend, tasks, claim,"
                    " rule) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    [new.id, new.skill_id, new.base_version, new.version_id, n_before + 1,
                     alpha_for(n + 1, staked),
                     new.backend, json.dumps(new.tasks), new.claim, new.rule],
                )  # fmt: skip
                append(connection, "test_opened", new.id)
                row = connection.execute(f"{_CONFIRMATION} {where}", identity).fetchone()
            found = _confirmation(row)
            known = set(found.tasks)
            if found.claim == "like_these" and not set(new.tasks) <= known:
                found = replace(found, tasks=tuple(dict.fromkeys(found.tasks + new.tasks)))
                [n_pairs] = connection.execute(_N_PAIRS, [found.id]).fetchone()
                connection.execute(
                    "update confirmation set tasks = ?, joined = json_insert(joined, '$[#]', json_array(?, ?))"
                    " where id = ?",
                    [json.dumps(found.tasks), len(set(new.tasks) - known), n_pairs, found.id],
                )
                append(connection, "test_widened", found.id)
        return found

    def staked(self, skill_id: int, backend: str) -> tuple[int, float]:
        """Return how many promotion tests of a skill and its kin were opened, and the sum of their error rates.

        Kin are the skills that share a version with it, or with its kin: a folder that was renamed or copied. Those of
        real models count where `backend` is one, those of simulations where it is one: see `is_simulated`.
        """
        n, staked = cast(tuple[int, float], self._pool.row(_STAKED, [skill_id, backend]))
        return n, staked

    def count_tests(self, skill_id: int) -> int:
        """Return how many promotion tests of a skill and its kin were opened, of real models and of simulations."""
        return self._pool.number(_N_TESTS, [skill_id])

    def list_confirmations(self, skill_id: int, base_version: str, version_id: str) -> list[ConfirmationRow]:
        """Return the promotion tests of a candidate against a base, newest first."""
        rows = self._pool.rows(
            f"{_CONFIRMATION} where skill_id = ? and base_version = ? and version_id = ? order by j desc",
            [skill_id, base_version, version_id],
        )
        return [_confirmation(row) for row in rows]

    def find_confirmation(self, confirmation_id: str) -> ConfirmationRow | None:
        """Return a promotion test by its id, or None."""
        row = self._pool.row(f"{_CONFIRMATION} where id = ?", [confirmation_id])
        return _confirmation(row) if row else None

    def list_tests(self, skill_id: int) -> list[ConfirmationRow]:
        """Return every promotion test of a skill, in the order in which they were opened."""
        return [
            _confirmation(row) for row in self._pool.rows(f"{_CONFIRMATION} where skill_id = ? order by j", [skill_id])
        ]

    def add_pairs(
        self, confirmation_id: str, first: int, pairs: Sequence[tuple[int, Pair]], trials: Sequence[Trial]
    ) -> None:
        """Store pairs (task id, scores) numbered from `first`, with the trials they were made of."""
        with self._pool.write() as connection:
            insert_trials(connection, trials)
            connection.executemany(
                "insert into pair(confirmation_id, n, task_id, base, candidate) values (?, ?, ?, ?, ?)"
                " on conflict do nothing",
                [
                    (confirmation_id, first + i, task_id, pair.base, pair.candidate)
                    for i, (task_id, pair) in enumerate(pairs)
                ],
            )

    def list_pairs(self, confirmation_id: str) -> list[Pair]:
        """Return the pairs of a promotion test, in drawn order."""
        rows = self._pool.rows(
            "select base, candidate from pair where confirmation_id = ? order by n", [confirmation_id]
        )
        return [Pair(cast(float | None, base), cast(float | None, candidate)) for base, candidate in rows]

    def list_restarts(self, row: ConfirmationRow) -> dict[int, Restarts]:
        """Return how often the attempts of a test's pairs were claimed again, by pair number, where they were."""
        rows = self._pool.rows(
            "select c.draw, t.version_id, c.n_claims - 1 from call c join trial t on t.call_id = c.id"
            " where c.scope = ? and c.n_claims > 1",
            [row.id],
        )
        found: dict[int, Restarts] = {}
        for draw, version, times in rows:
            # The name of the test, the number of the pair, and which try it was where an earlier one was lost.
            n = int(str(draw).removeprefix(f"{row.id}/").partition("/")[0])
            arm = "candidate" if version == row.version_id else "base"
            found[n] = replace(found.get(n, Restarts()), **{arm: cast(int, times)})
        return found

    def count_replies(self, test_id: str) -> dict[int, int]:
        """Return how many attempts of a promotion test have a reply, by the number of their pair."""
        rows = self._pool.rows(
            "select cast(substr(c.draw, length(c.scope) + 2) as integer), count(*) from call c join reply r"
            " on r.call_id = c.id where c.scope = ? and c.role = 'target' group by 1",
            [test_id],
        )
        return dict(cast(list[tuple[int, int]], rows))

    def find_joined_late(self, confirmation_id: str) -> Late | None:
        """Return how many tasks joined a test that had pairs, and how many pairs the first of them came after."""
        row = self._pool.row("select joined from confirmation where id = ?", [confirmation_id])
        late = [(n, n_pairs) for n, n_pairs in json.loads(str(row[0])) if n_pairs] if row else []
        return Late(sum(n for n, _ in late), late[0][1]) if late else None

    def add_decision(self, decision: Decision) -> None:
        """Store a verdict; the same verdict on the same inputs is stored once."""
        with self._pool.write() as connection:
            insert_decision(connection, decision)

    def add_evidence(self, decision: Decision, trials: Sequence[Trial]) -> None:
        """Store a verdict with the trials that it rests on."""
        with self._pool.write() as connection:
            insert_trials(connection, trials)
            insert_decision(connection, decision)

    def list_decisions(self, after: int = 0, limit: int = 500) -> list[tuple[int, Decision]]:
        """Return the decisions of all skills after one of them, by its id, as (id, decision), at most `limit`."""
        sql = _DECISION.replace("select ", "select id, ", 1)
        rows = self._pool.rows(f"{sql} where id > ? order by id limit ?", [after, limit])
        return [(cast(int, row[0]), _decision(row[1:])) for row in rows]

    def latest(self, skill_id: int, gate: str, base_version: str, version_id: str) -> Decision | None:
        """Return the decision of a gate on a version against a base that counts, where tests with several backends took
        some: one of real models before a simulated one, then one that decided before one that paused, then the newest.
        """
        row = self._pool.row(
            f"{_DECISION} where skill_id = ? and gate = ? and base_version = ? and version_id = ?"
            f" order by {IS_SIMULATED}, verdict = 'undecided', id desc limit 1",
            [skill_id, gate, base_version, version_id],
        )
        return _decision(row) if row else None

    def verdicts(self, skill_id: int, gate: str, base_version: str) -> dict[str, str]:
        """Return a gate's verdict on each version that it compared with a base: that of the `latest` decision."""
        rows = self._pool.rows(
            "select version_id, verdict from decision where skill_id = ? and gate = ? and base_version = ?"
            f" order by {IS_SIMULATED} desc, verdict = 'undecided' desc, id",
            [skill_id, gate, base_version],
        )
        # The last one counts, in the order of `latest` the other way round.
        return {str(version): str(verdict) for version, verdict in rows}

    def is_accepted(self, skill_id: int, gate: str, base_version: str, version_id: str) -> bool:
        """Return whether any decision of a gate accepted a version against a base, whatever others decided later."""
        row = self._pool.row(
            "select 1 from decision where skill_id = ? and gate = ? and base_version = ? and version_id = ?"
            " and verdict = 'accept' limit 1",
            [skill_id, gate, base_version, version_id],
        )
        return row is not None

    def latest_in(self, scope: str) -> Decision | None:
        """Return the newest decision of a scope: one step of a run, or a promotion test."""
        row = self._pool.row(f"{_DECISION} where scope = ? order by id desc limit 1", [scope])
        return _decision(row) if row else None

    def list_rejections(self, skill_id: int, backend: str) -> list[tuple[str, str]]:
        """Return the promotion tests of a skill and its kin that ended in a rejection, as (id, inputs of that).

        They are those that `staked` counts.
        """
        rows = self._pool.rows(
            "select confirmation.id, d.inputs, max(d.id) from confirmation join decision d on d.scope = confirmation.id"
            f" where {_OF_ITS_KIND} and d.verdict = 'reject' group by confirmation.id order by confirmation.id",
            [skill_id, backend],
        )
        return [(str(row[0]), str(row[1])) for row in rows]


def _check_in_use(connection: Connection, tasks: Sequence[int]) -> None:
    """Raise Busy when one of these tasks was retired after they were read."""
    sql = "select 1 from retirement where task_id in (select value from json_each(?))"
    if connection.execute(sql, [json.dumps(tasks)]).fetchone():
        raise Busy("tasks were retired just when the promotion test was to be opened: evaluate the candidate again")


def insert_decision(connection: Connection, decision: Decision) -> None:
    """Store a verdict within the caller's transaction."""
    cursor = connection.execute(
        "insert into decision(skill_id, gate, base_version, version_id, scope, verdict, reason, inputs)"
        " select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8"
        " where not exists (select 1 from decision where scope = ?5 and gate = ?2 and inputs = ?8)",
        [decision.skill_id, decision.gate, decision.base_version, decision.version_id, decision.scope,
         decision.verdict, decision.reason, decision.inputs],
    )  # fmt: skip
    if cursor.rowcount:
        append(connection, "decision_taken", int(cursor.lastrowid or 0))


def _decision(row: Row) -> Decision:
    return Decision(cast(int, row[0]), *(str(value) for value in row[1:]))


def _confirmation(row: Row) -> ConfirmationRow:
    confirmation_id, skill_id, base, version, j, alpha, backend, tasks, claim, rule = row
    return ConfirmationRow(
        str(confirmation_id), cast(int, skill_id), str(base), str(version), cast(int, j), cast(float, alpha),
        str(backend), tuple(json.loads(str(tasks))), cast(Claim, claim), cast(str | None, rule),
    )  # fmt: skip


# What a simulation rejected does not count for a run with a real target.
_VERDICT = (
    "(select verdict from decision where decision.skill_id = made.skill_id and gate = ?2"
    " and decision.base_version = made.base_version and decision.version_id = made.version_id"
    f" and decision.created_at < run.created_at and (run.target glob 'simulated*' or not {IS_SIMULATED})"
    f" order by {IS_SIMULATED}, verdict = 'undecided', decision.id desc limit 1)"
)
_MADE = (
    f"select made.id, made.version_id, {_VERDICT} from run join candidate made on made.skill_id = run.skill_id"
    " where run.id = ?1 and made.origin in ('host', 'run') and made.created_at < run.created_at"
    " order by made.rowid desc"
)
_REJECTED = (
    "select made.id from candidate made where made.skill_id = ?1 and made.origin in ('host', 'run')"
    " and (select verdict from decision where decision.skill_id = made.skill_id and gate = ?2"
    " and decision.base_version = made.base_version and decision.version_id = made.version_id"
    f" and not {IS_SIMULATED} order by verdict = 'undecided', decision.id desc limit 1) = 'reject'"
    " order by made.rowid desc limit ?3"
)


class Standing(NamedTuple):
    """A candidate, and a gate's verdict on it when a run began; None where it had none that counts for the run."""

    candidate_id: str
    version_id: str
    verdict: str | None


class Discarding:
    """Of the candidates of a skill: where they stood when a run of it began, and which a gate rejected."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def list_standing(self, run_id: str, gate: str) -> list[Standing]:
        """Return the candidates that were there when a run began, the newest first."""
        return [Standing(*row) for row in self._pool.rows(_MADE, [run_id, gate])]  # type: ignore[arg-type]

    def list_rejected(self, skill_id: int, gate: str, n: int) -> list[str]:
        """Return the `n` newest candidates of a skill that a gate rejected by what a real model did, newest first."""
        return [str(row[0]) for row in self._pool.rows(_REJECTED, [skill_id, gate, n])]

    def begun_at(self, run_id: str) -> str:
        """Return when a run began (UTC); empty for none."""
        return self._pool.text("select created_at from run where id = ?", [run_id])


_OF_SKILL = (
    "select json_extract(inputs, '$.kind'), base_version, version_id, reason, created_at, verdict from decision"
    " where skill_id = ? and gate = ? order by id desc"
)
_N_OF_CHANGE = "select count(*) from decision where gate = ? and scope = ?"


class Refusal(NamedTuple):
    """A refusal of one change of a live file: who refused, when (UTC), and whether it was surely a person."""

    kind: PromotionKind
    from_version: str
    to_version: str
    by: str
    at: str
    verdict: PersonVerdict


class Refusals:
    """Of table decision, those of people."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add_refusal(self, asked: Approval, by: str, verdict: PersonVerdict) -> None:
        """Store a refusal of a change; each is a decision of its own."""
        # Not the promotion test: its newest decision is its gate's.
        scope = f"{asked.kind} {candidate_id(asked.skill_id, asked.from_version, asked.to_version)}"
        with self._pool.write() as connection:
            [n] = connection.execute(_N_OF_CHANGE, [PERSON, scope]).fetchone()
            inputs = PersonInputs(kind=asked.kind, evidence=asked.evidence, n=n + 1, verdict=verdict)
            versions, kept = (asked.from_version, asked.to_version), inputs.model_dump_json()
            insert_decision(connection, Decision(asked.skill_id, PERSON, *versions, scope, verdict, by, kept))

    def list_refusals(self, skill_id: int) -> list[Refusal]:
        """Return the refusals of changes of a skill, the newest first."""
        return [Refusal(*row) for row in self._pool.rows(_OF_SKILL, [skill_id, PERSON])]  # type: ignore[arg-type]

    def last_refusal(self, asked: Approval, verdict: PersonVerdict = "declined") -> Refusal | None:
        """Return the newest refusal of a change, whatever evidence it was shown with, or None."""
        change = (asked.kind, asked.from_version, asked.to_version)
        found = (each for each in self.list_refusals(asked.skill_id) if each.verdict == verdict)
        return next((each for each in found if each[:3] == change), None)
