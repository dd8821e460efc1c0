"""Candidates at rest, with their edits and the trials of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from skillopt_mcp.core.candidates import Candidate, NewCandidate
from skillopt_mcp.core.edits import Edit, EditReport
from skillopt_mcp.core.errors import NotFound
from skillopt_mcp.core.evidence import Trial
from skillopt_mcp.store.events import append
from skillopt_mcp.store.pending import IS_SIMULATED
from skillopt_mcp.store.pool import Connection, Pool, Row
from skillopt_mcp.store.skills import add_version

_CANDIDATE = "select id, skill_id, base_version, version_id, origin, reasoning, findings, run_id from candidate"


class Candidates:
    """Tables candidate and edit."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add_candidate(self, new: NewCandidate) -> Candidate:
        """Store a candidate with its version and edits; the same change again is the candidate that is there."""
        with self._pool.write() as connection:
            insert_candidate(connection, new)
        return self.get_candidate(new.candidate.id)

    def get_candidate(self, candidate_id: str) -> Candidate:
        """Return a candidate. Raises NotFound."""
        row = self._pool.row(f"{_CANDIDATE} where id = ?", [candidate_id])
        if row is None:
            raise NotFound(self._describe_missing(candidate_id))
        return _candidate(row)

    def _describe_missing(self, id: str) -> str:
        """The notice that an id is not a candidate's, and what it is instead, where that is known."""
        of_test = self._pool.row(
            "select c.id from promotion_test t left join candidate c using (skill_id, base_version, version_id)"
            " where t.id = ?",
            [id],
        )
        of_run = self._pool.rows(
            "select c.id from run r left join candidate c on c.run_id = r.id and c.origin = 'run' where r.id = ?", [id]
        )
        for what, made in (("a promotion test", [of_test] if of_test else []), ("a run", of_run)):
            if made:
                its = " and ".join(str(row[0]) for row in made if row[0])
                return f"'{id}' is {what}; {f'its candidate is {its}' if its else 'it has no candidate yet'}"
        if self._pool.row("select 1 from skill where name = ? or path = ?", [id, id]):
            return f"'{id}' is a skill, not a candidate: inspect {id} (skillopt-mcp show {id}) lists its candidates"
        return f"no candidate '{id}': list_skills (skillopt-mcp skills) lists skills, and inspect SKILL its candidates"

    def list_candidates(self, skill_id: int, *, steps: bool = False) -> list[Candidate]:
        """Return the candidates of a skill that may be promoted one day, newest last; with `steps`, those of single
        steps, too.
        """
        rows = self._pool.rows(
            f"{_CANDIDATE} where skill_id = ? and (origin <> 'step' or ?) order by rowid", [skill_id, steps]
        )
        return [_candidate(row) for row in rows]

    def list_examined(self, gate: str) -> list[tuple[Candidate, str | None]]:
        """Those of the `list_candidates` of all skills with findings or a verdict of a gate, newest last.

        Each comes with the verdict that counts, as `Decisions.latest` has it, None where there is none.
        """
        verdict = (
            "(select verdict from decision where gate = ? and decision.skill_id = c.skill_id"
            " and decision.base_version = c.base_version and decision.version_id = c.version_id"
            f" order by {IS_SIMULATED}, id desc limit 1) as verdict"
        )
        sql = f"{_CANDIDATE.replace(' from candidate', f', {verdict} from candidate c')} where origin <> 'step'"
        rows = self._pool.rows(f"{sql} and (verdict is not null or findings <> '[]') order by rowid", [gate])
        return [(_candidate(row[:-1]), row[-1]) for row in rows]

    def note_seen(self, candidate_id: str, session: str) -> None:
        """Note that a session of a host proposed or saw a candidate."""
        noted = "select 1 from candidate_session where candidate_id = ? and session = ?"
        if self._pool.row(noted, [candidate_id, session]):
            return
        with self._pool.write() as connection:
            sql = "insert into candidate_session(candidate_id, session) values (?, ?) on conflict do nothing"
            if connection.execute(sql, [candidate_id, session]).rowcount:
                append(connection, "candidate_seen", candidate_id)

    def is_answered_by_author(self, candidate_id: str, test_id: str) -> bool:
        """Whether a session that proposed or saw a candidate made attempts of its test."""
        sql = (
            "select 1 from lease l join candidate_session s on s.session = l.session"
            " where s.candidate_id = ? and l.scope = ? and l.state = 'answered' limit 1"
        )
        return self._pool.row(sql, [candidate_id, test_id]) is not None

    def list_edits(self, candidate_id: str) -> list[tuple[Edit, EditReport]]:
        """Return the edits of a candidate with what became of each."""
        rows = self._pool.rows(
            "select n, op, path, target, content, status, reason, detail, sources, cited from edit"
            " where candidate_id = ? order by n",
            [candidate_id],
        )
        return [_edit(row) for row in rows]

    def tags_of_failures(self, candidate: Candidate) -> list[tuple[str, ...]]:
        """The tags of each train failure that the edits of a candidate rest on, those of its run's steps among them."""
        sql = (
            "with made as (select ?1 as id union select candidate_id from step where ?2 = 'run' and run_id = ?3"
            " and verdict in ('accept', 'accept_best')),"
            " cited as (select distinct s.value as id from edit e join made on e.candidate_id = made.id,"
            " json_each(case e.cited when '[]' then e.sources else e.cited end) s where e.status = 'applied')"
            " select task.tags from cited join trial on cited.id = 'trial:' || trial.call_id"
            " join task on task.id = trial.task_id where trial.hard = 0 and task.split = 'train'"
        )
        rows = self._pool.rows(sql, [candidate.id, candidate.origin, candidate.run_id])
        return [tuple(json.loads(str(tags))) for (tags,) in rows]


