"""Listing runs: which runs there were, of one skill or of all, newest first."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.backends.host import is_host
from skillopt_mcp.operations.leasing import told_leases
from skillopt_mcp.operations.results import Replayed, Result
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.budgets import Cost
from skillopt_mcp.records.runs import Run, RunKind
from skillopt_mcp.records.skills import short
from skillopt_mcp.store.ledger import LedgerRow


class RunRow(BaseModel):
    """One run as a table row. Scores are the run's metric on val; `test_before` and `test_after` of the finish.

    `n_calls`, `n_failed`, `tokens` and `usd` are of the run and of the promotion test that it came to, together;
    `n_test_calls`, `test_tokens` and `test_usd` of that test alone, whoever asked for its pairs. `work` tells what a
    host has in hand.
    """

    model_config = ConfigDict(frozen=True)
    id: str
    skill: str
    kind: RunKind
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
    n_test_calls: int
    test_tokens: int
    test_usd: float | None
    work: str
    target: str
    optimizer: str


class Used(BaseModel):
    """What a contest or a promotion test has used so far, in all; `usd` is None where a price is not known."""

    model_config = ConfigDict(frozen=True)
    contest: str
    n_calls: int
    tokens: int
    usd: float | None

    def __str__(self) -> str:
        price = "price unknown" if self.usd is None else f"${self.usd:.2f}"
        return f"{self.n_calls:,} calls, {self.tokens:,} tokens, {price}"


class RunList(Result):
    """Runs, the newest first; `beside` is what else the store has spent on, for any skill: contests, tests by hand."""

    runs: list[RunRow]
    beside: list[Used] = Field(default_factory=list)


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
    beside = [used_by(workspace, name) for name in store.budgets.list_beside_runs()]
    rows = [row for row, _ in started]
    return RunList(
        runs=rows, beside=[each for each in beside if each.n_calls], next_step=_next_step(workspace, started)
    )


def _next_step(workspace: Workspace, started: list[tuple[RunRow, Run]]) -> str:
    if not started:
        return "No run yet: skillopt-mcp replay SKILL"
    ways = (way_on(workspace, run) for _, run in started)
    return next(filter(None, ways), f"skillopt-mcp show {started[0][0].id}")


def way_on(workspace: Workspace, run: Run) -> str:
    """Return how to go on with a run; empty when it is over, or nothing goes on with it any more."""
    skill = workspace.store.skills.get_skill(run.skill_id)
    if run.kind == "replay":
        if run.status == "finished":
            return ""
        need = workspace.store.budgets.get_spent(run.id).plus(*Cost())
        name = shlex.quote(skill.name)
        return f"skillopt-mcp replay {name} --resume {run.caps.raised_for(need).options}".rstrip()
    if run.status != "running" or run.base_version != skill.live_version:
        return ""
    if not any(map(is_host, (run.target, run.optimizer, run.judge))):
        return f"{run.id} goes on where it began, in a session of an agent: propose_edits for '{skill.name}'"
    work = told_leases(workspace, run.id)
    return (
        f"{run.id} is in the hands of an agent that the server serves, and goes on there: submit_work with job_id "
        f"{run.id}{f'; {work}' if work else ''}"
    )


def tests_of(workspace: Workspace, run: Run) -> list[str]:
    """Return the promotion tests that a run came to: one, or none."""
    return [test_id for test_id, _ in workspace.store.runs.list_finishes(run.id)]


def scopes_of(workspace: Workspace, run: Run) -> list[str]:
    """Return what the calls of a run are kept under: the run, and the promotion test that it came to."""
    return [run.id, *tests_of(workspace, run)]


def used_by(workspace: Workspace, name: str) -> Used:
    """Return what the contest (or promotion test) of this name has used so far."""
    rows = together(workspace.store.ledger.list_rows(name))
    return Used(contest=name, n_calls=rows.n_calls, tokens=rows.tokens_in + rows.tokens_out, usd=rows.usd)


def together(rows: Sequence[LedgerRow]) -> LedgerRow:
    """Return the sum of ledger rows; its price is unknown where one of theirs is."""
    prices = [row.usd for row in rows if row.usd is not None]
    return LedgerRow(
        role="",
        stage="",
        n_calls=sum(row.n_calls for row in rows),
        n_missing=sum(row.n_missing for row in rows),
        n_repeated=sum(row.n_repeated for row in rows),
        tokens_in=sum(row.tokens_in for row in rows),
        tokens_out=sum(row.tokens_out for row in rows),
        usd=math.fsum(prices) if len(prices) == len(rows) else None,
        latency_ms=math.fsum(row.latency_ms for row in rows),
        tokens_cached=sum(row.tokens_cached for row in rows),
        n_failed=sum(row.n_failed for row in rows),
    )


def _row(workspace: Workspace, skill: str, run: Run, started_at: str) -> RunRow:
    store = workspace.store
    steps = store.runs.list_steps(run.id)
    tests = [row for test_id in tests_of(workspace, run) for row in store.ledger.list_rows(test_id)]
    test, both = together(tests), together([*store.ledger.list_rows(run.id), *tests])
    # A proposal ends in another kind of result, and has no verdict.
    result = Replayed.model_validate_json(run.result) if run.result and run.kind == "replay" else None
    last = steps[-1] if steps else None
    return RunRow(
        id=run.id,
        skill=skill,
        kind=run.kind,
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
        n_calls=both.n_calls,
        n_failed=store.calls.failures(scopes_of(workspace, run)).n,
        tokens=both.tokens_in + both.tokens_out,
        usd=both.usd,
        n_test_calls=test.n_calls,
        test_tokens=test.tokens_in + test.tokens_out,
        test_usd=test.usd,
        work=told_leases(workspace, run.id),
        target=run.target,
        optimizer=run.optimizer,
    )
