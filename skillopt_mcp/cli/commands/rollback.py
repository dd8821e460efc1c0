"""Rollback: restore an earlier version of a skill, byte for byte."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.commands.promote import say_outcome
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.operations.consenting import Consent
from skillopt_mcp.operations.promoting import rollback_skill
from skillopt_mcp.operations.reviewing import review_rollback
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.skills import short


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which skill, to which version, and whether the person has agreed beforehand."""

    skill: str = ""
    version: str | None = None
    yes: bool = False


def run(options: Options) -> int:
    """Return 0 when the live skill has changed, 1 when it stays as it was."""
    with Workspace(options.store_path) as workspace:
        review = review_rollback(workspace, options.skill, options.version)
        if not options.json:
            terminal.say(f"{review.skill}: {short(review.from_version)} -> {short(review.to_version)}")
            terminal.say()
            terminal.say_diff(review.diff)
            terminal.say()
        terminal.require_person("rollback")
        question = f"Write this over {review.skill_path}?"
        if review.diff and not terminal.agreed(question, yes=options.yes, ask=not options.json):
            terminal.note("Nothing was changed.")
            return 1
        result = rollback_skill(workspace, options.skill, review.to_version, Consent.PERSON)
    return say_outcome(result, as_json=options.json)
