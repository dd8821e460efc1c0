"""Check: where skills depart from the Agent Skills specification, or from what it recommends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.skills.linting import LintedAll, LintedFolder, lint_skills
from skillopt_mcp.operations.skills.linting_changes import LintedChanged, lint_changed
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which skills, by their paths or as those that differ from a base, and whether advice counts."""

    paths: Sequence[str] = ()
    strict: bool = False
    changed: str | None = None


def run(options: Options) -> int:
    """Return 0 when there is no error in them (and, if strict, nothing to advise), else 1."""
    with Workspace(options.store_path) as workspace:
        if options.changed is None:
            result = lint_skills(workspace, options.paths)
        else:
            result = lint_changed(workspace, options.changed)
    if options.json:
        terminal.emit(result, options)
    else:
        for each in result.skills:
            for finding in each.findings:
                terminal.say(f"{each.skill}: {finding.severity}: {finding.text}")
        if isinstance(result, LintedChanged):
            _say_gone(result)
        terminal.say(_totals(result) if result.skills or options.changed is None else "No skill to check has changed.")
    return 1 if result.errors or (options.strict and result.advice) else 0


def _say_gone(result: LintedChanged) -> None:
    for folder in result.deleted:
        terminal.say(f"{folder}: deleted, nothing to check")
    for folder, new in result.renamed.items():
        terminal.say(f"{folder}: is {new} now")


def _totals(result: LintedAll) -> str:
    n = sum(not isinstance(each, LintedFolder) for each in result.skills)
    found = f"{counted(result.errors, 'error')}, {result.advice} advice"
    return f"{counted(n, 'skill')}: {found if result.errors or result.advice else 'nothing is wrong'}."
