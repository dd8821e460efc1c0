"""Evaluate: test one text of a skill against another on held-out tasks."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated

from pydantic import JsonValue

from skillopt_mcp.actions.baselines import estimate_baseline, measure_baseline
from skillopt_mcp.actions.candidates import rebase_candidate
from skillopt_mcp.actions.forecasts import estimate_test, foresee
from skillopt_mcp.actions.opening_tests import current_test
from skillopt_mcp.actions.promotion_tests import evaluate_candidate, stored_verdict
from skillopt_mcp.actions.replay import best_candidate
from skillopt_mcp.actions.tasks import describe_near_train
from skillopt_mcp.actions.texts import candidate_named, candidate_of_files, check_testable
from skillopt_mcp.cli.command import TARGET, Arg, Flag, WrongUsage, command
from skillopt_mcp.cli.reports import show_baseline, show_page, show_report
from skillopt_mcp.cli.spending import BrokenOff, Planned, Sending, advise_real_target, mark_simulation, require_backends
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.core.errors import Stopped
from skillopt_mcp.core.results import Baseline, Evaluated, Foreseen, Proposed
from skillopt_mcp.documents.diffs import differ_in_white_space_only
from skillopt_mcp.gates.verdicts import describe_foreseen
from skillopt_mcp.training.promotion_test import Asked
from skillopt_mcp.workspace.costs import used_of_candidate
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.leases import host_tests
from skillopt_mcp.workspace.workspace import Workspace

# What a command that continues the test is not given again.
_ONCE = frozenset({"subject", "file", "against", "rebase", "dry_run", "among_my_skills"})


class PlannedTest(Planned):
    """What a test would ask at most, and what it could find; nothing was asked."""

    foreseen: Foreseen


@command("evaluate", example=f"evaluate c-0123456789ab --target {TARGET}", needs_store=True)
class Evaluate(Sending):
    """Test one text of a skill against another on held-out tasks: better, worse, or can't tell."""

    subject: Annotated[str, Arg("c-...; r-...: a run's best version; SKILL: the edit that you made to its file")]
    file: Annotated[str | None, Flag("the new text of SKILL: a SKILL.md or a skill folder", "NEW")] = None
    against: Annotated[str | None, Flag("the old text: git revision, version, file (default: live)", "OLD")] = None
    baseline: Annotated[
        int | None, Flag("measure the live text: N attempts (else 1) at each task, train and held out", bare=1)
    ] = None
    no_worse: Annotated[float | None, Flag("ask whether the share of solved tasks falls by less than this")] = None
    max_pairs: Annotated[int | None, Flag("most pairs of attempts with --no-worse, or on fewer than 8 tasks")] = None
    kind: Annotated[str | None, Flag("the tag that the edit is about: its tasks weigh three times", "TAG")] = None
    cases: Annotated[bool, Flag("test the tasks of that kind alone: better or worse on these cases")] = False
    worse: Annotated[bool, Flag("ask also whether the new text is worse, as is asked of a live one")] = False
    passes: Annotated[int | None, Flag("how often each task is asked at most with each text, 1-8")] = None
    among_my_skills: Annotated[
        bool, Flag("lay names and descriptions of your other skills next to it (Claude Code)")
    ] = False
    graded: Annotated[bool, Flag("compare scores from 0 to 1 instead of passed or not")] = False
    again: Annotated[bool, Flag("test again what has a verdict: the next test of the release")] = False
    explain: Annotated[bool, Flag("show the mathematics")] = False
    rebase: Annotated[
        bool, Flag("make the candidate again on top of an edit of the live file; with --target, also test it")
    ] = False

    def run(self, terminal: Terminal) -> Evaluated | Baseline | Proposed | Planned | BrokenOff:
        if self.among_my_skills:
            name, _, options = (self.target or "").partition(":")
            if name != "claude-code":
                raise WrongUsage("--among-my-skills needs --target claude-code or claude-code:MODEL")
            self.target = f"{name}:{','.join(filter(None, (options, 'among=my-skills')))}"
        if self.baseline is not None:
            return self._measure(terminal, self.baseline)
        if self.rebase:
            with terminal.workspace() as workspace:
                made = rebase_candidate(workspace.store, workspace.place, self.subject)
            if made.candidate_id is None or not self.target:
                return made
            _show_rebased(made, terminal)
            self.subject = made.candidate_id
        if self.subject.startswith("r-"):
            with terminal.workspace() as workspace:
                run = workspace.store.runs.get_run(self.subject)
                self.subject = best_candidate(workspace.store, workspace.place, run.id).id
                self.target, self.judge = self.target or run.target, self.judge or run.judge or None
        with terminal.workspace(
            target=self.target, judge=self.judge, caps=self.caps, concurrency=self.concurrency, ray=self.cluster
        ) as workspace:
            return self._test(workspace, terminal)

    def _measure(self, terminal: Terminal, attempts: int) -> Baseline | Planned | BrokenOff:
        require_backends(target=self.target)
        with terminal.workspace(
            target=self.target, judge=self.judge, caps=self.caps, concurrency=self.concurrency, ray=self.cluster
        ) as workspace:
            store, models, place = workspace.store, workspace.models, workspace.place
            calls = estimate_baseline(store, models, place, self.subject, attempts)
            self._label = mark_simulation(models)
            left_out = models.describe_left_out(place.skill(self.subject).id)
            self.name_models(terminal, models, [left_out] * bool(left_out))
            if planned := self.agree(terminal, workspace, calls):
                return planned
            skill = place.skill(self.subject)
            self.agree_to_load(terminal, workspace, skill.id, skill.live_version)
            try:
                with Watch(terminal, "SIMULATION" if self._label else "") as watch:
                    models.on_reply = watch.on_reply
                    result = measure_baseline(store, models, place, self.subject, attempts)
            except (KeyboardInterrupt, Stopped) as stop:
                return BrokenOff.of(stop, "evaluate_candidate", {"candidate_id": self.subject, **self._given()})
            return result if place.caller == "person" else result.for_agents()

    def _given(self) -> dict[str, JsonValue]:
        """The options of this call that are not their defaults."""
        names = (each.name for each in fields(self) if each.name not in _ONCE)
        return {name: value for name in names if (value := getattr(self, name)) != getattr(type(self), name)}

    def _test(self, workspace: Workspace, terminal: Terminal) -> Evaluated | PlannedTest | BrokenOff:
        store, models, place = workspace.store, workspace.models, workspace.place
        if self.file or self.against:
            new = Path(self.file) if self.file else None
            candidate = candidate_of_files(store, place, self.subject, new, self.against)
        else:
            candidate = candidate_named(store, place, self.subject)
        kept = None if self.target or self.again else stored_verdict(store, place, candidate)
        if kept:
            self._label = "SIMULATION" * (kept.evidence == "simulated")
            self._used = used_of_candidate(store, candidate.id)
            return kept.for_agents() if terminal.is_agents else kept
        check_testable(store, models, place, candidate)
        require_backends(target=self.target)
        asked = Asked(
            self.no_worse, self.max_pairs, self.graded, self.worse, self.kind or "", self.cases, self.passes
        )  # fmt: skip
        self._label = mark_simulation(models)
        test = current_test(store, models, place, candidate, asked, again=self.again)
        self.name_models(terminal, models)
        n_open, n = sum(each.judge.kind == "opens" for each in test.tasks), len(test.tasks)
        is_alone = (
            n_open and models.backend("target").name.startswith("claude-code") and "among=" not in str(self.target)
        )
        warnings = (
            place.describe_locked(store.skills.get_skill(candidate.skill_id)),
            place.describe_hidden(store.skills.get_skill(candidate.skill_id).path),
            host_tests(store, [candidate]).get(candidate.version_id),
            describe_near_train(store, test.tasks[0].skill_id, test.tasks),
            models.describe_left_out(test.tasks[0].skill_id),
            "the skill is tested without your others: --among-my-skills lays them next to it" * bool(is_alone),
            f"{n_open} of {n} tasks ask whether the skill opens, the others for an answer" * (0 < n_open < n),
            "the two texts differ in white space only" * differ_in_white_space_only(test.base, test.candidate),
        )
        for warning in filter(None, warnings):
            terminal.note(f"warning: {warning}.")
        done = 0 if test.foreseen else store.tests.count_attempts(test.row.id)
        is_decided = not test.foreseen and store.decisions.latest_in(test.row.id) is not None
        foreseen = foresee(store, models, test)
        if not is_decided:
            self._reach = foreseen.reach
            for line in describe_foreseen(foreseen):
                terminal.note(line)
        calls = estimate_test(test, test.row.plan.most_runs if is_decided else done)
        tested = f"Tested already ({test.row.id}): nothing is asked. --again opens the next test." if is_decided else ""
        if planned := self.agree(terminal, workspace, calls, tested):
            return PlannedTest(**planned.model_dump(), foreseen=foreseen)
        if not is_decided:
            self.agree_to_load(terminal, workspace, candidate.skill_id, candidate.base_version, candidate.version_id)
        try:
            with Watch(
                terminal, "SIMULATION" if self._label else "",
                caps=lambda: models.caps.describe_used(store.budgets.get_spent(test.row.id)),
            ) as watch:  # fmt: skip
                models.on_reply = watch.on_reply
                wait = Wait(notify=watch.notify)
                result = evaluate_candidate(store, models, place, candidate.id, wait, asked, again=self.again)
        except (KeyboardInterrupt, Stopped) as stop:
            given = self._given()
            given.pop("again", None)  # the test that it opened goes on
            arguments = {"candidate_id": candidate.id, **given}
            return BrokenOff.of(stop, "evaluate_candidate", arguments, candidate_id=candidate.id)
        self._used = used_of_candidate(store, candidate.id)
        result = result.for_agents() if terminal.is_agents else result
        return advise_real_target(store, models, candidate.skill_id, result)

    def show(self, result: Evaluated | Baseline | Proposed | Planned | BrokenOff, terminal: Terminal) -> None:
        if isinstance(result, Planned | BrokenOff):
            return result.show(terminal)
        if isinstance(result, Baseline):
            show_baseline(terminal, result, simulated=bool(self._label))
            return show_page(terminal, self.subject)
        if isinstance(result, Proposed):
            return _show_rebased(result, terminal)
        if result.test:
            show_report(terminal, result.test, simulated=bool(self._label), explained=self.explain)
            terminal.say(f"Tasks: skillopt-mcp show {result.test.test_id}. Used in all: {self._used}.")
            show_page(terminal, result.test.test_id)
        else:
            terminal.say("Accepted." if result.accepted else "Not accepted.")
        return None

    def exit_code(self, result: Evaluated | Baseline | Proposed | Planned | BrokenOff) -> int:
        if isinstance(result, BrokenOff):
            return result.exit_code
        return int(isinstance(result, Proposed) and result.candidate_id is None)


def _show_rebased(made: Proposed, terminal: Terminal) -> None:
    terminal.diff(made.diff)
    for edit in made.edits:
        if edit.status != "applied":
            what = f"CONFLICT: edit {edit.index} ({edit.op} {edit.path})"
            terminal.say(f"{what}: {edit.reason}: {edit.detail}", "bold red")
    for finding in made.findings:
        terminal.say(f"GUARD: {finding}", "bold red")
    if made.candidate_id:
        terminal.say(f"Candidate {made.candidate_id} of {made.skill}.")
