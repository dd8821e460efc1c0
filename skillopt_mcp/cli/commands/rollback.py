"""Rollback: restore an earlier version of a skill, byte for byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from skillopt_mcp.actions.promotions.promoting import check_rollback, rollback_skill
from skillopt_mcp.actions.promotions.review import review_rollback
from skillopt_mcp.cli.command import SKILL, Arg, Flag, command
from skillopt_mcp.cli.commands.promote import Changing
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.errors import Refused
from skillopt_mcp.core.results import Promoted
from skillopt_mcp.core.skills import short


@command("rollback", example="rollback my-skill", needs_store=True)
class Rollback(Changing):
    """Restore an earlier version of a skill, byte for byte."""

    skill: Annotated[str, Arg(SKILL)]
    version: Annotated[str | None, Arg("default: the text right before the live one")] = None
    over_edit: Annotated[bool, Flag("with VERSION: replace an edit made since; it is kept as a version")] = False

    def run(self, terminal: Terminal) -> Promoted:
        with terminal.workspace() as workspace, terminal.review():
            review = review_rollback(workspace.store, workspace.place, self.skill, self.version)
            # Without a version it is that edit which a person takes back.
            is_seen = self.over_edit or (self.version is None and terminal.is_interactive and not self.yes)
            over_edit = is_seen and review.over_edit
            consent = replace(self.consent(terminal), over_edit=over_edit)
            standing = check_rollback(
                workspace.store, workspace.place, self.skill, review.to_version, consent, review.from_version
            )
            if isinstance(standing, Promoted):
                return standing
            terminal.say(f"{review.skill}: {short(review.from_version)} -> {short(review.to_version)}\n")
            terminal.diff(review.diff)
            terminal.say()
            if review.over_edit:
                terminal.say(f"OVER AN EDIT: it is kept as version {short(review.from_version)}", "bold red")
            terminal.require_person("rollback")
            if review.over_edit and (self.yes or not terminal.is_interactive):
                raise Refused(
                    f"this would be written over an edit of '{review.skill_path}': a person has to look at it, at a "
                    "terminal and without --yes"
                )
            if terminal.is_interactive:
                terminal.ask(f"Write this over {review.skill_path}?", yes=self.yes)
            return rollback_skill(
                workspace.store, workspace.place, self.skill, review.to_version, consent, review.from_version
            )
