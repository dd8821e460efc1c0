"""Gate: each skill that differs between two git revisions, old against new."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from skillopt_mcp.actions.forecasts import estimate_test, foresee
from skillopt_mcp.actions.gate.gating import Gate
from skillopt_mcp.actions.gate.pairs import GateOptions
from skillopt_mcp.cli.command import PROGRAM, TARGET, Arg, Flag, command
from skillopt_mcp.cli.reports import show_report
from skillopt_mcp.cli.spending import Planned, Sending, mark_simulation
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.core.calls import Role
from skillopt_mcp.core.errors import SkillOptError
from skillopt_mcp.core.gating import Gated, Require
from skillopt_mcp.gates.verdicts import describe_foreseen
from skillopt_mcp.workspace.workspace import Workspace

_STYLES = {"passed": "green", "neutral": "yellow", "failed": "bold red", "not_run": "bold red"}


@command("gate", example=f"gate --base main --target {TARGET}")
class GateRevisions(Sending):
    """Test each skill that differs between two git revisions, old against new, on the tasks of the repository."""

    paths: Annotated[tuple[str, ...], Arg("only skills at and below these paths (default: all)", "PATH")] = ()
    base: Annotated[str | None, Flag("the revision that the head left (default: the main branch)", "REV")] = None
    head: Annotated[str, Flag("the revision to test, or worktree: with what is not committed", "REV")] = "worktree"
    require: Annotated[Require, Flag("a verdict below that ends with exit code 1")] = "any-but-worse"
    tasks: Annotated[str | None, Flag("other tasks: a file of tasks or evals, or a store", "FILE")] = None
    pr: Annotated[str | None, Flag("the pull request, whose tests are numbered together", "KEY")] = None

    def run(self, terminal: Terminal) -> Gated | Planned:
        given = {"target": self.target, "judge": self.judge, "caps": self.caps, "concurrency": self.concurrency}
        try:
            with terminal.workspace(**given) as workspace:
                found = self._test(workspace, terminal)
        except SkillOptError as error:
            found = Gated(base=self.base or "", head="", require=self.require, stopped=str(error))
        if isinstance(found, Planned):
            return found
        words = [PROGRAM, "gate", *self.paths]
        words += ["--base", found.base, "--head", found.head or "worktree"] if found.base else []
        for name in ("require", "tasks", "pr", "target", "judge"):
            words += [f"--{name}", value] if (value := getattr(self, name)) else []
        found = found.model_copy(update={"command": shlex.join(words)})
        return found.for_agents() if terminal.is_agents else found

    def _test(self, workspace: Workspace, terminal: Terminal) -> Gated | Planned:
        store, models = workspace.store, workspace.models
        options = GateOptions(
            self.paths, self.base, "" if self.head == "worktree" else self.head, self.require,
            Path(self.tasks).expanduser() if self.tasks else None, self.pr or "",
        )  # fmt: skip
        gate = Gate(store, models, workspace.place, options)
        calls: dict[Role, int] = {"target": 0, "judge": 0}
        self._is_simulated = bool(gate.tests or models.has_backend("target")) and bool(mark_simulation(models))
        if gate.tests:
            self.name_models(terminal, models)
        for skill in gate.gated.skills if gate.tests or self.dry_run else ():
            if skill.why:
                terminal.note(f"{skill.path}: {skill.why}")
        for path, test in gate.tests.items():
            foreseen = foresee(store, models, test).model_copy(update={"beyond_permission": []})
            for line in describe_foreseen(foreseen, "of this pull request" if self.pr else "of this text"):
                terminal.note(f"{path}: {line}")
            for role, n in estimate_test(test, 0 if test.foreseen else store.tests.count_attempts(test.row.id)).items():
                calls[role] += n
        if planned := self.agree(terminal, workspace, calls) if gate.tests or self.dry_run else None:
            return planned
        for test in gate.tests.values() if workspace.place.caller == "person" else ():  # for others none is loaded
            self.agree_to_load(terminal, workspace, test.row.skill_id, test.row.version_id)
        with Watch(terminal, "SIMULATION" if self._is_simulated else "") as watch:
            models.on_reply = watch.on_reply
            return gate.run(watch.notify)

    def show(self, result: Gated | Planned, terminal: Terminal) -> None:
        if isinstance(result, Planned):
            return result.show(terminal)
        for skill in result.skills:
            number = f"{'' if skill.number_known else 'at least '}test {skill.test_number}"
            claim = f"{skill.claim + ', ' if skill.claim else ''}{number}" if skill.report else ""
            terminal.say(
                f"{skill.outcome.upper().replace('_', ' ')}: {skill.path} ({skill.change}{claim and '; '}{claim})",
                _STYLES[skill.outcome],
            )
            if skill.report:
                show_report(terminal, skill.report, simulated=self._is_simulated)
            worse = [f"Worse: {', '.join(each.id for each in skill.worse)}."] if skill.worse else []
            for line in filter(None, [*worse, skill.why, *skill.notes]):
                terminal.say(line)
        if result.stopped:
            terminal.say(f"Could not run: {result.stopped}", "bold red")
        elif not result.skills:
            terminal.say("No skill differs.")
        return None

    def exit_code(self, result: Gated | Planned) -> int:
        return result.exit_code if isinstance(result, Gated) else 0
