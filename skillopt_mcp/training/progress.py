"""Progress: what a run reports to its callback; the only way that news leaves the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillopt_mcp.core.evidence import Trial
    from skillopt_mcp.core.runs import StepRecord


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands: `n_done` of `n_total` steps, its scores on val by its metric.

    The stage baseline has no score yet: `current` of the stage after it is the score that a new run starts from. In the
    stage promotion it is attempts of the promotion test that are done, without scores; `note` is whether it accepted
    once that is decided. `train` is the share of the step's train attempts that solved their task, as soon as it is
    known. The stage step has the `record` of the finished step. `run_id` is set by `train` of the Python package.
    """

    stage: str
    epoch: int
    n_done: int
    n_total: int
    current: float | None = None
    best: float | None = None
    note: str = ""
    candidate: float | None = None
    run_id: str | None = None
    train: float | None = None
    record: StepRecord | None = field(default=None, repr=False)


# Nothing can be asked for a while; the note says why.
WAIT = "wait"
Notify = Callable[[Progress], None]


def pause_reporter(notify: Notify) -> Callable[[object], None]:
    """Make what reports a pause, in its own words, in the stage WAIT."""
    return lambda pause: notify(Progress(WAIT, 0, 0, 0, note=str(pause)))


def report_copies(notify: Notify, trials: Iterable[Trial]) -> None:
    """Report in the stage WAIT that further attempts at these tasks only repeat the first one."""
    from skillopt_mcp.core.notes import describe_note, note_copies  # noqa: PLC0415 (listing skills takes no pydantic)

    for note in note_copies(trials):
        notify(Progress(WAIT, 0, 0, 0, note=f"note: {describe_note(note)}"))


def silent(_: Progress) -> None:
    """Report nothing."""
