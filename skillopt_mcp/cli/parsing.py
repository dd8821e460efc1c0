"""Parsing: what is asked for on the command line; light, for `serve` passes through here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from skillopt_mcp import __version__
from skillopt_mcp.cli.declaring import PROGRAM, Command, common
from skillopt_mcp.cli.keeping import KEEPING
from skillopt_mcp.cli.training import TRAINING
from skillopt_mcp.documents.characters import quoted

COMMANDS: dict[str, Command] = {**TRAINING, **KEEPING}
PAGE_OF = {
    "serve": "hosts", "install": "hosts", "uninstall": "hosts", "capture": "recording", "harvest": "recording",
    "tasks": "tasks", "judges": "tasks", "replay": "replay", "runs": "replay", "evaluate": "evidence",
    "calibrate": "comparing", "race": "comparing", "credit": "comparing", "promote": "promoting",
    "approve": "promoting", "rollback": "promoting", "rebase": "promoting", "history": "promoting",
    "skills": "skills", "check": "checking", "verify": "store", "backup": "store", "restore": "store",
    "erase": "store", "export": "sharing", "import": "sharing",
}  # fmt: skip
"""The page of the guide that tells most of a command, where one does."""


class WrongUsage(Exception):
    """What is wrong with the arguments; the person has been told it, with the usage."""


class _Parser(argparse.ArgumentParser):
    """A parser whose caller tells programs, too, what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        sys.stderr.write(f"{self.prog}: error: {message}\n")
        raise WrongUsage(message)


def parse(arguments: Sequence[str]) -> tuple[str, dict[str, object]]:
    """Return the command's name and the values of its options. Raises SystemExit for --help, WrongUsage."""
    values: dict[str, object] = {"store": None, "json": False}
    top = _top()
    if not arguments:
        top.print_help(sys.stderr)
        raise SystemExit(2)
    before = vars(top.parse_args(arguments))
    name, rest = str(before.pop("command")), before.pop("arguments")
    if name not in COMMANDS:
        top.error(_unknown(name))
    if COMMANDS[name].takes_line and "--" in rest:
        at = rest.index("--")
        rest, values["line"] = rest[:at], tuple(rest[at + 1 :])
    return name, values | before | vars(_parser(name).parse_args(rest))


def needs_store(name: str, values: Mapping[str, object]) -> bool:
    """Return whether what was parsed is about what a store holds already."""
    return str(values.get("action") or "") in COMMANDS[name].needs_store


def _unknown(name: str) -> str:
    # Only a mistake pays for it: `serve` passes through here, and this doubles what that takes.
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(name, COMMANDS, n=1)
    meant = f"did you mean {quoted(near[0])}? " if near else ""
    return f"there is no command {quoted(name)}: {meant}{PROGRAM} --help lists them"


def _top() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{command.help}" for name, command in COMMANDS.items()]
    parser = _Parser(
        prog=PROGRAM,
        description="Train the skill files of coding agents, with a gate that does not lie.",
        epilog="\n".join(
            ["commands:", *lines, "", "Try it, with no key and no model:  skillopt-mcp demo",
             "Options of a command:             skillopt-mcp COMMAND --help",
             "How things work, page by page:    skillopt-mcp guide"]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s [-h] [--version] [--store PATH] COMMAND ...",
        allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    common(parser)
    parser.add_argument("command", metavar="COMMAND", help="what to do, see below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS).required = False
    return parser


def _parser(name: str) -> argparse.ArgumentParser:
    command = COMMANDS[name]
    more = f"\n\nmore of it:\n  {PROGRAM} guide {PAGE_OF[name]}" if name in PAGE_OF else ""
    parser = _Parser(
        prog=f"{PROGRAM} {name}",
        description=f"{command.help[:1].upper()}{command.help[1:]}.",
        epilog=f"example:\n  {PROGRAM} {command.example}{more}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.declare(parser)
    common(parser)
    return parser
