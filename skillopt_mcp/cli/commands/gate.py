"""Gate: each skill that differs between two git revisions, old against new."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

from skillopt_mcp.actions.forecasts import estimate_test, foresee
from skillopt_mcp.actions.gate.gating import Gate
from skillopt_mcp.actions.gate.pairs import GateOptions
from skillopt_mcp.actions.gate.recorded import check_recorded, repeat_cases, write_evidence
from skillopt_mcp.cli.command import PROGRAM, TARGET, Arg, Flag, WrongUsage, command
from skillopt_mcp.cli.github import GateEvent, publish, read_event
from skillopt_mcp.cli.reports import show_report
from skillopt_mcp.cli.spending import Planned, Sending, mark_simulation
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.core.calls import Role
from skillopt_mcp.core.errors import SkillOptError
from skillopt_mcp.core.gating import Gated, Require
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.gates.recorded import MAX_SPOT
from skillopt_mcp.gates.verdicts import describe_foreseen
from skillopt_mcp.reports.pull_request import digest_path, render_comment, render_junit
from skillopt_mcp.reports.rendering import html_page, write_page
from skillopt_mcp.tasks.judges.judging import n_votes
from skillopt_mcp.workspace.evidence import is_simulated
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
    summary: Annotated[str | None, Flag("write what it found as Markdown, by id and tag where held out", "FILE")] = None
    junit: Annotated[str | None, Flag("write the verdicts as JUnit XML", "FILE")] = None
    result: Annotated[str | None, Flag("write what it found as JSON", "FILE")] = None
    page: Annotated[str | None, Flag("write a page with all tasks and answers, held-out ones, too", "FILE")] = None
    github: Annotated[bool, Flag("test what the event of a GitHub workflow names, and post the verdict")] = False
    artifact: Annotated[str | None, Flag("on workflow_run: the --result of a fork's run, to be posted", "FILE")] = None
    recorded: Annotated[bool, Flag("read the recorded evidence again: needs no model, key or store")] = False
    spot: Annotated[
        int | None, Flag("with --recorded: ask both texts once more at so many cases by chance", bare=3)
    ] = None
    write_evidence: Annotated[bool, Flag("write the evidence next to each skill")] = False
    against_model: Annotated[
        str | None, Flag("compare --target and this model on the text of the head", "BACKEND:NEW")
    ] = None

    def run(self, terminal: Terminal) -> Gated | Planned:
        if (self.spot is not None and not self.recorded) or (self.write_evidence and self.head != "worktree"):
            raise WrongUsage("--spot goes with --recorded, and --write-evidence with --head worktree")
        if self.against_model and (self.recorded or self.write_evidence or not self.target):
            raise WrongUsage("--against-model needs --target, and goes with neither --recorded nor --write-evidence")
        if self.spot is not None and not 1 <= self.spot <= MAX_SPOT:
            raise WrongUsage(f"--spot must be 1-{MAX_SPOT}, got {self.spot}")
        if self.write_evidence:  # it holds the outcome of each case, of which an author learns one bit
            terminal.require_person("gate --write-evidence")
        if self.page:
            terminal.require_viewer("gate --page", self.page)
        for file in filter(None, (self.summary, self.junit, self.result, self.page)):
            if not Path(file).expanduser().absolute().parent.is_dir():
                raise WrongUsage(f"there is no folder for {quoted(file)}: make it, or name another place")
        event = None
        found: Gated | Planned | None = None
        if self.github:
            try:
                event = read_event(Path.cwd(), Path(self.artifact) if self.artifact else None)
            except SkillOptError as error:
                found = Gated(base="", head="", require=self.require, stopped=str(error))
            else:
                self.base, self.head = event.base, event.head
                self.pr = f"github:{event.api.repository}#{event.number}" if event.number else None
                found = Gated(base="", head="", require=self.require) if event.nothing else event.found
        found = found or self._run(terminal, event)
        if isinstance(found, Planned):
            return found
        summary = f"{event.nothing}\n" if event and event.nothing else render_comment(found)
        result = storable(json.dumps(found.model_dump(by_alias=True), ensure_ascii=False))
        for path, text in ((self.summary, summary), (self.junit, render_junit(found)), (self.result, result)):
            if path:
                try:
                    Path(path).expanduser().write_text(text, "utf-8")
                except OSError as error:  # the verdict is not lost for that
                    terminal.note(f"warning: {quoted(path)} cannot be written ({error.strerror})")
        if event:
            for line in [event.nothing, *publish(event, None if event.nothing else found)]:
                terminal.note(line)
        return found

    def _run(self, terminal: Terminal, event: GateEvent | None) -> Gated | Planned:
        target = "\n".join(filter(None, (self.target, self.against_model)))
        try:
            with terminal.workspace(
                target=target or None, judge=self.judge, caps=self.caps, concurrency=self.concurrency, ray=self.cluster
            ) as workspace:
                found = self._test(workspace, terminal, event)
        except SkillOptError as error:
            found = Gated(
                base=self.base or "", head=event.head if event else "", require=self.require, stopped=str(error)
            )
        if isinstance(found, Planned):
            return found
        words = [PROGRAM, "gate", *self.paths]
        words += ["--base", found.base, "--head", found.head or "worktree"] if found.base else []
        for name in ("require", "tasks", "pr", "target", "judge", "against_model", "spot", "ray"):
            words += [f"--{name.replace('_', '-')}", str(value)] if (value := getattr(self, name)) else []
        words += ["--recorded"] * self.recorded + ["--write-evidence"] * self.write_evidence
        found = found.model_copy(update={"command": shlex.join(words)})
        return found.for_agents() if terminal.is_agents else found

    def _test(self, workspace: Workspace, terminal: Terminal, event: GateEvent | None) -> Gated | Planned:
        store, models = workspace.store, workspace.models
        options = GateOptions(
            self.paths, self.base, "" if self.head == "worktree" else self.head, self.require,
            Path(self.tasks).expanduser() if self.tasks else None,
            self.pr or (f"against {self.against_model}" if self.against_model else ""),
            (lambda path: None if event.counts is None else event.counts.get(digest_path(path), 0))
            if event and event.number else None,
            f"Old is this text with {self.target}, new is it with {self.against_model}." * bool(self.against_model),
        )  # fmt: skip
        checked = check_recorded(Path.cwd(), options) if self.recorded else None
        if checked and (self.spot is None or not any(each.verdict for each in checked.skills)):
            return checked
        gate = Gate(store, models, workspace.place, options)
        calls: dict[Role, int] = {"target": 0, "judge": 0}
        if checked and self.spot:
            self.name_models(terminal, models)
            for skill in checked.skills:
                if skill.verdict and (due := gate.due.get(skill.path)):
                    calls["target"] += 2 * self.spot
                    calls["judge"] += 2 * self.spot * max(map(n_votes, due.tasks))
            planned = self.agree(terminal, workspace, calls)
            return planned or repeat_cases(store, models, gate, checked, self.spot)
        if gate.tests:
            self.name_models(terminal, models)
        for skill in gate.gated.skills if gate.tests or self.dry_run else ():
            if skill.why:
                terminal.note(f"{' '.join(skill.path.split())}: {skill.why}")
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
        with Watch(terminal, "SIMULATION" if gate.tests and mark_simulation(models) else "") as watch:
            models.on_reply = watch.on_reply
            found = gate.run(watch.notify)
        for line in write_evidence(store, gate) if self.write_evidence else ():
            terminal.note(line)
        if self.page:
            from skillopt_mcp.reports.facts import gather  # noqa: PLC0415 (slow)

            facts = [gather(store, workspace.place, each.report.test_id) for each in found.skills if each.report]
            write_page(html_page(facts, store=terminal.store), Path(self.page).expanduser())
        return found

    def show(self, result: Gated | Planned, terminal: Terminal) -> None:
        if isinstance(result, Planned):
            return result.show(terminal)
        for skill in result.skills:
            number = f"{'' if skill.number_known else 'at least '}test {skill.test_number}"
            claim = f"; {skill.claim + ', ' if skill.claim else ''}{number}" if skill.report else ""
            change = "two models" if self.against_model else skill.change
            terminal.say(
                f"{skill.outcome.upper().replace('_', ' ')}: {' '.join(skill.path.split())} ({change}{claim})",
                _STYLES[skill.outcome],
            )
            if skill.report:
                show_report(terminal, skill.report, simulated=is_simulated(skill.report.backend))
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
