"""Parsing: what every command takes from the command line; light, for `serve` passes through here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skillopt_mcp import __version__

PROGRAM = "skillopt-mcp"
_SIMULATED = "simulated:honest"


@dataclass(frozen=True, slots=True)
class Command:
    """A command as --help shows it, and what it declares beyond --store and --json."""

    help: str
    example: str
    declare: Callable[[argparse.ArgumentParser], object]


def parse(arguments: Sequence[str]) -> tuple[str, dict[str, object]]:
    """Return the command's name and the values of its options. Raises SystemExit for --help and wrong usage."""
    values: dict[str, object] = {"store": None, "json": False}
    top = _top()
    if not arguments:
        top.print_help(sys.stderr)
        raise SystemExit(2)
    before = vars(top.parse_args(arguments))
    name, rest = str(before.pop("command")), before.pop("arguments")
    return name, values | before | vars(_parser(name).parse_args(rest))


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
    _common(parser)
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
    _common(parser)
    return parser


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store", metavar="PATH", default=argparse.SUPPRESS, help="the store's file (else $SKILLOPT_STORE)"
    )
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object and nothing else"
    )


def _backends(parser: argparse.ArgumentParser, *roles: str) -> None:
    does = {"target": "does the tasks", "optimizer": "writes the edits"}
    for role in roles:
        parser.add_argument(f"--{role}", metavar="BACKEND:MODEL", help=f"who {does[role]}, for instance {_SIMULATED}")


def _yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask (needed where there is no terminal)")


def _serve(parser: argparse.ArgumentParser) -> None:
    _backends(parser, "target", "optimizer")


def _demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir", metavar="DIR", help="an empty or new folder to keep the demo in (else a temporary one)"
    )
    parser.add_argument("--seed", type=int, metavar="N", default=0, help="which simulated world (default 0)")
    parser.add_argument("--world", choices=("honest", "placebo"), default="honest", help="placebo: no edit ever helps")


def _replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL", help="a skill's name, or the path of its folder")
    _backends(parser, "target", "optimizer")
    settings = parser.add_argument_group("settings (defaults are the paper's)")
    for name, kind, text in (
        ("epochs", int, "passes over the train tasks (4)"),
        ("batch", int, "train tasks per step (40)"),
        ("minibatch", int, "trajectories per reflection (8)"),
        ("fan-in", int, "patches per merge (8)"),
        ("max-edits", int, "edit budget of the first step (4)"),
        ("min-edits", int, "edit budget of the last step (2)"),
        ("seed", int, "seed of every shuffle (42)"),
        ("sessions", int, "recorded attempts mixed into every reflection (8)"),
        ("alpha", float, "lifetime error rate of the promotion gate (0.05)"),
        ("max-pairs", int, "pairs after which the promotion gate pauses (200)"),
    ):
        settings.add_argument(f"--{name}", type=kind, metavar="N", help=text)
    settings.add_argument("--schedule", choices=("constant", "linear", "cosine"), help="fall of the budget (cosine)")
    settings.add_argument("--metric", choices=("hard", "soft", "mixed"), help="what the search gate compares (hard)")
    parser.add_argument("--slots", type=int, metavar="N", default=8, help="calls under way at once (default 8)")
    parser.add_argument("--resume", action="store_true", help="go on with the newest unfinished run of the skill")
    _yes(parser)


def _evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate", metavar="CANDIDATE", help="its id, c-...")
    _backends(parser, "target")
    parser.add_argument(
        "--max-pairs", type=int, metavar="N", default=200, help="pause undecided after so many pairs (default 200)"
    )
    _yes(parser)


def _skills(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions (without one: list the skills)")
    root = actions.add_parser("add-root", help="allow promotions into the skills of a folder")
    root.add_argument("name", metavar="PATH", help="the folder that holds the skill folders")
    permit = actions.add_parser("permit", help="let an agent promote this skill's accepted candidates without asking")
    permit.add_argument("name", metavar="SKILL")
    permit.add_argument("--simulated", action="store_true", help="evidence of a simulation is enough")
    revoke = actions.add_parser("revoke", help="take that permission back")
    revoke.add_argument("name", metavar="SKILL")
    for action in (root, permit, revoke):
        _common(action)


def _show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="c-... | r-... | trajectory:N | SKILL | SKILL@VERSION")


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL")
    parser.add_argument("old", metavar="OLD", nargs="?", help="a version (else the one before the last change)")
    parser.add_argument("new", metavar="NEW", nargs="?", help="a version (else what is live)")


def _history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL")


def _tasks(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    for name, aliases, text, file in (
        ("list", (), "show the tasks of a skill", None),
        ("add", ("import",), "add tasks from a file", "a JSON list, or JSON lines, of {prompt, judge, ...}"),
        ("export", (), "write the tasks as JSON lines", "where to write (else the terminal)"),
        ("check", (), "say what is wrong with stored tasks, or with a file before it is added", "a file of tasks"),
    ):
        action = actions.add_parser(name, aliases=aliases, help=text)
        action.add_argument("skill", metavar="SKILL")
        if file:
            action.add_argument("file", metavar="FILE", nargs=None if name == "add" else "?", help=file)
        _common(action)


def _promote(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate", metavar="CANDIDATE", help="its id, c-...")
    _yes(parser)
    parser.add_argument("--simulated", action="store_true", help="accept evidence that comes from a simulation")


def _rollback(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL")
    parser.add_argument("version", metavar="VERSION", nargs="?", help="a version (else the one before the last change)")
    _yes(parser)


def _nothing(parser: argparse.ArgumentParser) -> None:
    """Declare nothing beyond what every command takes."""


COMMANDS: dict[str, Command] = {
    "demo": Command("train a skill in a simulated world, in a second", "demo --seed 7", _demo),
    "serve": Command("serve MCP over stdin and stdout, for an agent's host", f"serve --target {_SIMULATED}", _serve),
    "skills": Command("list the skills, and say which may be written", "skills add-root ~/work/skills", _skills),
    "tasks": Command("list, add, export or check the tasks of a skill", "tasks add my-skill tasks.jsonl", _tasks),
    "replay": Command(
        "train a skill offline on its stored tasks",
        f"replay my-skill --target {_SIMULATED} --optimizer {_SIMULATED}",
        _replay,
    ),
    "evaluate": Command(
        "test a candidate against the live version on held-out tasks",
        f"evaluate c-0123456789ab --target {_SIMULATED}",
        _evaluate,
    ),
    "promote": Command("write an accepted candidate over the live skill", "promote c-0123456789ab", _promote),
    "rollback": Command("restore an earlier version of a skill", "rollback my-skill", _rollback),
    "show": Command("show a candidate, run, trajectory, version or skill", "show c-0123456789ab", _show),
    "diff": Command("show what differs between two versions of a skill", "diff my-skill", _diff),
    "history": Command("show the promotions and rollbacks of a skill", "history my-skill", _history),
    "doctor": Command("check the installation, the store and the skill folders", "doctor", _nothing),
}
