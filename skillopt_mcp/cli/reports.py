"""Reports: on a terminal, the scores of a run, and the verdict of a promotion test and what one would take."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.records.evidence import TestReport
from skillopt_mcp.records.results import Foreseen, Replayed, UnitRow
from skillopt_mcp.verdicts import bars, caveats, describe, describe_foreseen, explain, label

_STYLES = {"better": "bold green", "no_worse": "bold green", "better_here": "bold green", "worse": "bold red"}
_BLOCKS = "▁▂▃▄▅▆▇█"


def show_report(
    terminal: Terminal, report: TestReport | None, *, simulated: bool = False, explained: bool = False
) -> None:
    """Print the verdict of a test; with `explained` its mathematics, too."""
    if report is None:
        terminal.say("Not tested.", "bold")
        return
    terminal.say(f"{label(report)}{' (SIMULATION)' if simulated else ''}", _STYLES.get(report.verdict or "", "bold"))
    for line in [*describe(report), *bars(report), *caveats(report), *(explain(report) if explained else ())]:
        terminal.say(line)


def show_foreseen(terminal: Terminal, foreseen: Foreseen) -> None:
    """Print what a test could find, and what it takes."""
    for line in describe_foreseen(foreseen):
        terminal.note(line)


def show_scores(terminal: Terminal, run: Replayed) -> None:
    """Print the scores on val by step as a line of blocks, the highest for 1; nothing for a run without a step."""
    if run.baseline is None or not run.steps:
        return
    scores = [run.baseline, *(step.current for step in run.steps)]
    blocks = "".join(_BLOCKS[min(int(score * len(_BLOCKS)), len(_BLOCKS) - 1)] for score in scores)
    terminal.say(f"Val score by step: {blocks} {scores[0]:.2f} → {scores[-1]:.2f}, best {run.steps[-1].best:.2f}.")


def show_units(terminal: Terminal, units: Sequence[UnitRow]) -> None:
    """Print the tasks of a test, worse first, then better, then same: how many attempts passed, or the mean score."""

    def place(unit: UnitRow) -> tuple[int, float]:
        change = fmean(unit.after or [0]) - fmean(unit.before or [0])
        return ("worse", "better", "same").index(unit.outcome), -abs(change)

    def score(scores: Sequence[float]) -> str:
        return f"{sum(scores):.0f}/{len(scores)}" if {*scores} <= {0, 1} else f"{fmean(scores):.2f}"

    rows = [
        (each.outcome, score(each.before), score(each.after), each.task, each.prompt)
        for each in sorted(units, key=place)
    ]
    terminal.table(("", "old", "new", "task", "prompt"), rows, n_long=2)
