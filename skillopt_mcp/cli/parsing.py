"""Parsing: what is asked for on the command line; light, for `serve` passes through here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from skillopt_mcp import __version__
from skillopt_mcp.cli.declaring import PROGRAM, Command, common
from skillopt_mcp.cli.keeping import KEEPING
from skillopt_mcp.cli.training import TRAINING

COMMANDS: dict[str, Command] = {**TRAINING, **KEEPING}


def parse(arguments: Sequence[str]) -> tuple[str, dict[str, object]]:
    """Return the command's name and the values of its options. Raises SystemExit for --help and wrong usage."""
    values: dict[str, object] = {"store": None, "json": False}
    top = _top()
    if not arguments:
        top.print_help(sys.stderr)
        raise SystemExit(2)
    before = vars(top.parse_args(arguments))
    name, rest = str(before.pop("command")), before.pop("arguments")
    if COMMANDS[name].takes_line and "--" in rest:
        at = rest.index("--")
        rest, values["line"] = rest[:at], tuple(rest[at + 1 :])
    return name, values | before | vars(_parser(name).parse_args(rest))


def needs_store(name: str, values: Mapping[str, object]) -> bool:
    """Return whether what was parsed is about what a store holds already."""
    return str(values.get("action") or "") in COMMANDS[name].needs_store


def _top() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{command.help}" for name, command in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Train the skill files of coding agents, with a gate that does not lie.",
        epilog="\n".join(
            ["commands:", *lines, "", "Try it, with no key and no model:  skillopt-mcp demo",
             "Options of a command:             skillopt-mcp COMMAND --help"]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s [-h] [--version] [--store PATH] COMMAND ...",
        allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    common(parser)
    parser.add_argument("command", choices=tuple(COMMANDS), metavar="COMMAND", help="what to do, see below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS).required = False
    return parser


def _parser(name: str) -> argparse.ArgumentParser:
    command = COMMANDS[name]
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} {name}",
        description=f"{command.help[:1].upper()}{command.help[1:]}.",
        epilog=f"example:\n  {PROGRAM} {command.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.declare(parser)
    common(parser)
    return parser
