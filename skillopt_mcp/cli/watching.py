"""Watching: progress of long work, as a table or a bar on a terminal and as lines anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from skillopt_mcp.core.candidates import GATE
from skillopt_mcp.core.notes import warn_unanswered
from skillopt_mcp.core.text import counted, escaped
from skillopt_mcp.training.progress import WAIT

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from skillopt_mcp.cli.terminal import Terminal
    from skillopt_mcp.core.calls import Call, Reply
    from skillopt_mcp.core.runs import StepRecord
    from skillopt_mcp.training.progress import Progress

# Often enough for a log.
_BEAT_S = 60.0
# Words for the verdict of a step, and their style in the table.
_VERDICTS = {
    "accept_best": ("accepted, best", "bold green"),
    "accept": ("accepted", "green"),
    "reject": ("rejected", ""),
    "no_change": ("no edit", "dim"),
}
_STEPS_SHOWN = 8
_BAR_WIDTH = 16
# Often enough for a screen.
_ASK_S = 0.1


class ProgressDisplay(Protocol):
    """Shows that `n_done` of `n_total` parts of some work are done."""

    def __call__(self, what: str, n_done: int, n_total: int) -> None: ...


@contextmanager
def show_work(terminal: Terminal) -> Iterator[ProgressDisplay]:
    """Show work on a terminal alone, and take it away at the end."""
    console = None if terminal.is_json else _console()
    if console is None:
        yield lambda *_: None
        return
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

    columns = TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[place]}")
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("opening the store", total=None, place="")

    def show(what: str, n_done: int, n_total: int) -> None:
        share = f"{n_done / n_total:.0%}" if n_total else f"{n_done:,}" if n_done else ""
        bar.update(task, description=what, completed=n_done, total=n_total or None, place=share)

    with bar:
        yield show


def _console() -> Console | None:
    """Return the terminal that a person looks at, on which lines can be drawn over; None without one, at no price."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console  # noqa: PLC0415

    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    return None if console.is_dumb_terminal else console


