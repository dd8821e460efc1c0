"""Demo: show the verdict, then the training, in a simulated world."""

from __future__ import annotations

import tempfile
import textwrap
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from skillopt_mcp.actions.demo import N_RUNS, prepare_demo, run_demo
from skillopt_mcp.backends.world import PLACEBOS
from skillopt_mcp.cli.command import Command, Flag, command
from skillopt_mcp.cli.reports import open_page, show_report, write_report
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.gates.verdicts import LABELS

_WIDTH = 80
_N_NAMED = 3
_N_CHANGED = 3


@command("demo", example="demo --seed 7")
class Demo(Command):
    """Show the verdict and the training in a simulated world, in seconds."""

    dir: Annotated[str | None, Flag("an empty or new folder to keep the demo in (default: a temporary one)", "DIR")] = (
        None
    )
    seed: Annotated[int, Flag("which simulated world")] = 0
    world: Annotated[Literal["honest", "placebo"], Flag("placebo: no edit ever helps")] = "honest"
    open: Annotated[bool, Flag("open the report in your browser")] = False

    def run(self, terminal: Terminal) -> dict[str, Any]:
        if terminal.store:
            raise BadInput("the demo keeps a store of its own in its folder: leave out '--store', or name '--dir'")
        started = time.perf_counter()
        folder = Path(self.dir).expanduser() if self.dir else Path(tempfile.mkdtemp(prefix="skillopt-demo-"))
        place = prepare_demo(folder, self.world, self.seed)
        terminal.say(f"SIMULATION ({place.backend}): no model is called, nothing is spent.", "bold")
        with Watch(terminal, "SIMULATION", records=None) as watch:
            outcome = run_demo(place, watch.notify)
        page = write_report(place.store_path, outcome.run_id)
        if self.open:
            open_page(terminal, page.resolve().as_uri())
        self._outcome, wall_s = outcome, round(time.perf_counter() - started, 3)
        return outcome.model_dump(mode="json") | {"report_path": str(page), "wall_s": wall_s}

    def show(self, result: dict[str, Any], terminal: Terminal) -> None:
        outcome = self._outcome
        same, harmful = outcome.same, outcome.harmful
        terminal.say(f"\n1. The same file against itself, {same.n} times", "bold")
        terminal.say(f"The mean of {N_RUNS} runs says better or worse {same.by_means} times; ours {same.by_test}.")
        terminal.say("\n2. A line that sounds nice, in a version that teaches every rule", "bold")
        terminal.diff(f"+- {harmful.line}")
        broken = ""
        if harmful.verdict == "worse_here" and harmful.worse:
            more = f" and {len(harmful.worse) - _N_NAMED} more" if len(harmful.worse) > _N_NAMED else ""
            broken = f": broke {', '.join(harmful.worse[:_N_NAMED])}{more}"
        terminal.say(textwrap.fill(f"{LABELS[harmful.verdict]} (SIMULATION){broken}.", _WIDTH))
        shares = [outcome.val_before, *(step.current for step in outcome.steps)]
        solved = " → ".join(f"{100 * share:.0f}" for share in shares)
        terminal.say(f"\n3. {len(outcome.steps)} steps of training: {solved} of 100 val tasks", "bold")
        changed = [line for line in outcome.diff.splitlines() if line[:1] in "+-" and line.strip("+-").strip()][2:]
        terminal.diff("\n".join(textwrap.shorten(line, _WIDTH, placeholder=" ...") for line in changed[:_N_CHANGED]))
        if len(changed) > _N_CHANGED:
            n_fillers = sum(line[1:].removeprefix("- ") in PLACEBOS for line in changed if line[0] == "+")
            filler = f"{n_fillers} of the {len(changed)} are filler, which neither helps nor harms."
            terminal.say(f"{len(changed) - _N_CHANGED} more lines; {filler}")
        if outcome.test:
            show_report(terminal, outcome.test, simulated=True)
        else:
            terminal.say(f"Not tested: {outcome.reason}.", "bold")
        terminal.say(f"{'Promoted' if outcome.promoted else 'Not promoted'}: {outcome.skill_path}")
        terminal.say(f"Report: {result['report_path']}")
        if outcome.next_step:
            terminal.say(outcome.next_step.as_line())
