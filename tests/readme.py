"""Readme: the parts of README.md and of the guide that are made from the code; `python -m tests.readme` writes them."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from skillopt_mcp.cli.main import commands
from skillopt_mcp.guide.pages import pages
from skillopt_mcp.optimizer.config import Config, allowed
from skillopt_mcp.records import judging
from skillopt_mcp.server.app import LISTED_PATH
from skillopt_mcp.settings.reading import structured
from skillopt_mcp.settings.skillopt_names import FIELDS
from skillopt_mcp.store import driver
from skillopt_mcp.store.migrating import migrate, migration_files

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
GUIDE = ROOT / "skillopt_mcp" / "guide"
PAGES = (README, *sorted(GUIDE.glob("*.md")))
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end generated -->)", re.DOTALL)


def generated(text: str) -> str:
    """Return a page's text with every generated block made anew."""
    return _BLOCK.sub(lambda match: f"{match[1]}{BLOCKS[match[2]]()}\n{match[3]}", text)


def claude_desktop() -> str:
    """Return the example configuration of Claude Desktop."""
    return f"```json\n{(ROOT / 'claude_desktop_config.example.json').read_text('utf-8').strip()}\n```"


def tools() -> str:
    """Return the tools as a table."""
    rows = ["| tool | does |", "|---|---|"]
    for tool in json.loads(LISTED_PATH.read_text("utf-8"))["tools"]:
        description = " ".join(tool["description"].split())
        arguments = ", ".join(
            name if name in tool["inputSchema"].get("required", []) else f"{name}?"
            for name in tool["inputSchema"]["properties"]
        )
        rows.append(f"| `{tool['name']}({arguments})` | {description} |")
    return "\n".join(rows)


def guide() -> str:
    """Return the pages of the guide as a table."""
    rows = [f"| [{page.name}](skillopt_mcp/guide/{page.name}.md) | {page.title} |" for page in pages()]
    return "\n".join(["| page | about |", "|---|---|", *rows])


def judges() -> str:
    """Return the judges as a table."""
    rows = ["| judge | passes when |", "|---|---|"]
    for kind, spec in judging.SPECS.items():
        rows.append(f"| `{kind}` | {' '.join((spec.__doc__ or '').split())} |")
    return "\n".join(rows)


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
        ["| command | does |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in commands().items())]
    )


def schema() -> str:
    """Return the schema of a new store: what the migrations made, under the comment that each table opens with."""
    comments = {
        name: comment.strip()
        for path in migration_files()
        for comment, name in re.findall(r"((?:^--.*\n)+)create table (\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        connection = driver.connect(path)
        migrate(connection, path)
        rows = connection.execute(
            "select name, sql from sqlite_schema where type = 'table' and name not like '%sqlite_%' order by rowid"
        ).fetchall()
        connection.close()
    tables = "\n\n".join(f"{comments[name]}\n{sql};" for name, sql in rows)
    return f"<details><summary>{len(rows)} tables</summary>\n\n```sql\n{tables}\n```\n\n</details>"


BLOCKS: dict[str, Callable[[], str]] = {
    "claude_desktop": claude_desktop,
    "guide": guide,
    "tools": tools,
    "judges": judges,
    "settings": settings,
    "commands": command_table,
    "schema": schema,
}

if __name__ == "__main__":
    for path in PAGES:
        path.write_text(generated(path.read_text("utf-8")), "utf-8")
