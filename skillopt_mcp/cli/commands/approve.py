"""Approve: let an agent promote one candidate, once, after a person has looked at it at a terminal."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.commands.promote import show_review
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.errors import BadInput, Refused
from skillopt_mcp.operations.changes.approving import AT_A_TERMINAL, agree, lacking, withdraw
from skillopt_mcp.operations.changes.consenting import Lacking, Ready
from skillopt_mcp.operations.changes.reviewing import review_candidate
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which candidate; whether evidence of a simulation is enough; whether to take an approval back instead."""

    candidate: str = ""
    simulated: bool = False
    withdraw: bool = False


def run(options: Options) -> int:
    """Return 0 when the candidate is approved (or was before), 1 when it is not."""
    with Workspace(options.store_path) as workspace:
        workspace.login = terminal.login()
        if options.withdraw:
            return _withdraw(workspace, options)
        return _approve(workspace, options)


def _approve(workspace: Workspace, options: Options) -> int:
    if options.json:
        raise BadInput("approve asks a person at a terminal: leave out '--json'")
    review = review_candidate(workspace, options.candidate)
    standing = lacking(workspace, options.candidate)
    show_review(review, options.candidate)
    if isinstance(standing, Ready):
        terminal.say("It is approved already: the agent may promote it.")
        return 0
    if not isinstance(standing, Lacking):
        terminal.note(f"error: {standing.status}: {standing.reason}. {terminal.advice(standing.next_step, options)}")
        return 1
    if review.simulated and not options.simulated:
        raise Refused(
            "the evidence is from a simulation and says nothing about a real model: evaluate with a real target, or "
            f"insist: skillopt-mcp approve {options.candidate} --simulated"
        )
    terminal.require_person("approve")
    if not terminal.is_interactive():
        raise Refused("there is no terminal to ask at: approve it in one")
    if not terminal.agreed(f"May an agent write this over {review.skill_path}, once?", yes=False):
        terminal.note("Nothing was approved.")
        return 1
    agree(workspace, standing.approval, AT_A_TERMINAL)
    terminal.say(
        f"Approved: promote_skill {options.candidate} may write it once, as long as nothing of it changes.\n"
        f"Take it back with: skillopt-mcp approve {options.candidate} --withdraw"
    )
    return 0


def _withdraw(workspace: Workspace, options: Options) -> int:
    n = withdraw(workspace, options.candidate)
    if options.json:
        terminal.emit({"candidate": options.candidate, "withdrawn": n})
    else:
        terminal.say(f"{'Taken back.' if n else 'There was no unused approval.'} It needs a person's yes again.")
    return 0
