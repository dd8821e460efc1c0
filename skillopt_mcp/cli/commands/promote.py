"""Promote: write an accepted candidate over the live skill."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from skillopt_mcp.actions.promotions.consent import Ready
from skillopt_mcp.actions.promotions.promoting import check_promotion, promote_skill
from skillopt_mcp.actions.promotions.review import Review, review_candidate
from skillopt_mcp.cli.command import AGREED, Arg, Command, Flag, command
from skillopt_mcp.cli.reports import show_report
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import Refused
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import Promoted
from skillopt_mcp.core.skills import short
from skillopt_mcp.workspace.callers import find_editor


@dataclass(kw_only=True)
class Changing(Command):
    """Commands that write the live file."""

    yes: Annotated[bool, AGREED] = False

    def consent(self, terminal: Terminal) -> Consent:
        """Who agrees: the person at the terminal; where there is none, a permission that one has given."""
        if not terminal.is_interactive:
            return Consent.STANDING
        return replace(Consent.PERSON, agreed_on="editor terminal") if find_editor() else Consent.PERSON

    def show(self, result: Promoted, terminal: Terminal) -> None:
        if self.exit_code(result):
            terminal.note(f"error: {result.status}: {result.reason}.")
            return
        done = "Promoted" if result.status == "promoted" else "Rolled back"
        terminal.say(f"{done}: {result.skill_path} is now version {result.version} (was {result.previous_version}).")

    def as_json(self, result: Promoted) -> Mapping[str, object]:
        error = {"error": f"{result.status}: {result.reason}"} if self.exit_code(result) else {}
        return result.model_dump(mode="json") | error

    def exit_code(self, result: Promoted) -> int:
        return 0 if result.status in ("promoted", "rolled_back") else 1


@command("promote", example="promote c-0123456789ab", needs_store=True, is_persons=True)
class Promote(Changing):
    """Write an accepted candidate over the live skill, once a person has seen what changes."""

    candidate: Annotated[str, Arg("its id, c-...")]
    simulated: Annotated[bool, Flag("accept evidence that comes from a simulation")] = False
    unproven: Annotated[bool, Flag("adopt what is untested or not accepted; it stays labelled unproven")] = False

    def run(self, terminal: Terminal) -> Promoted:
        with terminal.workspace() as workspace, terminal.review():
            review = review_candidate(workspace.store, workspace.place, self.candidate)
            self._show_review(review, terminal)
            is_unproven = self.unproven and not review.proven
            consent = replace(self.consent(terminal), simulated=self.simulated, unproven=is_unproven)
            if not isinstance(check_promotion(workspace.store, workspace.place, self.candidate, consent), Ready):
                return promote_skill(
                    workspace.store, workspace.place, self.candidate, consent
                )  # refused, with the reason
            if terminal.is_interactive:
                if self.yes and (review.findings or not review.proven):
                    held = f"the guard holds '{self.candidate}' ({'; '.join(review.findings)})"
                    why = held if review.findings else f"no gain of '{self.candidate}' is proven"
                    raise Refused(f"{why}: a person has to look at it, at a terminal and without --yes")
                question = "Write this over" if review.proven else "Adopt this, labelled unproven, over"
                terminal.ask(f"{question} {review.skill_path}?", yes=self.yes)
            return promote_skill(workspace.store, workspace.place, self.candidate, consent)

    def _show_review(self, review: Review, terminal: Terminal) -> None:
        versions = f"{short(review.from_version)} -> {short(review.to_version)}"
        terminal.say(f"Candidate {self.candidate} of {review.skill}: {versions}")
        if review.why:
            terminal.say(f"What failed: {review.why}")
        undo = NextStep(action="rollback_skill", arguments={"skill": review.handle})
        terminal.say(f"Changes: {review.changes}. Undo: {undo.as_command(terminal.store)}")
        terminal.say()
        terminal.diff(review.diff)
        terminal.say()
        for finding in review.findings:
            terminal.say(f"GUARD: {finding}", "bold red")
        if review.repeats:
            terminal.say(f"REPEATED: {review.repeats}", "bold yellow")
        for problem in review.broken:
            terminal.say(f"LINT: {problem}", "yellow")
        show_report(terminal, review.test, simulated=review.simulated)
        if review.not_looked_at:
            terminal.say(
                f"{review.not_looked_at}. See them: skillopt-mcp tasks review {shlex.quote(review.handle)}",
                "bold yellow",
            )
        for what, tasks in (("Better", review.better), ("Worse", review.worse)):
            if tasks and terminal.sees_held_out:
                terminal.say(f"{what}: {', '.join(tasks)}")
        if review.same_session:
            terminal.say("SAME SESSION: the session that knew the edit made the attempts.", "bold yellow")
