"""Demo: train and promote a skill in a simulated world, and show what to do with one's own."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.errors import BadInput
from skillopt_mcp.operations.results import StepRow
from skillopt_mcp.operations.runs.demo import SKILL, Demonstrated, DemoPlace, prepare_demo, run_demo

_BAR = 24
_NEXT = (
    "skillopt-mcp skills",
    "skillopt-mcp tasks add SKILL tasks.jsonl",
    "skillopt-mcp install claude-code --hooks --skill",
)


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Where, and in which simulated world."""

    dir: str | None = None
    seed: int = 0
    world: str = "honest"


def run(options: Options) -> int:
    """Return 0 when the demo has run, whatever its verdict."""
    if options.store:
        raise BadInput("the demo keeps a store of its own in its folder: leave out '--store', or name '--dir'")
    started = time.perf_counter()
    folder = Path(options.dir).expanduser() if options.dir else Path(tempfile.mkdtemp(prefix="skillopt-demo-"))
    place = prepare_demo(folder, options.world, options.seed)
    label = f"SIMULATION ({place.backend})"
    if not options.json:
        terminal.say(f"{label}: no model is called, nothing is spent.", style="bold")
        terminal.say(f"It lives in {place.folder}\n")
    with Watch("SIMULATION", steps=False, silent=options.json) as watch:
        outcome = run_demo(place, watch.notify)
    wall_s = round(time.perf_counter() - started, 3)
    if options.json:
        terminal.emit(outcome.model_dump(mode="json") | {"wall_s": wall_s})
    else:
        _say(outcome, place, wall_s)
    return 0


def _say(outcome: Demonstrated, place: DemoPlace, wall_s: float) -> None:
    splits = outcome.splits
    terminal.say(
        f"A bookkeeping skill attempted {splits.train} train tasks in {len(outcome.steps)} steps. After every step "
        f"{splits.val} val tasks said whether its edits stay; {splits.test} test tasks were kept for the end."
    )
    terminal.say("\nShare of val tasks solved, step by step (simulated)", style="bold")
    start = ("start", "-", "-", f"{outcome.val_before:.2f}", _bar(outcome.val_before))
    terminal.say_table(("step", "edits", "tried", "kept", ""), [start, *(_row(step) for step in outcome.steps)])
    _say_verdict(outcome)
    _say_next(outcome, place, wall_s)


def _row(step: StepRow) -> tuple[str, ...]:
    tried = "-" if step.candidate is None else f"{step.candidate:.2f}"
    note = "  new best" if step.verdict == "accept_best" else ""
    return (str(step.step), str(step.n_edits), tried, f"{step.current:.2f}", f"{_bar(step.current)}{note}".rstrip())


def _bar(share: float) -> str:
    return f"{'#' * round(share * _BAR):<{_BAR}}"


def _say_verdict(outcome: Demonstrated) -> None:
    if outcome.diff:
        changed = "What the training changed" if outcome.promoted else "What the training would have changed"
        terminal.say(f"\n{changed} (simulated)", style="bold")
        terminal.say_diff(outcome.diff)
        if outcome.fillers:
            terminal.say(
                f"\n{len(outcome.fillers)} of these lines are filler, such as '{outcome.fillers[0]}': like a real "
                "optimizer the simulated one also writes what neither helps nor harms, and the edits of a step stay or "
                "go together."
            )
    terminal.say("\nVerdict on held-out test tasks (simulated)", style="bold")
    if outcome.verdict is None:
        terminal.say(f"none: {outcome.reason}.")
    else:
        terminal.say(
            f"{outcome.verdict.upper()}: {outcome.test_before or 0:.2f} before, {outcome.test_after or 0:.2f} after, "
            f"on {outcome.n_pairs} pairs of runs; {outcome.reason.rstrip('.')}."
        )
    if outcome.promoted:
        terminal.say(f"Promoted: {outcome.skill_path}")
    else:
        terminal.say("Not promoted: the live file is what it was. That is the gate's work, not a fault.")


def _say_next(outcome: Demonstrated, place: DemoPlace, wall_s: float) -> None:
    store = shlex.quote(os.fspath(place.store_path))
    terminal.say(f"\nThe simulation took {wall_s:.1f} s and {outcome.n_calls:,} simulated calls. Look around in it:")
    terminal.say_command(f"skillopt-mcp history {SKILL} --store {store}")
    terminal.say("\nNext, with a skill of your own:")
    for command in _NEXT:
        terminal.say_command(command)
