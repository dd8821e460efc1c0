"""Guide: the user's guide, a page at a time; it needs no store and no network."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.guide.pages import page, pages


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which page (none: the list of pages)."""

    page: str | None = None


def run(options: Options) -> int:
    """Return 0. Raises NotFound for a page that is not there."""
    if options.page:
        found = page(options.page)
        if options.json:
            terminal.emit(asdict(found))
        else:
            terminal.say_markdown(found.text)
        return 0
    listed = pages()
    if options.json:
        terminal.emit({"pages": [{"name": each.name, "title": each.title} for each in listed]})
        return 0
    terminal.say_table(("page", "about"), [(each.name, each.title) for each in listed])
    terminal.note("Read one with: skillopt-mcp guide PAGE")
    return 0
