"""Inspecting runs: one run as text, its steps and what it used, in tables that fit 80 columns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from skillopt_mcp.calls.spending import told_failures, told_most
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.answering import tasks_of, told_changes
from skillopt_mcp.operations.judging import shown_origin
from skillopt_mcp.operations.leasing import told_items, told_leases
from skillopt_mcp.operations.looks.serving import served_in_run, told_names
from skillopt_mcp.operations.results import Proposed, Replayed, SplitCounts, StepRow
from skillopt_mcp.operations.runs.concluding import step_row
from skillopt_mcp.operations.spending.accounting import told_repeats, told_sends
from skillopt_mcp.operations.spending.charging import Account, Part, account, together, told_cell, told_price
from skillopt_mcp.operations.spending.using import used_by
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.budgets import FREE_STAGE, NO_CAPS
from skillopt_mcp.records.runs import Run, StepRecord
from skillopt_mcp.records.skills import short
from skillopt_mcp.store.ledger import LedgerRow

_STEPS = "step epoch budget edits train  candidate current best   verdict"
_STEPS_SPARE = ("budget", "epoch", "edits", "train")
_USED = "role      stage       calls missing failed repeated tokens_in tokens_out usd"
_USED_SPARE = ("repeated", "missing", "failed", "tokens_out")
_CENTS_FROM = 100.0


def describe_run(workspace: Workspace, id: str, width: int | None = None) -> str:
    """Return a run as text: its state, its step table, and what it and its promotion test used.

    Where the tables are wider than `width` they go without the columns that can be spared, and say so.
    """
    store = workspace.store
    run = store.runs.get_run(id)
    used = account(store, run.id)
    lines = [
        f"run {id}: {run.status}{_kind(run)}; base {short(run.base_version)}; target {run.target}; "
        f"optimizer {run.optimizer}{f'; judge {run.judge}' if run.judge else ''}",
        *_answered(run),
        *told_names(served_in_run(workspace, run.id)),
        # Spaced out, so that a terminal breaks it between two settings.
        f"config: {json.dumps(json.loads(run.config))}",
        f"{counted(len(run.tasks), 'task')}, "
        f"{counted(len(run.sessions), 'recorded trajectory', 'recorded trajectories')}",
        *filter(None, [_concluded(run), _outcome(run), told_leases(workspace, run.id)]),
        *told_items(workspace, run.id),
        *_budget(workspace, run, used),
    ]
    if run.kind == "replay":
        done = store.runs.list_steps(id)
        lines += ["", *_start(run, done), *_narrowed([_STEPS, *map(_step, done)], _STEPS_SPARE, width)]
    return "\n".join([*lines, "", *_used(workspace, used, width)])


def answering_of(workspace: Workspace, run_id: str) -> list[dict[str, object]]:
    """Return who answered in a run, the latest last: fingerprints, after how many steps, and by which release."""
    return [asdict(each) for each in workspace.store.runs.get_run(run_id).answering]


def _answered(run: Run) -> list[str]:
    """Return by whom a run was answered as it began, and what has changed of that since."""
    if not run.answering:
        return []
    first = run.answering[0]
    told = "; ".join(f"{role} {shown_origin(text)}" for role, text in first.fingerprints.items())
    since = f" (after step {first.after}; before that it is not known)" if first.after else ""
    changes = [f"changed in mid-run: {each}" for each in told_changes(run)]
    return [f"answered by {told}; skillopt-mcp {first.program}{since}", *changes]


def n_tasks_of(workspace: Workspace, run: Run) -> SplitCounts:
    """Return how many tasks of each split a run was frozen with."""
    counts = Counter(task.split for task in tasks_of(workspace, run))
    return SplitCounts(train=counts["train"], val=counts["val"], test=counts["test"])


def figures_of(workspace: Workspace, run: Run) -> dict[str, object]:
    """Return what a run's tables tell as fields: the sizes of its splits, what was sent, and what used it."""
    used = account(workspace.store, run.id)
    table = [row.model_dump(mode="json") for row in used.table]
    served = [row.model_dump() for row in served_in_run(workspace, run.id)]
    told = used.told.model_dump(mode="json")
    return {"n_tasks": n_tasks_of(workspace, run).model_dump(), **told, "used": table, "served": served}


def steps_of(workspace: Workspace, run_id: str) -> list[StepRow]:
    """Return the steps of a run as table rows, each with the candidate that it tried."""
    return [step_row(step) for step in workspace.store.runs.list_steps(run_id)]


def _narrowed(table: Sequence[str], spare: Sequence[str], width: int | None) -> list[str]:
    """Return a table, head first, without as many of its spare columns as it takes to fit.

    A spare column begins with a blank and is as wide as its name; the lines of notes below a row are left as they are.
    """
    rows, dropped = list(table), list[str]()
    for name in spare:
        if width is None or max(len(row.partition("\n")[0]) for row in rows) <= width:
            break
        start = rows[0].index(f" {name}")
        rows = [row[:start] + row[start + 1 + len(name) :] for row in rows]
        dropped.append(name)
    return [*rows, f"(too narrow for: {', '.join(dropped)})"] if dropped else rows


def _kind(run: Run) -> str:
    return " (a proposal that was asked for in a session)" if run.kind == "proposal" else ""


def _concluded(run: Run) -> str:
    ended = run.conclusion
    return f"its search was ended {ended}: {ended.why}, at {ended.at[:16]}Z" if ended else ""


