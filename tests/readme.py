"""Readme: the parts of README.md and of docs/ that are made from the code; `python -m tests.readme` writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skillopt_mcp.backends.registry import backend_table
from skillopt_mcp.cli.command import describe_commands
from skillopt_mcp.server.app import listing
from skillopt_mcp.server.tools import tools_over
from skillopt_mcp.tasks.judges.judging import kinds
from skillopt_mcp.training.config import Config, allowed
from skillopt_mcp.training.settings.reading import structured
from skillopt_mcp.training.settings.skillopt_names import FIELDS
from skillopt_mcp.workspace.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = (README, ROOT / "ARCHITECTURE.md", *sorted(DOCS.glob("*.md")))
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end generated -->)", re.DOTALL)


def generated(text: str) -> str:
    """Return a page's text with every generated block written again."""
    return _BLOCK.sub(lambda match: f"{match[1]}{BLOCKS[match[2]]()}\n{match[3]}", text)


def claude_desktop() -> str:
    """Return the example configuration of Claude Desktop."""
    return f"```json\n{(ROOT / 'claude_desktop_config.example.json').read_text('utf-8').strip()}\n```"


def listed_tools() -> list[dict[str, Any]]:
    """Return the tools as hosts see them."""
    found: list[dict[str, Any]] = json.loads(listing(tools_over(Workspace(Path("store.db")))))["tools"]
    return found


def tools() -> str:
    """Return the tools as a table."""
    rows = ["| tool | does |", "|---|---|"]
    for tool in listed_tools():
        description = " ".join(tool["description"].split())
        arguments = ", ".join(
            name if name in tool["inputSchema"].get("required", []) else f"{name}?"
            for name in tool["inputSchema"]["properties"]
        )
        rows.append(f"| `{tool['name']}({arguments})` | {description} |")
    return "\n".join(rows)


def judges() -> str:
    """Return the judges as a table."""
    rows = ["| judge | passes when |", "|---|---|"]
    rows += [f"| `{kind}` | {text} |" for kind, text in kinds().items()]
    read = ", ".join(f"`{kind}`" for kind in kinds(of_evals=True))
    return "\n".join([*rows, "", f"Judges of other kinds come of [reading evals](evals.md): {read}."])


def settings() -> str:
    """Return the settings of a run as a table, with what SkillOpt calls them."""
    theirs = {name: structured(flat) for flat, name in FIELDS.items()}
    rows = ["| setting | default | means | SkillOpt |", "|---|---|---|---|"]
    for name, field in Config.model_fields.items():
        other = f"`{theirs[name]}`" if name in theirs else ""
        default = str(field.default).lower()
        rows.append(f"| `{name}` | {default} | {field.description} ({allowed(field)}) | {other} |")
    return "\n".join(rows)


def command_table() -> str:
    """Return the commands as a table."""
    return "\n".join(
        ["| command | does |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in describe_commands().items())]
    )


def schema() -> str:
    """Return each table and view of the store, with what a row of it is."""
    parts = []
    for file in ("schema.sql", "views.sql"):
        text = (ROOT / "store" / file).read_text("utf-8")
        for comment, kind, name, body in re.findall(
            r"((?:^-- [^\n]*\n)+)create (table|view) (\w+)(.*?;)$", text, re.M | re.S
        ):
            about = " ".join(line.removeprefix("-- ") for line in comment.splitlines())
            parts.append(f"### {name}\n\n{about}\n\n```sql\ncreate {kind} {name}{body}\n```")
    return "\n\n".join(parts)


def views() -> str:
    """Return each view of the store in a line, and the queries that come with them."""
    found = json.loads((ROOT / "store" / "datasette.json").read_text("utf-8"))["databases"]["skillopt"]
    rows = ["| view | has |", "|---|---|"]
    rows += [f"| [`{name}`](schema.md#{name}) | {view['description']} |" for name, view in found["tables"].items()]
    for name, query in found["queries"].items():
        about = f"{query['title']} (`{name}`): {query['description'][:1].lower()}{query['description'][1:]}"
        rows += ["", about, "", "```sql", query["sql"], "```"]
    return "\n".join(rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "claude_desktop": claude_desktop,
    "tools": tools,
    "judges": judges,
    "backends": backend_table,
    "settings": settings,
    "commands": command_table,
    "schema": schema,
    "views": views,
}

if __name__ == "__main__":
    for path in PAGES:
        path.write_text(generated(path.read_text("utf-8")), "utf-8")