def insert_candidate(connection: Connection, new: NewCandidate) -> bool:
    """Store a candidate within the caller's transaction; return whether it is new.

    One that is there stays as it is, but that what was one step of a run may have been made in its own right.
    """
    made = new.candidate
    add_version(connection, made.skill_id, new.files, parent_id=made.base_version, origin="edited")
    cursor = connection.execute(
        "insert into candidate(id, skill_id, base_version, version_id, origin, run_id, reasoning, findings)"
        " values (?, ?, ?, ?, ?, ?, ?, ?) on conflict(id) do nothing",
        [made.id, made.skill_id, made.base_version, made.version_id, made.origin, made.run_id, made.reasoning,
         json.dumps(made.findings)],
    )  # fmt: skip
    if not cursor.rowcount:
        if made.origin != "step":  # proposed, or what came out best
            connection.execute(
                "update candidate set origin = ? where id = ? and origin = 'step'", [made.origin, made.id]
            )
        return False
    connection.executemany(
        "insert into edit(candidate_id, n, op, path, target, content, status, reason, detail, sources,"
        " cited) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (made.id, report.index, edit.op, edit.path, edit.target, edit.content, report.status, report.reason,
             report.detail, json.dumps(edit.sources), json.dumps(edit.cited))
            for edit, report in new.edits
        ],
    )  # fmt: skip
    append(connection, "candidate_made", made.id)
    return True


def insert_trials(connection: Connection, trials: Sequence[Trial]) -> None:
    """Store trials within the caller's transaction; a trial that is there stays as it is."""
    rows = [
        (trial.version, trial.task.id, trial.reply.id,
         None if trial.hard is None else int(trial.hard), trial.soft, trial.reason)
        for trial in trials
    ]  # fmt: skip
    connection.executemany(
        "insert into trial(version_id, task_id, call_id, hard, soft, reason)"
        " values (?, ?, ?, ?, ?, ?) on conflict do nothing",
        rows,
    )


def _candidate(row: Row) -> Candidate:
    made, skill_id, base, version, origin, reasoning, findings, run_id = row
    return Candidate(made, skill_id, base, version, origin, reasoning, tuple(json.loads(findings)), run_id)


def _edit(row: Row) -> tuple[Edit, EditReport]:
    n, op, path, target, content, status, reason, detail, sources, cited = row
    edit = Edit(
        op, target, content, str(path), tuple(json.loads(str(sources))),
        cited=tuple(json.loads(str(cited))),
    )  # fmt: skip
    report = EditReport(
        n, op, str(path), "applied" if status == "applied" else "unmatched",
        reason, str(detail),
    )  # fmt: skip
    return edit, report
