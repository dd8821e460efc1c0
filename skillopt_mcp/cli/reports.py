"""Reports: a promotion test on a terminal: its verdict in two lines and one picture, and what it would take."""

from __future__ import annotations

from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.records.evidence import TestReport
from skillopt_mcp.records.results import Foreseen
from skillopt_mcp.verdicts import bars, caveats, describe, describe_foreseen, explain, label

_STYLES = {"better": "bold green", "no_worse": "bold green", "better_here": "bold green", "worse": "bold red"}


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
