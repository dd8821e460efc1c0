"""Runs: which runs there were, what they reached and what they used."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.spending.accounting import told_repeats, told_sends
from skillopt_mcp.operations.spending.charging import told_cell, told_price
from skillopt_mcp.operations.spending.listing_runs import RunRow, list_runs
from skillopt_mcp.operations.spending.using import Used, in_all
from skillopt_mcp.operations.workspace import Workspace

SHOWN = 20
_NOUNS = {"calibrate": "calibration"}
_CONTESTS = ("calibrate", "credit", "race", "rescue")
_TOGETHER = (
    "sent, answered, failed, tokens and usd: of a run and its part of a promotion test together; 'show RUN' tells them "
    "apart"
)
# What a column says that is told only where a row says something else.
_BRIEF = ("run", "began", "status", "best", "verdict", "skill")
_SPARE = {"test": "-", "answered": "all", "settings": "-"}


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Whose runs: a skill's, or all skills'; and whether more than the newest are to be shown."""

    skill: str | None = None
    all: bool = False


def run(options: Options) -> int:
    """Return 0 when they were listed."""
    with Workspace(options.store_path) as workspace:
        found = list_runs(workspace, options.skill)
    if options.json:
        terminal.emit(found, options)
        return 0
    if found.runs:
        _say(found.runs if options.all else found.runs[:SHOWN], len(found.runs), options)
    for test in found.tests:
        terminal.note(f"shared test {test.contest}, whole, in parts charged to those who asked for them: {test}")
    # It is of the whole store, whoever asks; nothing of it says which skill it was for.
    if found.beside and not options.skill:
        terminal.note(_told(found.beside))
    advice = terminal.advice(found.next_step, options)
    terminal.note(f"Next: {advice}" if found.runs else advice)
    if found.conclude:
        terminal.note(f"Or search no more: {terminal.advice(found.conclude, options)}")
    return 0


def _say(shown: Sequence[RunRow], n_runs: int, options: Options) -> None:
    """Print the newest runs, and what their cells do not tell."""
    columns, rows = _table(shown)
    if not terminal.say_table(columns, rows, n_long=2, brief=_BRIEF):
        terminal.note(options.on_store("The rest of a run: skillopt-mcp show RUN"))
    elif any(row.n_test_calls for row in shown):
        terminal.note(_TOGETHER)
    for row in shown:
        if told := _incomplete(row):
            terminal.note(f"{row.id}: {told}")
    if n_runs > len(shown):
        named = f" {shlex.quote(options.skill)}" if options.skill else ""
        terminal.note(options.on_store(f"{n_runs - len(shown):,} older: skillopt-mcp runs{named} --all"))


def _told(beside: Sequence[Used]) -> str:
    """Return in one line what was used beside runs, by kind."""
    names = (used.contest.partition("-")[0] for used in beside)
    kinds = Counter(name if name in _CONTESTS else "test" for name in names)
    named = ", ".join(counted(n, _NOUNS.get(kind, kind)) for kind, n in kinds.items())
    return f"Beside runs, this store has used {in_all(beside)}: {named} ('--json' lists them)"


def _incomplete(row: RunRow) -> str:
    """Return what the cells of a run do not tell: sends without an answer, unknown prices, repeats, changes."""
    price = told_price(row.usd_known, row.n_unpriced, row.n_calls, row.usd_at_most)
    is_whole = price == told_price(row.usd_known, 0, row.n_calls)
    told = [told_sends(row) if row.n_unanswered else "", "" if is_whole else price, told_repeats(row), *row.changes]
    return "; ".join(filter(None, told))


def _table(rows: Sequence[RunRow]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the cells of a table of runs; a column that would say nothing is left out."""
    cells = [_cells(row) for row in rows]
    columns = [name for name in cells[0] if any(row[name] != _SPARE.get(name) for row in cells)]
    return columns, [[row[name] for name in columns] for row in cells]


def _cells(row: RunRow) -> dict[str, str]:
    is_tested = row.test_before is not None and row.test_after is not None
    return {
        "run": row.id,
        "skill": row.skill,
        "began": row.started_at[:16].replace("T", " "),
        "status": row.status if row.kind == "replay" else f"{row.status} (proposal)",
        "steps": str(row.n_steps) if row.n_planned is None else f"{row.n_steps} of {row.n_planned}",
        "best": "-" if row.best is None else f"{row.best:.3f}",
        "test": f"{row.test_before:.3f} > {row.test_after:.3f}" if is_tested else "-",
        "verdict": row.verdict or "-",
        "sent": f"{row.n_sent:,}",
        "answered": "all" if row.n_answered == row.n_sent else f"{row.n_answered:,}",
        "failed": f"{row.n_failed:,}",
        "tokens": f"{row.tokens:,}",
        "usd": told_cell(row),
        "target": row.target,
        "settings": " ".join(f"{name}={_said(value)}" for name, value in row.config.items()) or "-",
    }


def _said(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)
