"""Reports: on a terminal, the verdict of a test; of whatever there is, the page."""

from __future__ import annotations

import hashlib
import re
import webbrowser
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.errors import SkillOptError
from skillopt_mcp.core.evidence import TestReport
from skillopt_mcp.core.notes import describe_note
from skillopt_mcp.core.results import Baseline
from skillopt_mcp.core.text import counted
from skillopt_mcp.gates.verdicts import bars, caveats, describe, explain, label

if TYPE_CHECKING:
    from skillopt_mcp.reports.facts import Facts

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


def show_baseline(terminal: Terminal, baseline: Baseline, *, simulated: bool) -> None:
    """Print how many tasks of each tag are solved, which fail, and what train tasks miss."""
    label, n = " (SIMULATION)" if simulated else "", counted(baseline.attempts, "attempt")
    terminal.say(f"{baseline.headline}{label}.", "bold")
    terminal.say(
        f"Baseline of {baseline.skill}, version {baseline.version}{label}: {n} at each of {len(baseline.tasks)} tasks."
    )
    outcomes = ("solved", "flaky", "failing", "unanswered")
    found = Counter[tuple[str, bool, str]]((each.tag, each.held_out, each.outcome) for each in baseline.tasks)
    rows = [
        ("held out" if held_out else "train", *(str(found[tag, held_out, each]) for each in outcomes), tag or "no tag")
        for tag, held_out in sorted({(tag, held_out) for tag, held_out, _ in found})
    ]
    terminal.table(("", *outcomes, "tag"), rows)
    failing = [each for each in baseline.tasks if each.outcome in ("failing", "flaky")]
    if failing:
        terminal.say("Not solved:", "bold")
        rows = [(f"{each.passed}/{each.of}", "held out" if each.held_out else "train", each.prompt) for each in failing]
        terminal.table(("passed", "", "prompt"), rows)
    if baseline.triggering:
        terminal.say(f"Opened as the tasks ask: {baseline.triggering.text}.")
    if baseline.failing:
        terminal.say(f"{baseline.failing[:1].upper()}{baseline.failing[1:]}.")
    for note in baseline.notes:
        terminal.note(f"note: {describe_note(note)}.")


def write_report(store_path: Path, id: str) -> Path:
    """Write the page on a thing of a store next to that, and return its path."""
    from skillopt_mcp.reports.facts import gather  # noqa: PLC0415
    from skillopt_mcp.reports.rendering import html_page, write_page  # noqa: PLC0415
    from skillopt_mcp.workspace.workspace import Workspace  # noqa: PLC0415

    with Workspace(store_path) as workspace:
        facts = [gather(workspace.store, workspace.place, id)]
    path = page_path(store_path, facts)
    write_page(html_page(facts, store=str(store_path)), path)
    return path


def show_page(terminal: Terminal, id: str) -> None:
    """Write the page on a thing that has just ended, for a person, and print its path."""
    if terminal.is_agents:
        return
    try:
        terminal.say(f"Report: {write_report(terminal.store_path, id)}")
    except (OSError, SkillOptError) as error:
        terminal.note(f"warning: no report was written: {error}.")


def page_path(store_path: Path, facts: Sequence[Facts]) -> Path:
    """Where a page is when no place is named: next to the store, in a folder of the store's name."""
    name = "+".join(each.id for each in facts) or "skills"
    file = re.sub("[^A-Za-z0-9+-]", "-", name)[:100]
    # Two skills of one name, or whose names differ in what a file's name leaves out, have two pages.
    if file != name or any(each.id == each.skill.name for each in facts):
        key = "\n".join(f"{each.id} {each.skill.path}" for each in facts)
        file += f"-{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    return store_path.parent / "reports" / store_path.name / f"{file}.html"


def open_page(terminal: Terminal, address: str) -> None:
    """Open a page in the browser, or say that there is none."""
    if not webbrowser.open(address):
        terminal.note(f"No browser was found: open {address} in one of yours.")
