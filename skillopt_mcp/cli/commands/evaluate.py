"""Evaluate: test a candidate against the live version on held-out tasks, pair by pair."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import dataclass, replace

from skillopt_mcp.backends.batches import Patience
from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.agreeing import simulation, unwilling
from skillopt_mcp.cli.capping import Capped
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import BadInput, CapReached, Stopped
from skillopt_mcp.gates.confirm import ConfirmRule, no_worse
from skillopt_mcp.operations.changes.advising import by_a_person
from skillopt_mcp.operations.host_work.going_on import host_tests
from skillopt_mcp.operations.results import Arm, Evaluated
from skillopt_mcp.operations.runs.consolidating import accompanied
from skillopt_mcp.operations.runs.estimating import estimate_test
from skillopt_mcp.operations.runs.simulating import advised
from skillopt_mcp.operations.spending.batching import told_of, waiting_for
from skillopt_mcp.operations.spending.using import Used, flying_for, used_of_candidate
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.testing.opening_tests import check_said, most_pairs
from skillopt_mcp.operations.testing.twinned import twins_in_test
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.evidence import Claim

EXPECTED, INTERRUPTED = 1, 130


@dataclass(frozen=True, slots=True)
class Options(Capped):
    """Which candidate, with which target, and how many pairs at most."""

    candidate: str = ""
    target: str | None = None
    judge: str | None = None
    max_pairs: int = 200
    beside: str | None = None
    slots: int | None = None
    by_batch: bool = False
    no_worse: float | None = None
    claim: Claim | None = None


def run(options: Options) -> int:
    """Return 0 with a verdict or for a dry run, 1 when the person did not want to spend, 130 when interrupted."""
    if options.slots is not None and options.slots < 1:
        raise BadInput(f"slots '{options.slots}' is not possible: use 1 or more")
    rule = ConfirmRule(max_pairs=options.max_pairs)
    if options.no_worse is not None:
        rule = no_worse(options.no_worse, max_pairs=options.max_pairs)
    rule = replace(rule, claim=options.claim or rule.claim)
    with ExitStack() as stack:
        workspace = stack.enter_context(
            Workspace(
                options.store_path, target=options.target, judge=options.judge, caps=options.caps,
                n_slots=options.slots, batch=Patience() if options.by_batch else None,
            )
        )  # fmt: skip
        if options.beside:
            beside = workspace.skill(options.beside)
            workspace = stack.enter_context(accompanied(workspace, beside, beside.live_version))
        return _evaluate(workspace, options, rule)


def _evaluate(workspace: Workspace, options: Options, rule: ConfirmRule) -> int:
    label = simulation(workspace)
    if options.claim:
        check_said(workspace, options.candidate, rule)
    calls = estimate_test(workspace, options.candidate, most_pairs(workspace, options.candidate, rule))
    candidate = workspace.store.candidates.get_candidate(options.candidate)
    if locked := workspace.locked(workspace.store.skills.get_skill(candidate.skill_id)):
        terminal.note(f"warning: {locked}.")
    if begun := host_tests(workspace, [candidate]).get(candidate.version_id):
        terminal.note(f"warning: {begun}: this is another test, with a share of the error rate of its own.")
    if twins := twins_in_test(workspace, options.candidate, rule.claim):
        terminal.note(options.on_store(f"warning: {twins}."))
    if (code := unwilling(workspace, calls, options, options.slots)) is not None:
        return code
    try:
        with Watch("SIMULATION" if label else "", silent=options.json) as watch:
            workspace.on_reply = watch.on_reply
            result = evaluate_candidate(workspace, options.candidate, None, watch.notify, rule)
    except (KeyboardInterrupt, Stopped) as stop:
        return _broken_off(workspace, options, stop if isinstance(stop, Stopped) else None)
    result = advised(workspace, candidate.skill_id, result)
    step = terminal.advice(by_a_person(workspace, result.next_step), options, options.target, options.judge)
    result = result.model_copy(update={"next_step": step})
    if options.json:
        terminal.emit(result)
    else:
        _say(result, used_of_candidate(workspace.store, options.candidate))
    return 0


def _broken_off(workspace: Workspace, options: Options, stopped: Stopped | None) -> int:
    """Return the exit code of a test that did not come to its end, told why and how to go on."""
    higher = stopped.higher if isinstance(stopped, CapReached) else ""
    waiting = waiting_for(workspace, options.candidate)
    flying = "" if stopped or waiting else flying_for(workspace.store, options.candidate)
    under_way = f"; {flying}" if flying else ""
    if options.json:
        shown = {"candidate_id": options.candidate, "status": "stopped", "verdict": None}
        why = str(stopped) if stopped else f"interrupted; the pairs so far are kept{under_way}"
        more = f", under a higher cap: {higher}" if higher else ""
        terminal.emit(shown | {"reason": why, "next_step": f"the same command goes on with the pairs so far{more}"})
    if stopped:
        reason = str(stopped).rstrip(".")
        terminal.note(f"error: {reason}. Go on with the pairs so far:\n  {_command(options, higher)}")
        return EXPECTED
    vendor = f"; {told_of(waiting)}" if waiting else ""
    terminal.note(f"Interrupted; the pairs so far are kept, and the same command goes on with them{vendor}{under_way}.")
    return INTERRUPTED


def _command(options: Options, higher: str) -> str:
    """Return the command that goes on with a test, on what was given; `higher` are the caps that let it."""
    given = (
        ("target", options.target), ("judge", options.judge), ("max-pairs", options.max_pairs),
        ("slots", options.slots), ("beside", options.beside), ("no-worse", options.no_worse), ("claim", options.claim),
        ("max-calls", options.max_calls), ("max-tokens", options.max_tokens), ("max-usd", options.max_usd),
        ("max-minutes", options.max_minutes),
    )  # fmt: skip
    usual = {"max-pairs": Options().max_pairs}
    raised = higher.split()[::2]
    named = [
        f"--{name} {shlex.quote(str(value))}"
        for name, value in given
        if value is not None and value != usual.get(name) and f"--{name}" not in raised
    ]
    flags = ["--by-batch"] * options.by_batch + ["--yes"] * options.yes
    words = ["skillopt-mcp evaluate", shlex.quote(options.candidate), *named, *([higher] if higher else []), *flags]
    return options.on_store(" ".join(words))


def _say(result: Evaluated, used: Used) -> None:
    verdict = (result.verdict or result.status).upper()
    terminal.say(
        f"Verdict: {verdict}. Live {_mean(result.base)}, candidate {_mean(result.candidate)} "
        f"after {counted(result.pairs_done, 'pair')}, {result.claim}; {result.reason.rstrip('.')}."
    )
    terminal.say(f"Used in all: {used}.")
    terminal.say(f"Next: {result.next_step}")


def _mean(arm: Arm) -> str:
    return "-" if arm.mean is None else f"{arm.mean:.2f}"
