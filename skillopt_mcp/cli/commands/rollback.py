"""Rollback: restore an earlier version of a skill, byte for byte."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.commands.promote import say_outcome
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.errors import Refused
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.promoting import check_rollback, rollback_skill
from skillopt_mcp.operations.changes.reviewing import Review, review_rollback
from skillopt_mcp.operations.results import Promoted
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.skills import short


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which skill, to which version, and what the person has agreed to beforehand."""

    skill: str = ""
    version: str | None = None
    yes: bool = False
    over_edit: bool = False


def run(options: Options) -> int:
    """Return 0 when the live skill has changed, 1 when it stays as it was."""
    with Workspace(options.store_path) as workspace:
        workspace.login = terminal.login()
        review = review_rollback(workspace, options.skill, options.version)
        consent = _consent(review, options)
        standing = check_rollback(workspace, options.skill, review.to_version, consent, review.from_version)
        if isinstance(standing, Promoted):
            return say_outcome(standing, review.called, options)
        if not options.json:
            _show(review)
        terminal.require_person("rollback")
        if not _agreed(review, options):
            terminal.note("Nothing was changed.")
            return 1
        result = rollback_skill(workspace, options.skill, review.to_version, consent, review.from_version)
    return say_outcome(result, review.called, options)


def _consent(review: Review, options: Options) -> Consent:
    if options.over_edit and review.over_edit:
        return Consent.PERSON_OVER_EDIT
    return Consent.COMMAND if options.yes and not terminal.is_interactive() else Consent.PERSON


def _show(review: Review) -> None:
    terminal.say(f"{review.skill}: {short(review.from_version)} -> {short(review.to_version)}")
    terminal.say()
    terminal.say_diff(review.diff)
    terminal.say()
    if review.over_edit:
        edited = short(review.from_version)
        terminal.say(
            f"OVER AN EDIT: what is live is somebody's own work. It is kept as version {edited}; "
            f"to bring it back: skillopt-mcp rollback {review.called} {edited}",
            style="bold red",
        )


def _agreed(review: Review, options: Options) -> bool:
    if review.over_edit and (options.yes or options.json or not terminal.is_interactive()):
        raise Refused(
            f"this would be written over an edit of '{review.skill_path}': a person has to look at it, at a terminal "
            "and without --yes"
        )
    question = f"Write this over {review.skill_path}?"
    return terminal.agreed(question, yes=options.yes, ask=not options.json)
