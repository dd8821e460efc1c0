"""Harvest: record attempts from past sessions of Claude Code and Codex."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from skillopt_mcp.actions.sessions import Harvested, harvest, session_files, session_folders
from skillopt_mcp.cli.command import Arg, Command, Flag, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.cli.watching import show_work
from skillopt_mcp.core.text import counted


@command("harvest", example="harvest --dry-run")
class Harvest(Command):
    """Record attempts with tracked skills from past sessions of Claude Code and Codex."""

    paths: Annotated[
        tuple[str, ...], Arg("transcripts, or folders of them (default: all that hosts keep)", "PATH")
    ] = ()
    dry_run: Annotated[bool, Flag("count them, and record nothing")] = False

    def run(self, terminal: Terminal) -> Harvested:
        given = [Path(path).expanduser() for path in self.paths]
        kept = session_folders(Path(os.path.expanduser("~")), os.environ)
        files = session_files(given or [folder for folder in kept if folder.is_dir()])
        n_total, n_read = sum(path.stat().st_size for path in files), 0
        with terminal.workspace() as workspace, show_work(terminal) as progress:

            def advance(n_bytes: int) -> None:
                nonlocal n_read
                n_read += n_bytes
                progress("reading sessions", n_read, n_total)

            return harvest(workspace.store, workspace.place, files, dry_run=self.dry_run, advance=advance)

    def show(self, result: Harvested, terminal: Terminal) -> None:
        would = "would be recorded" if result.dry_run else "recorded"
        terminal.say(
            f"{counted(result.recorded, 'attempt')} {would}, {result.known:,} known before "
            f"({counted(result.n_files, 'session')}, {result.n_bytes / 1e6:,.1f} MB)."
        )
        for name, n in result.skills.items():
            terminal.say(f"    {name}: {n:,}")
        for problem in result.problems:
            terminal.note(f"error: {problem.path}: {problem.reason}")
        if result.n_problems > len(result.problems):
            terminal.note(f"error: and {result.n_problems - len(result.problems):,} more could not be read")

    def exit_code(self, result: Harvested) -> int:
        return 1 if result.n_problems else 0
