"""Check: what hosts make of the skills of a repository, and what the evals of each can show."""

from __future__ import annotations

import shlex
from typing import Annotated

from skillopt_mcp.actions.skill_checks import CheckedSkills, check_skills
from skillopt_mcp.cli.command import Arg, Command, Flag, WrongUsage, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.text import counted
from skillopt_mcp.workspace.linting import Linted

_FEW = 10
"""So many skills are shown with all findings; of more each has one line."""
_SHOWN = 5


@command("check", example="check .claude/skills")
class Check(Command):
    """Check the skills of a repository by the specification and what hosts do, and what their evals can show."""

    paths: Annotated[
        tuple[str, ...],
        Arg(
            "a repository, a folder of skills, a skill's folder or a file in it, a memory file, or a known skill's "
            "name (default: the folder you are in)",
            "PATH",
        ),
    ] = ()
    changed: Annotated[str | None, Flag("the skills that changed, by git, since the branch left BASE", "BASE")] = None
    strict: Annotated[bool, Flag("advice counts, too: exit with 1 for it")] = False

    def run(self, terminal: Terminal) -> CheckedSkills:
        if self.paths and self.changed is not None:
            raise WrongUsage("check takes either PATH or --changed BASE")
        with terminal.workspace() as workspace:
            try:
                return check_skills(workspace.store, workspace.place, self.paths or (".",), self.changed)
            except BadInput as error:
                raise WrongUsage(str(error)) from None

    def show(self, result: CheckedSkills, terminal: Terminal) -> None:
        is_long = result.n_skills > _FEW
        for each in result.skills:
            for line in _list_lines(each, is_long=is_long):
                terminal.say(f"{each.path}: {line}")
        for folder in result.deleted:
            terminal.say(f"{folder}: deleted, nothing to check")
        bare = [each.path for each in result.skills if each.is_skill and not each.evals["files"]]
        if bare:
            more = f" and {len(bare) - _SHOWN:,} more" if len(bare) > _SHOWN else ""
            verb = "has" if len(bare) == 1 else "have"
            terminal.say(f"{counted(len(bare), 'skill')} {verb} no evals: {', '.join(bare[:_SHOWN])}{more}")
        n_skills = counted(result.n_skills, "skill")
        terminal.say(f"{n_skills}: {counted(result.errors, 'error')}, {result.advice:,} advice.")
        if is_long and (result.errors or result.advice):
            terminal.note(f"Next, all of the first one: skillopt-mcp check {shlex.quote(result.skills[0].path)}")
        elif is_long and bare:
            terminal.note(f"Next, give one evals: skillopt-mcp tasks add {shlex.quote(bare[0])} FILE")

    def exit_code(self, result: CheckedSkills) -> int:
        if not result.n_skills and self.changed is None:
            return 2
        return 1 if result.errors or (self.strict and result.advice) else 0


def _list_lines(skill: Linted, *, is_long: bool) -> list[str]:
    """The findings of a skill and what its evals can show; in a long list all in one line."""
    findings = [f"{each.severity}: {each.text}" for each in skill.findings]
    evals = [f"evals: {each['path']} is refused: {each['refused']}" for each in skill.evals["files"] if each["refused"]]
    if skill.evals["cases"]:
        from skillopt_mcp.actions.suites import describe_suites  # noqa: PLC0415

        evals.append(f"evals: {describe_suites(skill.evals)}")
    if not is_long:
        return [*findings, *evals]
    worst = sorted(findings, reverse=True)[:1]  # an error comes after advice
    more = [f"{len(findings) - 1} more"] if len(findings) > 1 else []
    return ["; ".join([*worst, *more, *evals]) or "no finding"]
