"""Demo: train and promote a skill in a simulated world, and show what to do with one's own."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from skillopt_mcp.cli.command import Command, Flag, command
from skillopt_mcp.cli.reports import show_report
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.demo import SKILL, Demonstrated, prepare_demo, run_demo
from skillopt_mcp.errors import BadInput
from skillopt_mcp.records.results import StepRow

_BAR = 24
_WORDS = {"accept": "kept", "no_change": "no edit", "reject": "not better"}


@dataclass(frozen=True)
class _Shown:
    outcome: Demonstrated
    store_path: Path
    wall_s: float


@command("demo", example="demo --seed 7")
class Demo(Command):
    """Train a skill in a simulated world, in a second."""

    dir: Annotated[str | None, Flag("an empty or new folder to keep the demo in (default: a temporary one)", "DIR")] = (
        None
    )
    seed: Annotated[int, Flag("which simulated world")] = 0
    world: Annotated[Literal["honest", "placebo"], Flag("placebo: no edit ever helps")] = "honest"

    def run(self, terminal: Terminal) -> _Shown:
        """Return how the training went."""
        if terminal.store:
            raise BadInput("the demo keeps a store of its own in its folder: leave out '--store', or name '--dir'")
        started = time.perf_counter()
        folder = Path(self.dir).expanduser() if self.dir else Path(tempfile.mkdtemp(prefix="skillopt-demo-"))
        place = prepare_demo(folder, self.world, self.seed)
        terminal.say(f"SIMULATION ({place.backend}): no model is called, nothing is spent.", "bold")
        terminal.say(f"It lives in {place.folder}\n")
        with Watch(terminal, "SIMULATION", steps=False) as watch:
            outcome = run_demo(place, watch.notify)
        return _Shown(outcome, place.store_path, round(time.perf_counter() - started, 3))

    def as_json(self, result: _Shown) -> Mapping[str, object]:
        return result.outcome.model_dump(mode="json") | {"wall_s": result.wall_s}

    def show(self, result: _Shown, terminal: Terminal) -> None:
        outcome, splits = result.outcome, result.outcome.splits
        terminal.say(
            f"A bookkeeping skill attempted {splits.train} train tasks in {len(outcome.steps)} steps. After every step "
            f"{splits.val} val tasks decided whether its edits stay; {splits.test} test tasks were kept for the end."
        )
        terminal.say("\nShare of val tasks solved, step by step (simulated)", "bold")
        start = ("start", "-", "-", f"{outcome.val_before:.2f}", _bar(outcome.val_before))
        terminal.table(("step", "edits", "tried", "kept", ""), [start, *map(_row, outcome.steps)])
        if outcome.diff:
            changed = "What the training changed" if outcome.promoted else "What the training would have changed"
            terminal.say(f"\n{changed} (simulated)", "bold")
            terminal.diff(outcome.diff)
            if outcome.fillers:
                terminal.say(f"\nFiller, which neither helps nor harms: {len(outcome.fillers)} of these lines.")
        terminal.say("\nVerdict on held-out test tasks (simulated)", "bold")
        show_report(terminal, outcome.test, simulated=True)
        terminal.say(f"Promoted: {outcome.skill_path}" if outcome.promoted else "Not promoted: the file is unchanged.")
        terminal.say(f"\nThe simulation took {result.wall_s:.1f} s and {outcome.n_calls:,} simulated calls. See it:")
        terminal.command(f"skillopt-mcp show {SKILL} --store {shlex.quote(os.fspath(result.store_path))}")
        terminal.say("\nNext, with a skill of your own:")
        terminal.command("skillopt-mcp skills")
        terminal.command("skillopt-mcp tasks add SKILL tasks.jsonl")
        terminal.command("skillopt-mcp install claude-code --hooks --skill")


def _row(step: StepRow) -> tuple[str, ...]:
    tried = "-" if step.candidate is None else f"{step.candidate:.2f}"
    note = "  new best" if step.verdict == "accept_best" else f"  {_WORDS.get(step.verdict, '')}"
    return (str(step.step), str(step.n_edits), tried, f"{step.current:.2f}", f"{_bar(step.current)}{note}".rstrip())


def _bar(share: float) -> str:
    return f"{'#' * round(share * _BAR):<{_BAR}}"
