"""Check: where skills depart from the Agent Skills specification, or from what it recommends."""

from __future__ import annotations

from typing import Annotated

from skillopt_mcp.cli.command import Arg, Command, Flag, WrongUsage, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.text import counted
from skillopt_mcp.workspace.linting import LintedAll, LintedChanged, LintedFolder, lint_changed, lint_skills


@command("check", example="check .claude/skills")
class Check(Command):
    """Check skills by the Agent Skills specification."""

    paths: Annotated[
        tuple[str, ...],
        Arg("a skill's folder or a file in it, a folder of skills, a memory file, or a known skill's name", "PATH"),
    ] = ()
    changed: Annotated[str | None, Flag("the skills that changed, by git, since the branch left BASE", "BASE")] = None
    strict: Annotated[bool, Flag("advice counts, too: exit with 1 for it")] = False

    def run(self, terminal: Terminal) -> LintedAll:
        if bool(self.paths) is (self.changed is not None):
            raise WrongUsage("check needs either PATH or --changed BASE")
        with terminal.workspace() as workspace:
            if self.changed is None:
                return lint_skills(workspace.store, workspace.place, self.paths)
            return lint_changed(workspace.store, workspace.place, self.changed)

    def show(self, result: LintedAll, terminal: Terminal) -> None:
        for each in result.skills:
            for finding in each.findings:
                terminal.say(f"{each.skill}: {finding.severity}: {finding.text}")
        if isinstance(result, LintedChanged):
            for folder in result.deleted:
                terminal.say(f"{folder}: deleted, nothing to check")
        n = sum(not isinstance(each, LintedFolder) for each in result.skills)
        terminal.say(f"{counted(n, 'skill')}: {counted(result.errors, 'error')}, {result.advice} advice.")

    def exit_code(self, result: LintedAll) -> int:
        return 1 if result.errors or (self.strict and result.advice) else 0
