"""Report: what happened, as a page to look at."""

from __future__ import annotations

import re
import sys
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from skillopt_mcp.cli.command import Arg, Command, Flag, WrongUsage, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.errors import BadInput, NotFound, SkillOptError

if TYPE_CHECKING:
    from skillopt_mcp.report.facts import Facts


@dataclass(frozen=True)
class _Written:
    paths: tuple[Path, ...]


@command("report", example="report my-skill --open", needs_store=True)
class Report(Command):
    """Write verdict, tasks, diff, learning curve and spend as one page, or show it live."""

    ids: Annotated[Sequence[str], Arg("SKILL | r-... | t-... | c-...; several side by side (default: all skills)")] = ()
    open: Annotated[bool, Flag("open the page in your browser")] = False
    html: Annotated[str | None, Flag("where to write the page (default: next to the store)", "FILE")] = None
    md: Annotated[str | None, Flag("write Markdown: of held-out tasks, ids and tags alone", "FILE")] = None
    csv: Annotated[str | None, Flag("write tasks, steps and spend as tables", "DIR")] = None
    live: Annotated[bool, Flag("show all skills and their runs on this machine, as they go on, until Ctrl-C")] = False
    port: Annotated[int, Flag("of --live; 0: any that is free")] = 0

    def run(self, terminal: Terminal) -> _Written | None:
        """Return where what was asked for is."""
        # In it are held-out tasks.
        terminal.require_person("report")
        if self.live:
            self._serve(terminal)
            return None
        # Slow, and of use to nobody else.
        from skillopt_mcp.report.facts import Room, gather, gather_skills  # noqa: PLC0415
        from skillopt_mcp.report.rendering import html_page, markdown, write_csv, write_page  # noqa: PLC0415

        with terminal.workspace() as workspace:
            room = Room()
            try:
                found = [gather(workspace, id, room) for id in self.ids]
            except NotFound as error:
                raise WrongUsage(str(error)) from None
            facts = [*{each.id: each for each in found}.values()]
            skills = [] if facts else gather_skills(workspace)
        paths = list[Path]()
        try:
            if self.csv:
                paths += write_csv(facts, Path(self.csv).expanduser())
            if self.md:
                paths.append(Path(self.md).expanduser())
                write_page(markdown(facts), paths[-1])
            if self.html or self.open or not paths:
                path = Path(self.html).expanduser() if self.html else page_path(terminal.store_path, facts)
                paths.insert(0, path)
                write_page(html_page(facts, skills, terminal.store), path)
        except OSError as error:
            raise BadInput(f"'{error.filename}' cannot be written ({error.strerror}): name another place") from error
        if self.open:
            open_page(paths[0])
        return _Written(tuple(paths))

    def _serve(self, terminal: Terminal) -> None:
        from skillopt_mcp.report.live import serve_live  # noqa: PLC0415

        def announce(url: str) -> None:
            terminal.say(url)
            sys.stdout.flush()
            if self.open:
                webbrowser.open(url)

        path = f"/report/{self.ids[0]}" if self.ids else "/"
        with terminal.workspace() as workspace:
            serve_live(workspace, path, terminal.store, self.port, announce)

    def as_json(self, result: _Written) -> dict[str, object]:
        return {"paths": [str(path) for path in result.paths]}

    def show(self, result: _Written, terminal: Terminal) -> None:
        for path in result.paths:
            terminal.say(str(path))


def write_report(store_path: Path, id: str) -> Path:
    """Write the page on a thing of a store next to that, and return its path."""
    from skillopt_mcp.report.facts import gather  # noqa: PLC0415
    from skillopt_mcp.report.rendering import html_page, write_page  # noqa: PLC0415
    from skillopt_mcp.workspace import Workspace  # noqa: PLC0415

    with Workspace(store_path) as workspace:
        facts = [gather(workspace, id)]
    path = page_path(store_path, facts)
    write_page(html_page(facts, store=str(store_path)), path)
    return path


def show_page(terminal: Terminal, id: str) -> None:
    """Write the page on a thing that has just ended, for a person, and print its path."""
    if terminal.is_agents:
        return
    try:
        terminal.say(f"Report: {write_report(terminal.store_path, id)}")
    except (OSError, SkillOptError) as error:
        terminal.note(f"warning: no report was written: {error}.")


def page_path(store_path: Path, facts: Sequence[Facts]) -> Path:
    """Return where a page is when no place is named: next to the store."""
    name = "+".join(each.id for each in facts[:3]) or "skills"
    return store_path.parent / "reports" / f"{re.sub('[^A-Za-z0-9+-]', '-', name)[:100]}.html"


def open_page(path: Path) -> None:
    """Open a page in the browser; where there is none, its path is all that a person gets."""
    webbrowser.open(path.resolve().as_uri())
