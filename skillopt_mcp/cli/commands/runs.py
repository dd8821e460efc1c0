"""Runs: which runs there were, what they reached and what they used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.operations.listing_runs import RunRow, Used, list_runs
from skillopt_mcp.operations.workspace import Workspace

_CONTESTS = ("calibrate", "credit", "race", "rescue")
_TOGETHER = "calls, failed, tokens and usd: of a run and its promotion test together; 'show RUN' tells them apart"


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Whose runs: a skill's, or all."""

    skill: str | None = None


def run(options: Options) -> int:
    """Return 0 when they were listed."""
    with Workspace(options.store_path) as workspace:
        found = list_runs(workspace, options.skill)
    if options.json:
        terminal.emit(found)
        return 0
    if found.runs:
        columns = (
            "run",
            "skill",
            "began",
            "status",
            "steps",
            "best",
            "verdict",
            "calls",
            "failed",
            "tokens",
            "usd",
            "target",
        )
        terminal.say_table(columns, [_cells(row) for row in found.runs])
        if any(row.n_test_calls for row in found.runs):
            terminal.note(_TOGETHER)
    if found.beside:
        terminal.note(_told(found.beside))
    advice = terminal.advice(found.next_step, options)
    terminal.note(f"Next: {advice}" if found.runs else advice)
    return 0


def _told(beside: Sequence[Used]) -> str:
    """Return in one line what was used beside runs, by kind."""
    names = (used.contest.partition("-")[0] for used in beside)
    kinds = Counter(name if name in _CONTESTS else "test" for name in names)
    named = ", ".join(f"{n} {kind}" for kind, n in kinds.items())
    prices = [used.usd for used in beside if used.usd is not None]
    usd = f"${sum(prices):.2f}" if len(prices) == len(beside) else "price unknown"
    n_calls, tokens = sum(used.n_calls for used in beside), sum(used.tokens for used in beside)
    return (
        f"Beside runs, this store has used {n_calls:,} calls, {tokens:,} tokens, {usd}: {named} ('--json' lists them)"
    )


def _cells(row: RunRow) -> tuple[str, ...]:
    return (
        row.id,
        row.skill,
        row.started_at[:16].replace("T", " "),
        row.status if row.kind == "replay" else f"{row.status} (proposal)",
        str(row.n_steps),
        "-" if row.best is None else f"{row.best:.3f}",
        row.verdict or "-",
        f"{row.n_calls:,}",
        f"{row.n_failed:,}",
        f"{row.tokens:,}",
        "?" if row.usd is None else f"{row.usd:.2f}",
        row.target,
    )
