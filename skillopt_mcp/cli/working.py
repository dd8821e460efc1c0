"""Working: what a command does meanwhile that takes long on a big store, for a person who waits at a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.operations.stores.telling import Tell


@contextmanager
def working(options: Invocation) -> Iterator[Tell]:
    """Show what is told, on a terminal alone, and take it away at the end: the result says what is to be kept."""
    console = terminal.stderr()
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[share]}"),
        TimeElapsedColumn(), console=console, transient=True, disable=options.json or not console.is_terminal,
    )  # fmt: skip
    task = bar.add_task("opening the store", total=None, share="")

    def tell(what: str, n_done: int, n_total: int) -> None:
        share = f"{n_done / n_total:.0%}" if n_total else f"{n_done:,}" if n_done else ""
        bar.update(task, description=what, completed=n_done, total=n_total or None, share=share)

    with bar:
        yield tell
