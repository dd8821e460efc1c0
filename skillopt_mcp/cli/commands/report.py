"""Report: what happened, as a page to look at."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from skillopt_mcp.cli.command import Arg, Command, Flag, WrongUsage, command
from skillopt_mcp.cli.reports import open_page, page_path
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.errors import BadInput, NotFound


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

    def run(self, terminal: Terminal) -> dict[str, list[str]] | None:
        # In it are held-out tasks.
        for file in (self.html, self.md, self.csv):
            terminal.require_viewer("report", file or "report")
        if self.live:
            from skillopt_mcp.reports.live import serve_live  # noqa: PLC0415

            def announce(url: str) -> None:
                terminal.say(url)
                sys.stdout.flush()
                if self.open:
                    open_page(terminal, url)

            page = f"/report/{self.ids[0]}" if self.ids else "/"
            with terminal.workspace() as workspace:
                serve_live(workspace.store, workspace.place, page, terminal.store, self.port, announce)
            return None
        # Slow, and of use to nobody else.
        from skillopt_mcp.reports.facts import TextBudget, gather, gather_skills  # noqa: PLC0415
        from skillopt_mcp.reports.rendering import html_page, markdown, write_csv, write_page  # noqa: PLC0415

        with terminal.workspace() as workspace:
            texts = TextBudget()
            try:
                found = [gather(workspace.store, workspace.place, id, texts) for id in self.ids]
            except NotFound as error:
                raise WrongUsage(str(error)) from None
            facts = [*{each.id: each for each in found}.values()]
            skills = [] if facts else gather_skills(workspace.store, workspace.place)
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
            open_page(terminal, paths[0].resolve().as_uri())
        return {"paths": list(map(str, paths))}

    def show(self, result: dict[str, list[str]], terminal: Terminal) -> None:
        for path in result["paths"]:
            terminal.say(path)
