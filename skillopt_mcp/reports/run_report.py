"""Run report: a run as text that fits a terminal, and its figures as fields."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from skillopt_mcp.backends.spending import describe_failures, describe_most
from skillopt_mcp.core.budgets import FREE_STAGE, NO_CAPS
from skillopt_mcp.core.results import Proposed, Replayed
from skillopt_mcp.core.runs import Run, StepRecord
from skillopt_mcp.core.skills import SplitCounts, short
from skillopt_mcp.core.text import counted
from skillopt_mcp.gates.verdicts import describe
from skillopt_mcp.reports.details import ServedRow
from skillopt_mcp.store.calls import LedgerRow, Servings
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.plan import search_splits
from skillopt_mcp.training.promotion_test import held_out
from skillopt_mcp.workspace.answering import describe_changes, tasks_of
from skillopt_mcp.workspace.costs import (
    Account,
    account,
    add_up,
    describe_price,
    describe_repeats,
    describe_sends,
    price_cell,
    used_by,
)
from skillopt_mcp.workspace.evidence import shown_origin
from skillopt_mcp.workspace.host_work import describe_leases, describe_own_leases
from skillopt_mcp.workspace.workspace import Workspace

# Heads of the two tables, and the columns that go first where a terminal is narrow.
_STEPS = "step epoch budget edits train  candidate current best   verdict"
_STEPS_SPARE = ("budget", "epoch", "edits", "train")
_USED = "role      stage       calls missing failed repeated tokens_in tokens_out usd"
_USED_SPARE = ("repeated", "missing", "failed", "tokens_out")
_CENTS_FROM = 100.0
_MAX_NAMES = 8


def describe_run(workspace: Workspace, id: str, width: int | None = None) -> str:
    """Return a run as text: its state, its steps, and what it and its promotion tests used.

    Tables wider than `width` lose columns that can be spared, which are named below. Raises NotFound.
    """
    store = workspace.store
    run = store.runs.get_run(id)
    used, steps = account(store, run.id, is_sealed=workspace.is_agents), store.runs.list_steps(id)
    kind = " (a proposal that was asked for in a session)" if run.kind == "proposal" else ""
    judge = f"; judge {run.judge}" if run.judge else ""
    lines = [
        f"run {id}: {run.status}{kind}; base {short(run.base_version)}; target {run.target}; "
        f"optimizer {run.optimizer}{judge}",
        *_answered_by(run),
        *describe_served(served_rows(workspace, run.id)),
        # With blanks, so that a terminal breaks it between two settings.
        f"config: {json.dumps(json.loads(run.config))}",
        f"{counted(len(run.tasks), 'task')}, "
        f"{counted(len(run.sessions), 'recorded trajectory', 'recorded trajectories')}",
        *filter(None, [_outcome(workspace, run), describe_leases(workspace, run.id)]),
        *describe_own_leases(workspace, run.id),
    ]
    if run.caps != NO_CAPS:
        spent = used.charged
        charged = f"{counted(spent.calls, 'send')}, {describe_most(spent)}, {spent.seconds / 60:.1f} minutes"
        # What is charged is that of its promotion test, too.
        lines.append(f"caps: {run.caps.options}{'' if workspace.is_agents else f'; charged {charged}'}")
    failures = store.calls.failures([run.id, *(test_id for test_id, _ in used.tests)])
    if failures.n:
        lines.append(describe_failures(failures))
    if run.kind == "replay":
        lines += ["", *_base_scores(run, steps), *_narrowed([_STEPS, *map(_step, steps)], _STEPS_SPARE, width)]
    return "\n".join([*lines, "", *_usage(workspace, used, width)])


def figures_of(workspace: Workspace, run: Run) -> dict[str, object]:
    """Return the figures of a run's tables as fields: the sizes of its splits, what was sent, and what used it."""
    used = account(workspace.store, run.id, is_sealed=workspace.is_agents)
    return {
        "n_tasks": asdict(n_tasks_of(workspace, run)),
        **used.summary.model_dump(mode="json"),
        "used": [row.model_dump(mode="json") for row in used.table],
        "served": [row.model_dump() for row in served_rows(workspace, run.id)],
    }


def n_tasks_of(workspace: Workspace, run: Run) -> SplitCounts:
    """How many tasks a run was frozen with to learn from, to choose by, and held out."""
    tasks = tasks_of(workspace, run)
    train, val = search_splits(tasks, Config.of_run(run.config)) if run.kind == "replay" else (tasks, ())
    return SplitCounts(train=len(train), val=len(val), test=len(held_out(tasks)))


# Which models answered


def served_rows(workspace: Workspace, scope: str) -> list[ServedRow]:
    """The models that answered the calls of a run or a promotion test."""
    found = workspace.store.table(Servings).list_of_scope(scope)
    return [ServedRow(role=each.role, name=each.name, n=each.n) for each in found]


def describe_served(rows: Sequence[ServedRow]) -> list[str]:
    """Return one line that lists the first models; none where no name is known."""
    names = [f"{row.role} {row.name} ({row.n:,})" for row in rows[:_MAX_NAMES]]
    if len(rows) > _MAX_NAMES:
        names.append(f"{len(rows) - _MAX_NAMES:,} more")
    return [f"models that answered, as they named themselves: {', '.join(names)}"] if names else []


