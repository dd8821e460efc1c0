"""Harvest: record the attempts with tracked skills that past sessions of Claude Code and Codex hold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.evidence.harvesting import Harvested, harvest
from skillopt_mcp.operations.evidence.sessions import session_files, session_folders
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which transcripts to read (none: all that the hosts keep), and whether only to count."""

    paths: Sequence[str] = ()
    dry_run: bool = False


def run(options: Options) -> int:
    """Return 0 when every transcript could be read, 1 when some could not."""
    given = [Path(path).expanduser() for path in options.paths]
    kept = session_folders(Path(os.path.expanduser("~")), os.environ)
    files = session_files(given or [folder for folder in kept if folder.is_dir()])
    bar = Progress(
        TextColumn("reading sessions"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        console=terminal.stderr(), transient=True, disable=options.json or not terminal.stderr().is_terminal,
    )  # fmt: skip
    with Workspace(options.store_path) as workspace, bar:
        task = bar.add_task("", total=sum(path.stat().st_size for path in files))
        found = harvest(workspace, files, dry_run=options.dry_run, advance=lambda n: bar.advance(task, n))
    if options.json:
        terminal.emit(found, options)
    else:
        _say(found, options)
    return 1 if found.n_problems else 0


def _say(found: Harvested, options: Options) -> None:
    would = "would be recorded" if found.dry_run else "recorded"
    terminal.say(
        f"{counted(found.recorded, 'attempt')} {would}, {found.known:,} known before "
        f"({counted(found.n_files, 'session')}, {found.n_bytes / 1e6:,.1f} MB)."
    )
    for name, n in found.skills.items():
        terminal.say(f"    {name}: {n:,}")
    for problem in found.problems:
        terminal.note(f"error: {problem.path}: {problem.reason}")
    if found.n_problems > len(found.problems):
        terminal.note(f"error: and {found.n_problems - len(found.problems):,} more could not be used")
    if found.next_step:
        terminal.note(terminal.advice(found.next_step, options))
