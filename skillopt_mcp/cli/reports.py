"""Reports: on a terminal, the scores of a run, and the verdict of a promotion test and what one would take."""

from __future__ import annotations

from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.records.evidence import TestReport
from skillopt_mcp.records.results import Foreseen, Replayed
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
