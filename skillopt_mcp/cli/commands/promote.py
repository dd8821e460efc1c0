"""Promote: write an accepted candidate over the live skill, once a person has seen what changes."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.errors import Refused
from skillopt_mcp.operations.changes.consenting import Consent, Ready
from skillopt_mcp.operations.changes.promoting import check_promotion, promote_skill
from skillopt_mcp.operations.changes.reviewing import Review, review_candidate
from skillopt_mcp.operations.results import Promoted
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.skills import short


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which candidate, and what the person has agreed to beforehand."""

    candidate: str = ""
    yes: bool = False
    simulated: bool = False
    unproven: bool = False


def run(options: Options) -> int:
    """Return 0 when the live skill has changed, 1 when it stays as it was."""
    with Workspace(options.store_path) as workspace:
        workspace.login = terminal.login()
        review = review_candidate(workspace, options.candidate)
        if not options.json:
            show_review(review, options.candidate)
        consent = _consent(options, review)
        # Without this much the operation refuses anyway, and says why.
        is_open = isinstance(check_promotion(workspace, options.candidate, consent), Ready)
        if is_open and not _agreed(review, options):
            terminal.note("Nothing was changed.")
            return 1
        result = promote_skill(workspace, options.candidate, consent)
    return say_outcome(result, review.called, options)


def _consent(options: Options, review: Review) -> Consent:
    # A command without a terminal cannot give this one: `_agreed` refuses it, and says why.
    if options.unproven and review.verdict == "undecided":
        return Consent.PERSON_UNPROVEN
    if options.yes and not terminal.is_interactive():
        return Consent.COMMAND_SIMULATED if options.simulated else Consent.COMMAND
    return Consent.PERSON_SIMULATED if options.simulated else Consent.PERSON


def _agreed(review: Review, options: Options) -> bool:
    unproven = review.verdict == "undecided"
    blind = options.yes or options.json or not terminal.is_interactive()
    if blind and (unproven or review.findings):
        held = f"the guard holds '{options.candidate}' ({'; '.join(review.findings)})"
        why = held if review.findings else f"no gain of '{options.candidate}' is proven"
        raise Refused(f"{why}: a person has to look at it, at a terminal and without --yes")
    terminal.require_person("promote")
    adopt = f"Adopt this over {review.skill_path}, labelled unproven?"
    question = adopt if unproven else f"Write this over {review.skill_path}?"
    return terminal.agreed(question, yes=options.yes, ask=not options.json)


def show_review(review: Review, candidate_id: str) -> None:
    """Print all that a person needs to see of a candidate: what changes, what the guard found, and the evidence."""
    terminal.say(
        f"Candidate {candidate_id} of {review.skill}: {short(review.from_version)} -> {short(review.to_version)}"
    )
    if review.reasoning:
        terminal.say(f"Why: {review.reasoning}")
    terminal.say()
    terminal.say_diff(review.diff)
    terminal.say()
    for finding in review.findings:
        terminal.say(f"GUARD: {finding}", style="bold red")
    if review.repeats:
        terminal.say(f"REPEATED: {review.repeats}", style="bold yellow")
    for problem in review.broken:
        terminal.say(f"LINT: {problem}", style="yellow")
    verdict = f"{review.verdict.upper()}: {review.reason}" if review.verdict else "none yet"
    terminal.say(f"Verdict: {verdict}{' (SIMULATION)' if review.simulated else ''}")
    if review.evidence:
        terminal.say(f"Evidence: {review.evidence}")


def say_outcome(result: Promoted, called: str, options: Invocation) -> int:
    """Print what became of a promotion or rollback of a skill `called` so in commands; 0 when it changed."""
    changed = result.status in ("promoted", "rolled_back")
    if options.json:
        error = {} if changed else {"error": f"{result.status}: {result.reason}"}
        terminal.emit(result.model_dump(mode="json") | error, options)
    elif changed:
        done = "Promoted" if result.status == "promoted" else "Rolled back"
        terminal.say(f"{done}: {result.skill_path} is now version {result.version} (was {result.previous_version}).")
        version = "" if result.status == "promoted" else f" {result.previous_version}"
        terminal.say_command(options.on_store(f"Undo: skillopt-mcp rollback {called}{version}"))
    if not changed:
        advice = f" {terminal.advice(result.next_step, options)}" if result.next_step else ""
        terminal.note(f"error: {result.status}: {result.reason}.{advice}")
    return 0 if changed else 1
