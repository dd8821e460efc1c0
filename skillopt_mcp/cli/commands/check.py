"""Check: where a skill departs from the Agent Skills specification."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.operations.linting import lint_skill
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which skill."""

    skill: str = ""


def run(options: Options) -> int:
    """Return 0 when nothing is wrong with it, else 1."""
    with Workspace(options.store_path) as workspace:
        result = lint_skill(workspace, options.skill)
    if options.json:
        terminal.emit(result)
    else:
        for problem in result.problems:
            terminal.say(f"- {problem}")
        found = f"{len(result.problems)} found" if result.problems else "nothing is wrong with it"
        terminal.note(f"{result.skill} ({result.version}): {found}.")
    return 1 if result.problems else 0
