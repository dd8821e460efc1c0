"""Watching: a run as it goes on, as a bar on a terminal and as a line per step anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from skillopt_mcp.cli.terminal import stderr
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.spending.waves import BATCH
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.optimizer.progress import WAIT
from skillopt_mcp.optimizer.progress import Progress as Standing
from skillopt_mcp.records.calls import Call, Reply

# A log that is not looked at for long says often enough by then that it goes on.
_BEAT_S = 60.0
_LAPPED = ("calibrate", "race", "credit")
_VERDICTS = {
    "accept_best": "accepted, the best so far",
    "accept": "accepted",
    "reject": "rejected by the search gate",
    "no_change": "no usable edit",
    "held": "held by the guard",
}


class Spend:
    """What the replies that came in since the start have used; `usd` is None once a price is unknown."""

    def __init__(self) -> None:
        self.n_calls = 0
        self.n_missing = 0
        self.n_tokens = 0
        self.usd: float | None = 0.0

    def add(self, reply: Reply) -> None:
        """Count one reply."""
        self.n_calls += 1
        self.n_missing += reply.missing
        self.n_tokens += reply.usage.tokens_in + reply.usage.tokens_out
        price = reply.usage.usd
        self.usd = None if self.usd is None or price is None else self.usd + price

    def __str__(self) -> str:
        missing = f", {self.n_missing} missing" if self.n_missing else ""
        usd = "price unknown" if self.usd is None else f"${self.usd:.2f}"
        return f"{counted(self.n_calls, 'call')}{missing}, {counted(self.n_tokens, 'token')}, {usd}"


class _Bar(Progress):
    """The bar, and under it what the run has reached and used."""

    below = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bar and the line below it."""
        yield self.make_tasks_table(self.tasks)
        yield Text(self.below, style="dim", overflow="ellipsis", no_wrap=True)


class Watch:
    """Shows a run from its start to its end: use it as a context manager, its two methods as callbacks.

    `label` stands on every screen of a simulation; `steps` prints each finished step as a line. Where no bar can be
    drawn, a line a minute says how far it is, by this clock.
    """

    def __init__(
        self, label: str = "", *, steps: bool = True, silent: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.spend = Spend()
        self._label, self._steps = label, steps and not silent
        self._is_told = not silent
        self._console: Console = stderr()
        self._bar = _Bar(
            TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[place]}"),
            console=self._console, transient=True, disable=silent or not self._console.is_terminal,
        )  # fmt: skip
        self._task: TaskID = self._bar.add_task("baseline", total=None, place="")
        self._scores = self._place = ""
        self._clock, self._told_at = clock, clock()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def notify(self, standing: Standing) -> None:
        """Show where the run stands."""
        if standing.stage == GATE:
            self._pairs(standing)
        elif standing.stage == BATCH:
            self._batch(standing)
        elif standing.stage == WAIT:
            self._pause(standing.note)
        elif standing.stage in _LAPPED:
            note = f", {standing.note}" if standing.note else ""
            self._show(standing, f"task {standing.n_done} of at most {standing.n_total}{note}")
        elif standing.stage == "step":
            self._step(standing)
        else:
            place = f"epoch {standing.epoch}, step {standing.n_done + 1} of {standing.n_total}"
            self._show(standing, place if standing.epoch else "the live version on the val tasks")

    def on_reply(self, _: Call, reply: Reply) -> None:
        """Count what a reply has used."""
        self.spend.add(reply)
        self._below()

    def _show(self, standing: Standing, place: str) -> None:
        if standing.current is not None and standing.best is not None:
            self._scores = f"val {standing.current:.2f}, best {standing.best:.2f}"
        self._bar.update(
            self._task, description=standing.stage, completed=standing.n_done, total=standing.n_total, place=place
        )
        self._place = f"{standing.stage}, {place}"
        self._below()

    def _below(self) -> None:
        self._bar.below = "  ".join(part for part in (self._scores, str(self.spend), self._label) if part)
        if self._is_told and not self._console.is_terminal and self._clock() - self._told_at >= _BEAT_S:
            self._told_at = self._clock()
            so_far = (self._place or "begun", self._scores, f"{self.spend} so far", self._label)
            self._console.print("; ".join(filter(None, so_far)), soft_wrap=True, markup=False)

    def _batch(self, standing: Standing) -> None:
        note = f", {standing.note}" if standing.note else ""
        self._show(standing, f"at the vendor: {standing.n_done} of {counted(standing.n_total, 'call')}{note}")
        if standing.note and self._is_told:
            self._console.print(f"{standing.note}: {counted(standing.n_total, 'call')}", soft_wrap=True)

    def _pause(self, why: str) -> None:
        self._bar.update(self._task, place=why)
        if self._is_told:
            self._console.print(why, soft_wrap=True, markup=False)

    def _step(self, standing: Standing) -> None:
        self._show(standing, f"epoch {standing.epoch}, step {standing.n_done} of {standing.n_total}")
        if self._steps:
            tried = "" if standing.candidate is None else f"candidate {standing.candidate:.2f}, "
            self._console.print(
                f"step {standing.n_done}/{standing.n_total}  epoch {standing.epoch}  {tried}"
                f"{_VERDICTS.get(standing.note, standing.note)}; val {standing.current or 0:.2f}",
                soft_wrap=True,
            )

    def _pairs(self, standing: Standing) -> None:
        if standing.n_done:
            self._scores = f"live {standing.current or 0:.2f}, candidate {standing.best or 0:.2f}"
        place = f"pair {standing.n_done} of at most {standing.n_total}"
        self._bar.update(
            self._task, description="promotion test", completed=standing.n_done, total=standing.n_total, place=place
        )
        self._place = f"promotion test, {place}"
        self._below()
