"""Harvest: read past sessions of Claude Code and Codex."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from skillopt_mcp.actions.sessions import SessionsRead, read_host_sessions
from skillopt_mcp.cli.command import Arg, Command, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.cli.watching import show_work
from skillopt_mcp.core.text import counted


@command("harvest", example="harvest")
class Harvest(Command):
    """Read the tasks that you gave in past sessions of Claude Code and Codex."""

    paths: Annotated[
        tuple[str, ...], Arg("transcripts, or folders of them (default: all that hosts keep)", "PATH")
    ] = ()

    def run(self, terminal: Terminal) -> SessionsRead:
        given = [Path(path).expanduser() for path in self.paths]
        with terminal.workspace() as workspace, show_work(terminal) as progress:
            return read_host_sessions(
                workspace.store, workspace.place, given, lambda n, of: progress("reading sessions", n, of)
            )

    def show(self, result: SessionsRead, terminal: Terminal) -> None:
        labels = ", ".join(f"{n:,} {label}" for label, n in result.episodes.items()) or "none"
        terminal.say(
            f"New tasks: {labels} ({counted(result.n_files, 'session')} read, {result.n_unchanged:,} unchanged, "
            f"{result.n_bytes / 1e6:,.1f} MB)."
        )
        for problem in result.problems:
            terminal.note(f"error: {problem.path}: {problem.reason}")
        if result.n_problems > len(result.problems):
            terminal.note(f"error: and {result.n_problems - len(result.problems):,} more could not be read")

    def exit_code(self, result: SessionsRead) -> int:
        return 1 if result.n_problems else 0