def _outcome(run: Run) -> str:
    if not run.result:
        return ""
    if run.kind == "proposal":
        proposed = Proposed.model_validate_json(run.result)
        return f"outcome: {proposed.status}; candidate {proposed.candidate_id or '-'}"
    replayed = Replayed.model_validate_json(run.result)
    verdict = replayed.verdict or "no verdict"
    return f"outcome: {verdict}; candidate {replayed.candidate_id or '-'}; {replayed.reason}"


def _used(workspace: Workspace, used: Account, width: int | None) -> list[str]:
    """Return the table of what a run used: its own calls, those of its part of a promotion test, and both."""
    table = [_USED, *_part("the run", used.own)]
    for part, rows in used.tests:
        table += _part(f"test {part.test_id}", rows)
    both = together(used.rows)
    table += [_amounts("both together", both)] if used.tests else []
    lines = [*_narrowed(table, _USED_SPARE, width), *([""] if used.tests else [])]
    lines += [_test(workspace, part) for part, _ in used.tests]
    cached = [f"{row.role} {row.stage} {row.tokens_cached:,}" for row in used.rows if row.tokens_cached]
    lines += [f"of tokens_in were cached: {'; '.join(cached)}"] if cached else []
    price = told_price(both.usd_known, both.n_unpriced, both.n_calls, used.told.usd_at_most)
    lines.append(f"{told_sends(used.told)}; {price}")
    return [*lines, *filter(None, [_asked_again(used), told_repeats(used.told)])]


def _test(workspace: Workspace, part: Part) -> str:
    """Return in one line which part of a promotion test is a run's, and what the whole of it took."""
    decision = workspace.store.decisions.latest_in(part.test_id)
    verdict = f" ({decision.verdict})" if decision else ""
    return (
        f"its promotion test, {part.test_id}{verdict}: charged here with {part}, which this run asked for; "
        f"the whole test has used {used_by(workspace.store, part.test_id)}"
    )


def _asked_again(used: Account) -> str:
    """Return how many replies of each role could not be used and were asked for again; empty where none was."""
    counts: Counter[str] = Counter()
    for row in used.rows:
        counts[row.role] += row.n_again
    told = ", ".join(f"{role} {n:,}" for role, n in sorted(counts.items()) if n)
    return f"asked again, as the reply could not be used: {told}" if told else ""


def _part(label: str, rows: Sequence[LedgerRow]) -> list[str]:
    calls = [_amounts(f"{row.role:<9} {row.stage}", row) for row in rows if row.stage != FREE_STAGE]
    checks = [_amounts("checks by commands", row) for row in rows if row.stage == FREE_STAGE]
    return [*calls, _amounts(label, together(rows)), *checks]


def _amounts(label: str, row: LedgerRow) -> str:
    usd = told_cell(row) if row.n_unpriced else f"{row.usd_known:.{4 if row.usd_known < _CENTS_FROM else 2}f}"
    return (
        f"{label:<21} {row.n_calls:>5} {row.n_missing:>7} {row.n_failed:>6} {row.n_repeated:>8} "
        f"{row.tokens_in:>9} {row.tokens_out:>10} {usd}"
    )


def _budget(workspace: Workspace, run: Run, used: Account) -> list[str]:
    """Return a run's caps with what was charged to them and used, and how sends failed, where there is such."""
    scopes = [run.id, *(part.test_id for part, rows in used.tests if together(rows).n_failed)]
    failures = workspace.store.calls.failures(scopes)._replace(n=used.told.n_failed)
    spent, both = used.charged, together(used.rows)
    price = told_price(both.usd_known, both.n_unpriced, both.n_calls)
    sends, tokens = counted(spent.calls, "send"), counted(both.tokens_in + both.tokens_out, "token")
    told = f"used {sends}, {tokens}, {price}, {spent.seconds / 60:.1f} minutes"
    told += f"; charged {told_most(spent)}" if run.caps.bound_each_call else ""
    lines = [f"caps: {run.caps.options}; {told}"] if run.caps != NO_CAPS else []
    return [*lines, told_failures(failures)] if failures.n else lines


def _start(run: Run, steps: Sequence[StepRecord]) -> list[str]:
    """Return in a line what the steps set out from, and which scores theirs are."""
    metric, start = Config.of_run(run.config).metric, steps[0].baseline if steps else None
    hard, soft = (start.hard, start.soft) if start else (None, None)
    if not steps and run.result:
        # A search may end before its first step.
        result = Replayed.model_validate_json(run.result)
        hard, soft = result.baseline_hard, result.baseline_soft
    if hard is None or soft is None:
        return []
    return [f"scores on val are {metric}; the base version had hard {hard:.3f}, soft {soft:.3f}"]


def _step(step: StepRecord) -> str:
    candidate = "     -" if step.candidate is None else f"{step.candidate:6.3f}"
    trained = step.train_current or step.train
    train = f"{trained.hard:5.3f}" if trained.n else "    -"
    candidate_id = (f"candidate {step.candidate_id}",) if step.candidate_id else ()
    notes = "".join(f"\n     {note}" for note in (*candidate_id, *step.unmatched, *step.unusable))
    kind = {"step": "", "slow": "slow update: ", "meta": "meta note: "}[step.kind]
    return (
        f"{step.n:>4} {step.epoch:>5} {step.budget:>6} {step.n_applied:>5} {train}  {candidate}    "
        f"{step.current:5.3f}   {step.best:5.3f}  {kind}{step.verdict}{notes}"
    )
