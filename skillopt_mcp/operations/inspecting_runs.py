"""Inspecting runs: one run as text, its steps and what it used, in tables that fit 80 columns."""

from __future__ import annotations

import json
from collections.abc import Sequence

from skillopt_mcp.calls.spending import told_failures
from skillopt_mcp.operations.leasing import told_leases
from skillopt_mcp.operations.listing_runs import scopes_of, tests_of, together
from skillopt_mcp.operations.results import Proposed, Replayed
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.budgets import NO_CAPS
from skillopt_mcp.records.runs import Run, StepRecord
from skillopt_mcp.records.skills import short
from skillopt_mcp.store.ledger import LedgerRow

_USED = "role      stage       calls missing failed repeated tokens_in tokens_out usd"
_CENTS_FROM = 100.0


def describe_run(workspace: Workspace, id: str) -> str:
    """Return a run as text: its state, its step table, and what it and its promotion test used."""
    store = workspace.store
    run = store.runs.get_run(id)
    lines = [
        f"run {id}: {run.status}{_kind(run)}; base {short(run.base_version)}; target {run.target}; "
        f"optimizer {run.optimizer}{f'; judge {run.judge}' if run.judge else ''}",
        # Spaced out, so that a terminal breaks it between two settings.
        f"config: {json.dumps(json.loads(run.config))}",
        f"{len(run.tasks)} tasks, {len(run.sessions)} recorded trajectories",
        *filter(None, [_outcome(run), told_leases(workspace, run.id)]),
        *_budget(workspace, run),
    ]
    if run.kind == "replay":
        head = "step epoch budget edits train  candidate current best   verdict"
        lines += ["", head, *(_step(step) for step in store.runs.list_steps(id))]
    return "\n".join([*lines, "", *_used(workspace, run)])


def _kind(run: Run) -> str:
    return " (a proposal that was asked for in a session)" if run.kind == "proposal" else ""


def _outcome(run: Run) -> str:
    if not run.result:
        return ""
    if run.kind == "proposal":
        proposed = Proposed.model_validate_json(run.result)
        return f"outcome: {proposed.status}; candidate {proposed.candidate_id or '-'}"
    replayed = Replayed.model_validate_json(run.result)
    verdict = replayed.verdict or "no verdict"
    return f"outcome: {verdict}; candidate {replayed.candidate_id or '-'}; {replayed.reason}"


def _used(workspace: Workspace, run: Run) -> list[str]:
    """Return the table of what a run used: its own calls, those of its promotion test, and the sum of both."""
    store, tests = workspace.store, tests_of(workspace, run)
    rows = store.ledger.list_rows(run.id)
    lines = [_USED, *_part("the run", rows)]
    for test_id in tests:
        used = store.ledger.list_rows(test_id)
        lines += _part(f"test {test_id}", used)
        rows += used
    cached = [f"{row.role} {row.stage} {row.tokens_cached:,}" for row in rows if row.tokens_cached]
    if tests:
        lines += [_amounts("both together", together(rows)), ""]
    for test_id in tests:
        decision = store.decisions.latest_in(test_id)
        verdict = f" ({decision.verdict})" if decision else ""
        lines.append(
            f"its promotion test, {test_id}{verdict}, is counted whole: with the pairs that 'evaluate' or another run "
            "asked for"
        )
    return [*lines, f"of tokens_in were cached: {'; '.join(cached)}"] if cached else lines


def _part(label: str, rows: Sequence[LedgerRow]) -> list[str]:
    return [*(_amounts(f"{row.role:<9} {row.stage}", row) for row in rows), _amounts(label, together(rows))]


def _amounts(label: str, row: LedgerRow) -> str:
    usd = "?" if row.usd is None else f"{row.usd:.{4 if row.usd < _CENTS_FROM else 2}f}"
    return (
        f"{label:<21} {row.n_calls:>5} {row.n_missing:>7} {row.n_failed:>6} {row.n_repeated:>8} "
        f"{row.tokens_in:>9} {row.tokens_out:>10} {usd}"
    )


def _budget(workspace: Workspace, run: Run) -> list[str]:
    """Return a run's caps with what was charged to them, and how sends failed, where there is such."""
    store = workspace.store
    spent, failures = store.budgets.get_spent(run.id), store.calls.failures(scopes_of(workspace, run))
    used = f"{spent.calls:,} sends, {spent.tokens:,} tokens, ${spent.usd:.2f}, {spent.seconds / 60:.1f} minutes"
    lines = [f"caps: {run.caps.options}; used {used}"] if run.caps != NO_CAPS else []
    return [*lines, told_failures(failures)] if failures.n else lines


def _step(step: StepRecord) -> str:
    candidate = "     -" if step.candidate is None else f"{step.candidate:6.3f}"
    train = f"{step.train.hard:5.3f}" if step.train.n else "    -"
    notes = "".join(f"\n     {note}" for note in (*step.unmatched, *step.unusable))
    kind = {"step": "", "slow": "slow update: ", "meta": "meta note: "}[step.kind]
    return (
        f"{step.n:>4} {step.epoch:>5} {step.budget:>6} {step.n_applied:>5} {train}  {candidate}    "
        f"{step.current:5.3f}   {step.best:5.3f}  {kind}{step.verdict}{notes}"
    )
