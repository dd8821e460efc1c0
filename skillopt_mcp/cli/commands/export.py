"""Export: a skill's whole history as one file, for another store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.cli.working import working
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.stores.transferring import export_history
from skillopt_mcp.operations.workspace import Workspace

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which skill, and where to write its history."""

    skill: str = ""
    file: str = ""


def run(options: Options) -> int:
    """Return 0: it was written."""
    with Workspace(options.store_path) as workspace, working(options) as tell:
        sent = export_history(workspace, options.skill, Path(options.file).expanduser(), tell)
    if options.json:
        # What is next is done on another store than this one.
        terminal.emit(sent)
        return 0
    for each in sent.left_out:
        terminal.note(f"left out: {each}")
    if sent.redacted:
        terminal.note(_told(sent.redacted))
    if sent.likeness:
        terminal.note(options.on_store(f"note: {sent.likeness}."))
    n_lines, n_bytes = counted(sent.n_lines, "line"), counted(sent.n_bytes, "byte")
    terminal.say(f"{sent.file}: the history of {sent.skill}, {n_lines}, {n_bytes}.")
    terminal.say(sent.next_step)
    return 0


def _told(redacted: list[str]) -> str:
    """Return which tasks another store does not get as they are here."""
    names = ", ".join(f"'{name}'" for name in redacted[:_SHOWN])
    more = f" and {len(redacted) - _SHOWN:,} more" if len(redacted) > _SHOWN else ""
    return (
        f"note: redacted in the file: {counted(len(redacted), 'task')} with what looks like a secret ({names}{more}). "
        "Another store takes in the placeholder, and so another task under that id: use a made-up value instead"
    )
