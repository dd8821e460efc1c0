"""Listing runs: which runs there were, of one skill or of all, newest first."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.operations.results import Replayed, Result
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.budgets import Cost
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.skills import short


class RunRow(BaseModel):
    """One run as a table row. Scores are the run's metric on val; `test_before` and `test_after` of the finish."""

    model_config = ConfigDict(frozen=True)
    id: str
    skill: str
    status: str
    started_at: str
    n_steps: int
    epochs: int
    base_version: str
    best_version: str
    best: float | None
    verdict: str | None
    test_before: float | None
    test_after: float | None
    n_calls: int
    n_failed: int
    tokens: int
    usd: float | None
    target: str
    optimizer: str


class RunList(Result):
    """Runs, the newest first."""

    runs: list[RunRow]


def list_runs(workspace: Workspace, skill: str | None = None) -> RunList:
    """Return the runs of a skill, or of all skills. Raises NotFound, BadSkill."""
    store = workspace.store
    skills = [workspace.kept(skill)] if skill else store.skills.list_skills()
    started = [
        (_row(workspace, each.name, run, started_at), run)
        for each in skills
        for run, started_at in store.runs.list_started(each.id)
    ]
    started.sort(key=lambda row: row[0].started_at, reverse=True)
    return RunList(runs=[row for row, _ in started], next_step=_next_step(workspace, started))


def _next_step(workspace: Workspace, started: list[tuple[RunRow, Run]]) -> str:
    if not started:
        return "No run yet: skillopt-mcp replay SKILL"
    for row, run in started:
        if run.status != "finished":
            need = workspace.store.budgets.get_spent(run.id).plus(*Cost())
            return f"skillopt-mcp replay {row.skill} --resume {run.caps.raised_for(need).options}".rstrip()
    return f"skillopt-mcp show {started[0][0].id}"


def scopes_of(workspace: Workspace, run: Run) -> list[str]:
    """Return what the calls of a run are kept under: the run, and the promotion test that it came to."""
    return [run.id, *(test_id for test_id, _ in workspace.store.runs.list_finishes(run.id))]


def _row(workspace: Workspace, skill: str, run: Run, started_at: str) -> RunRow:
    store = workspace.store
    steps = store.runs.list_steps(run.id)
    ledger = store.calls.ledger(run.id)
    prices = [row.usd for row in ledger]
    result = Replayed.model_validate_json(run.result) if run.result else None
    last = steps[-1] if steps else None
    return RunRow(
        id=run.id,
        skill=skill,
        status=run.status,
        started_at=started_at,
        n_steps=len(steps),
        epochs=Config.of_run(run.config).epochs,
        base_version=short(run.base_version),
        best_version=short(last.best_version if last else run.base_version),
        best=last.best if last else None,
        verdict=result.verdict if result else None,
        test_before=result.test_before if result else None,
        test_after=result.test_after if result else None,
        n_calls=result.n_calls if result else sum(row.n_calls for row in ledger),
        n_failed=store.calls.failures(scopes_of(workspace, run)).n,
        tokens=sum(row.tokens_in + row.tokens_out for row in ledger),
        usd=None if None in prices else sum(price for price in prices if price is not None),
        target=run.target,
        optimizer=run.optimizer,
    )
