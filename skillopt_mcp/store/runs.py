"""Runs at rest, and their steps: one transaction each."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict

from skillopt_mcp.core.budgets import Caps
from skillopt_mcp.core.edits import Edit
from skillopt_mcp.core.errors import NotFound
from skillopt_mcp.core.runs import Answering, Run, RunStatus, StepOutcome, StepRecord, TriedEdit
from skillopt_mcp.core.skills import DocumentVersion
from skillopt_mcp.store.candidates import insert_candidate, insert_trials
from skillopt_mcp.store.decisions import insert_decision
from skillopt_mcp.store.pool import Pool, Row
from skillopt_mcp.store.skills import insert_blob

_RUN = (
    "select id, skill_id, base_version, config, (select content from blob where sha256 = prompts), tasks, sessions,"
    " target, optimizer, status, result, note,"
    " judge, kind, answering,"
    " memory_id, memory_version, max_calls, max_tokens, max_usd, max_minutes from run"
)
_CapValues = tuple[int | None, int | None, float | None, float | None]
_TRIED = (
    "select s.n, s.epoch, s.verdict, e.op, e.path, e.target, e.content, e.sources,"
    " json_extract(s.record, '$.current'),"
    # What a rejected one scored is not always known.
    " iif(s.verdict = 'reject', null, json_extract(s.record, '$.candidate'))"
    " from step s join edit e on e.candidate_id = s.candidate_id where s.run_id = ?"
)


class Runs:
    """Tables run, step, meta_note and finish."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._over: dict[int, int] = {}

    def add_run(self, run: Run) -> None:
        """Store a run at its start; a run that is there stays as it was frozen."""
        with self._pool.write() as connection:
            prompts = run.prompts.encode()
            connection.execute(
                "insert into run"
                "(id, skill_id, base_version, config, prompts, tasks, sessions, target, optimizer, status, note, judge,"
                " kind, answering, memory_id, memory_version, max_calls, max_tokens, max_usd, max_minutes)"
                f" values ({', '.join('?' * 20)}) on conflict(id) do nothing",
                [run.id, run.skill_id, run.base_version, run.config,
                 insert_blob(connection, prompts, zlib.compress(prompts)), json.dumps(run.tasks),
                 json.dumps(run.sessions), run.target, run.optimizer, run.status, run.note, run.judge, run.kind,
                 _answering_json(run.answering), *(run.memory or (None, None)), *_cap_values(run.caps)],
            )  # fmt: skip

    def get_run(self, run_id: str) -> Run:
        """Return a run. Raises NotFound."""
        row = self._pool.row(f"{_RUN} where id = ?", [run_id])
        if row is None:
            raise NotFound(f"the store has no run '{run_id}': start one with 'skillopt-mcp replay SKILL'")
        return _run(row)

    def list_runs(self, skill_id: int) -> list[Run]:
        """Return the runs of a skill, oldest first."""
        return [_run(row) for row in self._pool.rows(f"{_RUN} where skill_id = ? order by rowid", [skill_id])]

    def list_alike(self, run: Run, *, is_finished: bool) -> list[str]:
        """The ids of the runs that are frozen to what this one is, newest first: of the finished, or the others.

        Who answers in them may differ, by name too.
        """
        rows = self._pool.rows(
            "select id from run where skill_id = ? and (status = 'finished') = ? and kind = ? and base_version = ?"
            " and config = ? and sessions = ? and tasks = ? and prompts = ? and memory_id is ? and memory_version is ?"
            " order by rowid desc",
            [run.skill_id, is_finished, run.kind, run.base_version, run.config, json.dumps(run.sessions),
             json.dumps(run.tasks), hashlib.sha256(run.prompts.encode()).hexdigest(), *(run.memory or (None, None))],
        )  # fmt: skip
        return [str(row[0]) for row in rows]

    def list_proposals_under_way(self, skill_id: int) -> list[Run]:
        """Return the unfinished proposals of a skill, oldest first. Those found finished once are not read again."""
        newest = self._pool.row("select max(rowid) from run where skill_id = ?", [skill_id])
        under_way = "skill_id = ? and kind = 'proposal' and status = 'running' and rowid > ?"
        found = self._pool.rows(
            f"{_RUN.replace('select ', 'select rowid, ', 1)} where {under_way} order by rowid",
            [skill_id, self._over.get(skill_id, 0)],
        )
        first = found[0][0] - 1 if found else newest[0] if newest else None
        self._over[skill_id] = first or 0
        return [_run(row[1:]) for row in found]

    def list_running(self, skill_id: int | None = None) -> list[tuple[str, str]]:
        """Return the ids of the replays of a skill, or of all, with status running, with when they began, newest first.

        Those whose process was killed are among them.
        """
        running = f"{'1' if skill_id is None else 'skill_id = ?'} and kind = 'replay' and status = 'running'"
        sql = f"select id, created_at from run where {running} order by rowid desc"
        return [(str(run), str(at)) for run, at in self._pool.rows(sql, [] if skill_id is None else [skill_id])]

    def list_started(self, skill_id: int) -> list[tuple[Run, str]]:
        """Return the runs of a skill, each with the time when it began (UTC), oldest first."""
        begun = self._pool.rows("select id, created_at from run where skill_id = ?", [skill_id])
        times = {str(run_id): str(at) for run_id, at in begun}
        return [(run, times[run.id]) for run in self.list_runs(skill_id) if run.id in times]

    def set_status(self, run_id: str, status: RunStatus, result: str | None = None, higher: str = "") -> None:
        """Note that a run goes on, stopped (at caps that the options `higher` raise), or finished with `result`."""
        with self._pool.write() as connection:
            values = [status, result, higher, run_id]
            connection.execute("update run set status = ?, result = ?, higher = ? where id = ?", values)

    def get_higher(self, run_id: str) -> str:
        """Return the options that raise the caps at which a run has stopped; empty where it stopped otherwise."""
        return self._pool.text("select higher from run where id = ?", [run_id])

    def get_folder(self, run_id: str) -> str:
        """The folder that a run is written to as files; empty where there is none."""
        return self._pool.text("select folder from run where id = ?", [run_id])

    def set_folder(self, run_id: str, folder: str) -> None:
        """Note the folder that a run is written to as files."""
        with self._pool.write() as connection:
            connection.execute("update run set folder = ? where id = ?", [folder, run_id])

    def update_run(self, run: Run) -> None:
        """Note under which caps a run goes on, who has answered in it so far, and how its backends are spelled now."""
        with self._pool.write() as connection:
            connection.execute(
                "update run set max_calls = ?, max_tokens = ?, max_usd = ?, max_minutes = ?, answering = ?, target = ?,"
                " optimizer = ?, judge = ? where id = ?",
                [*_cap_values(run.caps), _answering_json(run.answering), run.target, run.optimizer, run.judge, run.id],
            )

    def list_finishes(self, run_id: str) -> list[str]:
        """Return the ids of the promotion tests that a run has reached."""
        return [str(row[0]) for row in self._pool.rows("select test_id from finish where run_id = ?", [run_id])]

    def add_finish(self, run_id: str, test_id: str) -> None:
        """Note that a run has reached the promotion test of its best version."""
        with self._pool.write() as connection:
            sql = "insert into finish(run_id, test_id) values (?, ?) on conflict do nothing"
            connection.execute(sql, [run_id, test_id])

    def add_step(self, run_id: str, outcome: StepOutcome) -> None:
        """Store a finished step with its candidate, trials and decision, all or nothing."""
        record = outcome.record
        with self._pool.write() as connection:
            if outcome.candidate:
                insert_candidate(connection, outcome.candidate)
            insert_trials(connection, outcome.trials)
            if outcome.decision:
                insert_decision(connection, outcome.decision)
            connection.execute(
                "insert into step(run_id, n, epoch, parent_version, candidate_id, verdict, record)"
                " values (?, ?, ?, ?, ?, ?, ?)",
                [run_id, record.n, record.epoch, record.parent_version, record.candidate_id, record.verdict,
                 record.model_dump_json()],
            )  # fmt: skip
            if outcome.note:
                connection.execute(
                    "insert into meta_note(skill_id, run_id, epoch, text)"
                    " select skill_id, id, ?, ? from run where id = ?",
                    [record.epoch, outcome.note, run_id],
                )

    def list_steps(self, run_id: str, epoch: int | None = None) -> list[StepRecord]:
        """Return the finished steps of a run, or of one of its epochs, in order."""
        rows = self._pool.rows(
            "select record from step where run_id = ?1 and (?2 is null or epoch = ?2) order by n", [run_id, epoch]
        )
        return [StepRecord.model_validate_json(str(row[0])) for row in rows]

    def list_rejected(self, run_id: str, limit: int) -> list[TriedEdit]:
        """Return the edits of a run that its search gate turned down, the latest step first, at most `limit`."""
        rows = self._pool.rows(f"{_TRIED} and s.verdict = 'reject' order by s.n desc, e.n limit ?", [run_id, limit])
        return [_parse_tried(row) for row in rows]

    def list_tried(self, run_id: str, epoch: int) -> list[TriedEdit]:
        """Return the edits that the steps of an epoch tried, in order."""
        return [
            _parse_tried(row) for row in self._pool.rows(f"{_TRIED} and s.epoch = ? order by s.n, e.n", [run_id, epoch])
        ]

    def latest_note(self, run_id: str, before_epoch: int) -> str | None:
        """Return the latest note for the optimizer that an earlier epoch of a run left, or None."""
        row = self._pool.row(
            "select text from meta_note where run_id = ? and epoch < ? order by epoch desc limit 1",
            [run_id, before_epoch],
        )
        return str(row[0]) if row else None

    def note_of_skill(self, skill_id: int) -> str:
        """Return the latest note that any run of a skill left for the optimizer; empty when none did."""
        return self._pool.text("select text from meta_note where skill_id = ? order by id desc limit 1", [skill_id])


def _run(row: Row) -> Run:
    run, skill_id, base, config, prompts, tasks, sessions, target, optimizer, status, result, note = row[:12]
    judge, kind, answering, memory_id, memory_version, *caps = row[12:]
    return Run(
        run, skill_id, base, config, zlib.decompress(prompts).decode(), tuple(json.loads(tasks)),
        tuple(json.loads(sessions)), target, optimizer, status, result, note, judge, kind, Caps(*caps),
        tuple(Answering(**each) for each in json.loads(answering or "[]")),
        None if memory_id is None else DocumentVersion(memory_id, memory_version),
    )  # fmt: skip


def _answering_json(answering: Sequence[Answering]) -> str | None:
    return json.dumps([asdict(each) for each in answering], ensure_ascii=False) if answering else None


def _cap_values(caps: Caps) -> _CapValues:
    return caps.calls, caps.tokens, caps.usd, caps.minutes


def _parse_tried(row: Row) -> TriedEdit:
    n, epoch, verdict, op, path, target, content, sources, current, candidate = row
    edit = Edit(op, target, content, path, tuple(json.loads(sources)))
    return TriedEdit(n, epoch, verdict, edit, current, candidate)