def _answered_by(run: Run) -> list[str]:
    """Return which backends answered as the run began, and what has changed since."""
    if not run.answering:
        return []
    first = run.answering[0]
    backends = "; ".join(f"{role} {shown_origin(text)}" for role, text in first.fingerprints.items())
    since = f" (after step {first.after})" if first.after else ""
    changes = [f"changed during the run: {each}" for each in describe_changes(run)]
    return [f"answered by {backends}; skillopt-mcp {first.program}{since}", *changes]


# Tables


def _narrowed(table: Sequence[str], spare: Sequence[str], width: int | None) -> list[str]:
    """Return a table, head first, without as many of its spare columns as it takes to fit.

    A spare column begins with a blank and is as wide as its name; the lines of notes below a row stay as they are.
    """
    rows, dropped = list(table), list[str]()
    for name in spare:
        if width is None or max(len(row.partition("\n")[0]) for row in rows) <= width:
            break
        start = rows[0].index(f" {name}")
        rows = [row[:start] + row[start + 1 + len(name) :] for row in rows]
        dropped.append(name)
    return [*rows, f"(too narrow for: {', '.join(dropped)})"] if dropped else rows


def _outcome(workspace: Workspace, run: Run) -> str:
    if not run.result:
        return ""
    if run.kind == "proposal":
        proposed = Proposed.model_validate_json(run.result)
        return f"outcome: {proposed.status}; candidate {proposed.candidate_id or '-'}"
    replayed = Replayed.model_validate_json(run.result)
    replayed = replayed.sealed() if workspace.is_agents else replayed
    verdict, candidate = str(replayed.verdict or "no verdict"), replayed.candidate_id or "-"
    if workspace.is_agents and replayed.accepted is not None:
        verdict = "accepted" if replayed.accepted else "not accepted"
    shown = " ".join(describe(replayed.test)) if replayed.test else replayed.reason
    if memory := replayed.memory:
        own = " ".join(describe(memory.test)) if memory.test else memory.reason
        shown = "; ".join(filter(None, (shown, f"memory file: candidate {memory.candidate_id or '-'}", own)))
    return "; ".join(filter(None, (f"outcome: {verdict}; candidate {candidate}", shown)))


def _base_scores(run: Run, steps: Sequence[StepRecord]) -> list[str]:
    """Return a line with the scores of the base version, and the metric of the scores below."""
    metric, base = Config.of_run(run.config).metric, steps[0].baseline if steps else None
    hard, soft = (base.hard, base.soft) if base else (None, None)
    if not steps and run.result:
        # A search may end before its first step.
        result = Replayed.model_validate_json(run.result)
        hard, soft = result.baseline_hard, result.baseline_soft
    if hard is None or soft is None:
        return []
    return [f"scores on val are {metric}; the base version had hard {hard:.3f}, soft {soft:.3f}"]


def _step(step: StepRecord) -> str:
    candidate = "     -" if step.candidate is None else f"{step.candidate:6.3f}"
    scores = step.train_current or step.train
    train = f"{scores.hard:5.3f}" if scores.n else "    -"
    candidate_id = (f"candidate {step.candidate_id}",) if step.candidate_id else ()
    notes = "".join(f"\n     {note}" for note in (*candidate_id, *step.unmatched, *step.unusable))
    kind = {"step": "", "memory": "memory file: ", "slow": "slow update: ", "meta": "meta note: "}[step.kind]
    return (
        f"{step.n:>4} {step.epoch:>5} {step.budget:>6} {step.n_applied:>5} {train}  {candidate}    "
        f"{step.current:5.3f}   {step.best:5.3f}  {kind}{step.verdict}{notes}"
    )


def _usage(workspace: Workspace, used: Account, width: int | None) -> list[str]:
    """Return the table of what a run and its promotion tests used, and lines on what it leaves out."""
    table = [_USED, *_usage_rows("the run", used.own)]
    for test_id, rows in used.tests:
        table += _usage_rows(f"test {test_id}", rows)
    lines = _narrowed(table, _USED_SPARE, width)
    for test_id, _ in used.tests:
        decision = workspace.store.decisions.latest_in(test_id)
        verdict = f" ({decision.verdict})" if decision else ""
        lines.append(f"its promotion test, {test_id}{verdict}: {used_by(workspace.store, test_id)}")
    if cached := [f"{row.role} {row.stage} {row.tokens_cached:,}" for row in used.own if row.tokens_cached]:
        lines.append(f"of tokens_in were cached: {'; '.join(cached)}")
    lines.append(f"{describe_sends(used.summary)}; {describe_price(used.summary)}")
    retries: Counter[str] = Counter()
    for row in used.own:
        retries[row.role] += row.n_again
    if counts := ", ".join(f"{role} {n:,}" for role, n in sorted(retries.items()) if n):
        lines.append(f"retried, as the reply could not be used: {counts}")
    return [*lines, *filter(None, [describe_repeats(used.summary)])]


def _usage_rows(label: str, rows: Sequence[LedgerRow]) -> list[str]:
    calls = [_usage_row(f"{row.role:<9} {row.stage}", row) for row in rows if row.stage != FREE_STAGE]
    checks = [_usage_row("checks by commands", row) for row in rows if row.stage == FREE_STAGE]
    return [*calls, _usage_row(label, add_up(rows)), *checks]


def _usage_row(label: str, row: LedgerRow) -> str:
    usd = price_cell(row) if row.n_unpriced else f"{row.usd_known:.{4 if row.usd_known < _CENTS_FROM else 2}f}"
    return (
        f"{label:<21} {row.n_calls:>5} {row.n_missing:>7} {row.n_failed:>6} {row.n_repeated:>8} "
        f"{row.tokens_in:>9} {row.tokens_out:>10} {usd}"
    )
