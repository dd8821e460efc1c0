"""Runs at rest, and their steps: one transaction each."""

from __future__ import annotations

import json
from typing import cast

from skillopt_mcp.errors import NotFound
from skillopt_mcp.records.runs import Run, RunStatus, StepOutcome, StepRecord
from skillopt_mcp.store.candidates import insert_candidate, insert_trials
from skillopt_mcp.store.decisions import insert_decision
from skillopt_mcp.store.pool import Pool, Row

_RUN = "select id, skill_id, base_version, config, prompts, tasks, sessions, target, optimizer, status, result from run"


class Runs:
    """Tables run and step."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add_run(self, run: Run) -> None:
        """Store a run at its start; a run that is there stays as it was frozen."""
        with self._pool.write() as connection:
            connection.execute(
                "insert into run"
                "(id, skill_id, base_version, config, prompts, tasks, sessions, target, optimizer, status)"
                " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict(id) do nothing",
                [run.id, run.skill_id, run.base_version, run.config, run.prompts, json.dumps(run.tasks),
                 json.dumps(run.sessions), run.target, run.optimizer, run.status],
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

    def set_status(self, run_id: str, status: RunStatus, result: str | None = None) -> None:
        """Note that a run goes on, stopped, or finished with `result` (json)."""
        with self._pool.write() as connection:
            connection.execute("update run set status = ?, result = ? where id = ?", [status, result, run_id])

    def add_step(self, run_id: str, outcome: StepOutcome) -> None:
        """Store a finished step with its candidate, trials and decision, all or nothing."""
        record = outcome.record
        with self._pool.write() as connection:
            if outcome.candidate:
                insert_candidate(connection, outcome.candidate)
            insert_trials(connection, run_id, outcome.trials)
            if outcome.decision:
                insert_decision(connection, outcome.decision)
            connection.execute(
                "insert into step(run_id, n, epoch, parent_version, candidate_id, verdict, record)"
                " values (?, ?, ?, ?, ?, ?, ?)",
                [run_id, record.n, record.epoch, record.parent_version, record.candidate_id, record.verdict,
                 record.model_dump_json()],
            )  # fmt: skip

    def list_steps(self, run_id: str) -> list[StepRecord]:
        """Return the finished steps of a run, in order."""
        rows = self._pool.rows("select record from step where run_id = ? order by n", [run_id])
        return [StepRecord.model_validate_json(str(row[0])) for row in rows]


def _run(row: Row) -> Run:
    run_id, skill_id, base, config, prompts, tasks, sessions, target, optimizer, status, result = row
    return Run(
        id=str(run_id),
        skill_id=cast(int, skill_id),
        base_version=str(base),
        config=str(config),
        prompts=str(prompts),
        tasks=tuple(json.loads(str(tasks))),
        sessions=tuple(json.loads(str(sessions))),
        target=str(target),
        optimizer=str(optimizer),
        status=cast(RunStatus, status),
        result=cast(str | None, result),
    )
