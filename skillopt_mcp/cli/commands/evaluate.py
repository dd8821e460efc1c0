"""Evaluate: test a candidate against the live version on held-out tasks, pair by pair."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import fields, replace
from typing import Annotated, Literal

from skillopt_mcp.backends.batches import Patience
from skillopt_mcp.candidates import rebase_candidate
from skillopt_mcp.cli.command import TARGET, Arg, Flag, command
from skillopt_mcp.cli.spending import BrokenOff, Planned, Sending, agree, require_backends, simulation
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.costs import used_of_candidate
from skillopt_mcp.demo import advised
from skillopt_mcp.dispatch import waiting_for
from skillopt_mcp.documents.text import counted
from skillopt_mcp.errors import Stopped
from skillopt_mcp.estimates import estimate_test
from skillopt_mcp.gates.confirm import ConfirmRule, no_worse
from skillopt_mcp.host_work import host_tests
from skillopt_mcp.memory_files import with_companion
from skillopt_mcp.promotion_tests import check_same_claim, check_testable, evaluate_candidate, most_pairs, twins_in_test
from skillopt_mcp.records.results import Arm, Evaluated, Proposed
from skillopt_mcp.runs import best_candidate
from skillopt_mcp.workspace import Workspace

# What a command that continues the test is not given again.
_ONCE = frozenset({"candidate", "rebase", "dry_run"})


@command("evaluate", example=f"evaluate c-0123456789ab --target {TARGET}", needs_store=True)
class Evaluate(Sending):
    """Test a candidate against the live version on held-out tasks."""

    candidate: Annotated[str, Arg("its id, c-...; or a run's, r-...: its best version")]
    max_pairs: Annotated[int, Flag("pause undecided after so many more pairs")] = 200
    no_worse: Annotated[
        float | None,
        Flag("for a candidate 5 % shorter or more: accept it when a loss above this (at most 0.1) is excluded"),
    ] = None
    claim: Annotated[
        Literal["these", "like_these"] | None,
        Flag("these (default): better on these held-out tasks; like_these: on tasks like them, each drawn once"),
    ] = None
    companion: Annotated[str | None, Flag("a skill or memory file that every attempt sees, too", "PATH")] = None
    rebase: Annotated[
        bool, Flag("make the candidate again on top of an edit of the live file; with --target, also test it")
    ] = False

    def run(self, terminal: Terminal) -> Evaluated | Proposed | Planned | BrokenOff:
        """Return the state of the test."""
        rule = ConfirmRule(max_pairs=self.max_pairs)
        if self.no_worse is not None:
            rule = no_worse(self.no_worse, max_pairs=self.max_pairs)
        rule = replace(rule, claim=self.claim or rule.claim)
        if self.rebase:
            with terminal.workspace() as workspace:
                made = rebase_candidate(workspace, self.candidate)
            if made.candidate_id is None or not self.target:
                return made
            _show_rebased(made, terminal)
            self.candidate = made.candidate_id
        if self.candidate.startswith("r-"):
            with terminal.workspace() as workspace:
                run = workspace.store.runs.get_run(self.candidate)
                self.candidate = best_candidate(workspace, run.id).id
                self.target, self.judge = self.target or run.target, self.judge or run.judge or None
        with ExitStack() as stack:
            workspace = stack.enter_context(
                terminal.workspace(
                    target=self.target, judge=self.judge, caps=self.caps, concurrency=self.concurrency,
                    batch=Patience() if self.batch_api else None,
                )
            )  # fmt: skip
            if self.companion:
                companion = workspace.skill(self.companion)
                workspace = stack.enter_context(with_companion(workspace, companion, companion.live_version))
            return self._test(workspace, rule, terminal)

    def _test(self, workspace: Workspace, rule: ConfirmRule, terminal: Terminal) -> Evaluated | Planned | BrokenOff:
        candidate = workspace.store.candidates.get_candidate(self.candidate)
        check_testable(workspace, candidate)
        require_backends(target=self.target)
        label = simulation(workspace)
        if self.claim:
            check_same_claim(workspace, self.candidate, rule)
        warnings = (
            workspace.locked(workspace.store.skills.get_skill(candidate.skill_id)),
            host_tests(workspace, [candidate]).get(candidate.version_id),
            twins_in_test(workspace, self.candidate, rule.claim),
        )
        for warning in filter(None, warnings):
            terminal.note(f"warning: {warning}.")
        calls = estimate_test(workspace, self.candidate, most_pairs(workspace, self.candidate, rule))
        if planned := agree(terminal, workspace, calls, self, concurrency=self.concurrency):
            return planned
        try:
            with Watch(terminal, "SIMULATION" if label else "") as watch:
                workspace.on_reply = watch.on_reply
                result = evaluate_candidate(workspace, self.candidate, None, watch.notify, rule)
        except (KeyboardInterrupt, Stopped) as stop:
            names = (each.name for each in fields(self) if each.name not in _ONCE)
            given = {name: value for name in names if (value := getattr(self, name)) != getattr(type(self), name)}
            return BrokenOff.of(
                stop, "evaluate_candidate", {"candidate_id": self.candidate, **given}, candidate_id=self.candidate,
                at_vendor=[batch.vendor_id or batch.id for batch in waiting_for(workspace, self.candidate)],
            )  # fmt: skip
        self._used = used_of_candidate(workspace.store, self.candidate)
        return advised(workspace, candidate.skill_id, result)

    def show(self, result: Evaluated | Proposed | Planned | BrokenOff, terminal: Terminal) -> None:
        if isinstance(result, Planned | BrokenOff):
            return result.show(terminal)
        if isinstance(result, Proposed):
            return _show_rebased(result, terminal)
        terminal.say(
            f"Verdict: {(result.verdict or result.status).upper()}. Live {_mean(result.base)}, candidate "
            f"{_mean(result.candidate)} after {counted(result.pairs_done, 'pair')}, {result.claim}; "
            f"{result.reason.rstrip('.')}."
        )
        terminal.say(f"Used in all: {self._used}.")
        return None

    def exit_code(self, result: Evaluated | Proposed | Planned | BrokenOff) -> int:
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


def _mean(arm: Arm) -> str:
    return "-" if arm.mean is None else f"{arm.mean:.2f}"
