"""Watching: progress of long work, as a bar on a terminal and as lines anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from skillopt_mcp.dispatch import BATCH
from skillopt_mcp.documents.text import counted, escaped
from skillopt_mcp.gates.promotion import GATE
from skillopt_mcp.training.progress import WAIT

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from skillopt_mcp.cli.terminal import Terminal
    from skillopt_mcp.records.calls import Call, Reply
    from skillopt_mcp.training.progress import Progress

# Often enough for a log.
_BEAT_S = 60.0
_VERDICTS = {
    "accept_best": "accepted, the best so far",
    "accept": "accepted",
    "reject": "rejected by the search gate",
    "no_change": "no usable edit",
    "held": "held by the guard",
}


class Show(Protocol):
    """Shows that `n_done` of `n_total` parts of some work are done."""

    def __call__(self, what: str, n_done: int, n_total: int) -> None: ...


@contextmanager
def working(terminal: Terminal) -> Iterator[Show]:
    """Show work on a terminal alone, and take it away at the end."""
    bar = None if terminal.is_json else _bar()
    if bar is None:
        yield lambda *_: None
        return
    task = bar.add_task("opening the store", total=None, place="")

    def show(what: str, n_done: int, n_total: int) -> None:
        share = f"{n_done / n_total:.0%}" if n_total else f"{n_done:,}" if n_done else ""
        bar.update(task, description=what, completed=n_done, total=n_total or None, place=share)

    with bar:
        yield show


def _bar() -> Bar | None:
    """Return a bar with a text on both sides; None where no person looks, who pays for no import of it."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    columns = TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[place]}")
    return Progress(*columns, console=console, transient=True)


class Watch:
    """Shows a run from its start to its end: use it as a context manager, its two methods as callbacks.

    `label` is shown on every screen of a simulation; `steps` prints each finished step as a line. Where no bar can be
    drawn, a line a minute says how far it is, by this clock.
    """

    def __init__(
        self, terminal: Terminal, label: str = "", *, steps: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._terminal, self._label, self._steps, self._clock = terminal, label, steps, clock
        self._n_calls = self._n_missing = self._n_tokens = 0
        self._usd: float | None = 0.0
        self._scores, self._place, self._noted_at = "", "started", clock()
        self._bar = None if terminal.is_json else _bar()
        self._task = self._bar.add_task("baseline", total=None, place="") if self._bar else None

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def notify(self, progress: Progress) -> None:
        """Show how far the run is."""
        n_done, n_total, stage = progress.n_done, progress.n_total, progress.stage
        if stage == WAIT:
            self._update(stage, progress.note, n_done, n_total)
            self._note(progress.note)
            return
        if stage == GATE:
            self._update("promotion test", f"attempt {n_done} of at most {n_total}", n_done, n_total)
            return
        if progress.current is not None and progress.best is not None:
            self._scores = f"val {progress.current:.2f}, best {progress.best:.2f}"
        if stage == BATCH:
            note = f", {progress.note}" if progress.note else ""
            self._update(stage, f"at the vendor: {n_done} of {counted(n_total, 'call')}{note}", n_done, n_total)
            if progress.note:
                self._note(f"{progress.note}: {counted(n_total, 'call')}")
        elif stage == "step":
            self._update(stage, f"epoch {progress.epoch}, step {n_done} of {n_total}", n_done, n_total)
            if self._steps:
                tried = "" if progress.candidate is None else f"candidate {progress.candidate:.2f}, "
                verdict = _VERDICTS.get(progress.note, progress.note)
                step = f"step {n_done}/{n_total}  epoch {progress.epoch}"
                self._note(f"{step}  {tried}{verdict}; val {progress.current or 0:.2f}")
        else:
            step = f"epoch {progress.epoch}, step {n_done + 1} of {n_total}"
            self._update(stage, step if progress.epoch else "the live version on the val tasks", n_done, n_total)

    def on_reply(self, _: Call, reply: Reply) -> None:
        """Count what a reply has used."""
        usage = reply.usage
        self._n_calls += 1
        self._n_missing += reply.missing
        self._n_tokens += usage.tokens_in + usage.tokens_out
        self._usd = None if self._usd is None or usage.usd is None else self._usd + usage.usd
        self._refresh()

    def _update(self, stage: str, place: str, n_done: int, n_total: int) -> None:
        self._place = f"{stage}, {place}"
        if self._bar and self._task is not None:
            self._bar.update(self._task, description=stage, completed=n_done, total=n_total)
        self._refresh()

    def _refresh(self) -> None:
        """Show place, scores and spending at the bar; without one a line a minute."""
        parts = (self._place, self._scores, self._spent(), self._label)
        if self._bar and self._task is not None:
            self._bar.update(self._task, place="  ".join(filter(None, parts)))
        elif self._clock() - self._noted_at >= _BEAT_S:
            self._noted_at = self._clock()
            self._terminal.note("; ".join(filter(None, parts)))

    def _spent(self) -> str:
        missing = f", {self._n_missing} missing" if self._n_missing else ""
        usd = "price unknown" if self._usd is None else f"${self._usd:.2f}"
        return f"{counted(self._n_calls, 'call')}{missing}, {counted(self._n_tokens, 'token')}, {usd}"

    def _note(self, text: str) -> None:
        if self._bar:
            self._bar.console.print(escaped(text), soft_wrap=True, markup=False)
        else:
            self._terminal.note(text)