class Watch:
    """Shows a run from its start to its end: use it as a context manager, its two methods as callbacks.

    On a terminal it is a table of the last steps (`records` are those of a run that is resumed), the stage at work, and
    what is spent; `caps` returns what is used of the caps. The table stays when it ends; so does the stage when that is
    by an error. Elsewhere each step is a line, and a line a minute says how far it is, by this clock. `label` is shown
    on every screen of a simulation; where `records` is None there is no table.
    """

    def __init__(
        self, terminal: Terminal, label: str = "", *, records: Sequence[StepRecord] | None = (),
        caps: Callable[[], str] = str, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._terminal, self._label, self._steps, self._clock = terminal, label, records is not None, clock
        self._n_calls = self._n_missing = self._n_tokens = self._n_of_stage = 0
        self._usd: float | None = 0.0
        self._warn_unanswered = warn_unanswered(lambda text: self._note(f"warning: {text}"))
        self._scores, self._place, self._noted_at = "", "started", clock()
        self._records, self._caps, self._used = [*(records or ())], caps, ""
        self._stage, self._n_done, self._n_total = "", 0, 0
        # How soon a promotion test ends says how large a gain is; it may send before it says that it begins.
        self._is_sealed = terminal.is_agents
        # What takes time: steps or attempts, of which so many were done at a moment: at first, and when one was last.
        self._first = self._last = ("", 0, 0.0)
        self._console = None if terminal.is_json else _console()

    def __enter__(self) -> Self:
        if self._console:
            from rich.live import Live  # noqa: PLC0415

            self._live = Live(get_renderable=self._screen, console=self._console)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console:
            self._stage = self._stage if kind else ""
            self._live.transient = not (self._stage or self._records)
            self._live.stop()

    def notify(self, progress: Progress) -> None:
        """Show how far the run is."""
        n_done, n_total, stage = progress.n_done, progress.n_total, progress.stage
        if stage == WAIT:
            self._update(stage, progress.note, n_done, n_total)
            self._note(progress.note)
            return
        if stage == GATE:
            self._is_sealed = self._terminal.is_agents
            if self._is_sealed:
                self._update("promotion test", "attempts are not shown to agents", 0, 0)
                return
            self._pace(stage, n_done)
            self._update("promotion test", f"attempt {n_done} of at most {n_total}", n_done, n_total)
            return
        if progress.current is not None and progress.best is not None:
            self._scores = f"val {progress.current:.2f}, best {progress.best:.2f}"
        self._is_sealed = False
        if progress.epoch:
            self._pace("step", n_done)
        if stage == "step":
            if self._steps and progress.record:
                self._records.append(progress.record)
            self._update(stage, f"epoch {progress.epoch}, step {n_done} of {n_total}", n_done, n_total)
            if self._steps and not self._console:
                shown = progress.record.show_score(2) if progress.record else "-"
                tried = "" if shown == "-" else f"candidate {shown}, "
                verdict = _VERDICTS[progress.record.verdict][0] if progress.record else progress.note
                step = f"step {n_done}/{n_total}  epoch {progress.epoch}"
                self._note(f"{step}  {tried}{verdict}; val {progress.current or 0:.2f}")
        else:
            step = f"epoch {progress.epoch}, step {n_done + 1} of {n_total}"
            self._update(stage, step if progress.epoch else "the live version on the val tasks", n_done, n_total)

    def on_reply(self, call: Call, reply: Reply) -> None:
        """Count what a reply has used."""
        self._warn_unanswered(call, reply)
        if self._is_sealed:
            self._refresh()
            return
        usage = reply.usage
        self._n_calls += 1
        self._n_of_stage += 1
        self._n_missing += reply.missing
        self._n_tokens += usage.tokens_in + usage.tokens_out
        self._usd = None if self._usd is None or usage.usd is None else self._usd + usage.usd
        self._refresh()

    def _update(self, stage: str, place: str, n_done: int, n_total: int) -> None:
        self._place = f"{stage}, {place}"
        if (stage, n_done) != (self._stage, self._n_done):
            self._n_of_stage = 0
        self._stage, self._n_done, self._n_total = stage, n_done, n_total
        self._refresh()
        if self._console:
            self._live.refresh()

    def _refresh(self) -> None:
        """Ask for what is used of the caps, which the table shows; without a terminal print a line a minute."""
        if self._clock() - self._noted_at < (_ASK_S if self._console else _BEAT_S):
            return
        self._noted_at = self._clock()
        if self._console:
            self._used = "" if self._is_sealed else self._caps()
        else:
            self._terminal.note("; ".join(filter(None, (self._place, self._scores, self._spent(), self._label))))

    def _spent(self) -> str:
        missing = f", {self._n_missing} missing" if self._n_missing else ""
        usd = "price unknown" if self._usd is None else f"${self._usd:.2f}"
        return f"{counted(self._n_calls, 'call')}{missing}, {counted(self._n_tokens, 'token')}, {usd}"

    def _note(self, text: str) -> None:
        if self._console:
            self._console.print(escaped(text), soft_wrap=True, markup=False)
        else:
            self._terminal.note(text)

    # The screen

    def _screen(self) -> RenderableType:
        """Return the table of the last steps and, while something is at work, lines on that and on what is spent."""
        from rich.console import Group  # noqa: PLC0415
        from rich.progress_bar import ProgressBar  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415

        parts: list[RenderableType] = []
        if self._records:
            steps = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
            for name in ("step", "epoch", "edits", "train", "candidate", "best"):
                steps.add_column(name, justify="right", no_wrap=True)
            steps.add_column("verdict", no_wrap=True)
            for each in self._records[-_STEPS_SHOWN:]:
                train, (verdict, style) = each.train_current or each.train, _VERDICTS[each.verdict]
                steps.add_row(
                    str(each.n), str(each.epoch), str(each.n_applied) if each.kind == "step" else each.kind,
                    f"{train.hard:.2f}" if train.n else "-", each.show_score(2),
                    f"{each.best:.2f}", "-" if each.kind == "meta" else verdict, style=style,
                )  # fmt: skip
            parts.append(steps)
        if self._stage:
            answers = f", {counted(self._n_of_stage, 'answer')}" if self._n_of_stage else ""
            place = "  ".join(filter(None, (self._label, escaped(self._place) + answers)))
            at_work = Table.grid(padding=(0, 1))
            at_work.add_row(ProgressBar(self._n_total or None, self._n_done, _BAR_WIDTH), place)
            left = ""  # how long what is left takes, by the mean of the steps, or attempts, that are done
            (what, n_first, began_at), (_, n_done, done_at) = self._first, self._last
            if n_first < n_done < self._n_total and self._stage != WAIT:
                mean = (done_at - began_at) / (n_done - n_first)
                seconds = mean * (self._n_total - n_done) - (self._clock() - done_at)
                duration = f"{max(1.0, seconds):.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
                left = f"at most {duration} left" if what == GATE else f"about {duration} to the promotion test"
            lines = ("  ".join(filter(None, (self._scores, self._spent(), left))), self._used)
            parts += [at_work, *filter(None, lines)]
        return Group(*parts)

    def _pace(self, what: str, n_done: int) -> None:
        """Note when steps, or attempts of a promotion test, began and when the last of them was done."""
        if what != self._last[0] or n_done < self._last[1]:
            self._first = self._last = (what, n_done, self._clock())
        elif n_done > self._last[1]:
            self._last = (what, n_done, self._clock())
