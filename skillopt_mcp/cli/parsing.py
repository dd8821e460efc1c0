"""Parsing: what every command takes from the command line; light, for `serve` passes through here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skillopt_mcp import __version__

PROGRAM = "skillopt-mcp"
_SIMULATED = "simulated:honest"
HOSTS = ("claude-code", "claude-desktop", "codex", "cursor", "vscode")


@dataclass(frozen=True, slots=True)
class Command:
    """A command as --help shows it, and what it declares beyond --store and --json.

    With `takes_line`, all that follows a `--` is its `line`: another program and its arguments.
    """

    help: str
    example: str
    declare: Callable[[argparse.ArgumentParser], object]
    takes_line: bool = False


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
    does = {
        "target": f"does the tasks, for instance {_SIMULATED}",
        "optimizer": f"writes the edits, for instance {_SIMULATED}",
        "judge": "judges by rubrics, where tasks have such",
    }
    for role in roles:
        parser.add_argument(f"--{role}", metavar="BACKEND:MODEL", help=f"who {does[role]}")


def _yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask (needed where there is no terminal)")


def _caps(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "hard caps (over all processes and resumes; at a cap the run stops, to be resumed)"
    )
    for name, kind, text in (
        ("calls", int, "calls sent to a model, repeated ones too"),
        ("tokens", int, "tokens in and out"),
        ("usd", float, "US dollars; only for models of known price"),
        ("minutes", float, "minutes of work"),
    ):
        group.add_argument(f"--max-{name}", type=kind, metavar="N", help=f"at most so many {text}")


def _by_batch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by-batch", action="store_true",
        help="ask target and judge by their vendor's batch API: half the price, and minutes to a day for each wave of "
        "calls; a promotion test then asks 40 pairs ahead, and what lies beyond the deciding one is paid in vain",
    )  # fmt: skip


def _slots(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--slots", type=int, metavar="N", help="calls under way at once (else as the backend likes)")


def _serve(parser: argparse.ArgumentParser) -> None:
    _backends(parser, "target", "optimizer", "judge")
    parser.add_argument(
        "--require-approval",
        action="store_true",
        help="every change of a live file needs a person, whatever was permitted",
    )
    parser.add_argument(
        "--lease-minutes", type=float, default=15.0, metavar="N",
        help="how long an agent of the host may take for a piece of work (default 15)",
    )  # fmt: skip
    _caps(parser)
    http = parser.add_argument_group("streamable HTTP (instead of stdin and stdout; a bearer token is needed)")
    http.add_argument("--http", metavar="[ADDRESS:]PORT", help="listen there, at 127.0.0.1 unless told otherwise")
    for name, shown, text in (
        ("host", "NAME:PORT", "a Host header to let in beside loopback's"),
        ("origin", "URL", "an Origin header to let in"),
    ):
        http.add_argument(
            f"--allow-{name}", metavar=shown, action="append", default=[], help=f"{text} (may be repeated)"
        )


def _demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir", metavar="DIR", help="an empty or new folder to keep the demo in (else a temporary one)"
    )
    parser.add_argument("--seed", type=int, metavar="N", default=0, help="which simulated world (default 0)")
    parser.add_argument("--world", choices=("honest", "placebo"), default="honest", help="placebo: no edit ever helps")


def _replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL", help="a skill's name, or the path of its folder")
    _backends(parser, "target", "optimizer", "judge")
    parser.add_argument(
        "--env", metavar="NAME[:OPTIONS]", help="an environment: its tasks are added, for instance qa:FOLDER"
    )
    parser.add_argument("--config", metavar="FILE", help="settings in TOML or YAML, SkillOpt's own files too")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="a setting, for instance train.batch_size=20"
    )
    parser.add_argument("--prompts", metavar="DIR", help="a folder of NAME.md in the place of the shipped prompts")
    parser.add_argument("--out", metavar="DIR", help="write the run there as files: best_skill.md, versions, history")
    from skillopt_mcp.cli.flags import add_settings  # noqa: PLC0415

    add_settings(parser)
    _slots(parser)
    _by_batch(parser)
    _caps(parser)
    parser.add_argument("--memory", metavar="PATH", help="a CLAUDE.md or AGENTS.md that every attempt sees, too")
    parser.add_argument(
        "--document", choices=("skill", "memory", "both"), default="both", help="what to train of them (both, in turn)"
    )
    parser.add_argument("--resume", action="store_true", help="go on with the newest unfinished run of the skill")
    parser.add_argument(
        "--abandon", action="store_true", help="cancel what that run has at a vendor's batch API, and ask nothing more"
    )
    parser.add_argument(
        "--policy", choices=("strict", "fresh", "paired_se", "no_regression", "confirm"),
        help="run nothing: say what this gate would have made of the newest run (or of run r-... as SKILL)",
    )  # fmt: skip
    _yes(parser)


def _evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate", metavar="CANDIDATE", help="its id, c-...")
    _backends(parser, "target", "judge")
    parser.add_argument(
        "--max-pairs", type=int, metavar="N", default=200, help="pause undecided after so many pairs (default 200)"
    )
    parser.add_argument(
        "--no-worse", type=float, metavar="D",
        help="for a shorter candidate: accept it when a loss above D is excluded, instead of when it is better",
    )  # fmt: skip
    parser.add_argument(
        "--claim", choices=("these", "like_these"), default="these",
        help="these: better on these held-out tasks; like_these: on tasks like them, each fresh test task drawn once",
    )  # fmt: skip
    parser.add_argument("--beside", metavar="PATH", help="a skill or memory file that every attempt sees, too")
    _slots(parser)
    _by_batch(parser)
    _caps(parser)
    _yes(parser)


def _calibrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL", help="a skill's name, or the path of its folder")
    _backends(parser, "target", "judge")
    parser.add_argument("--pairs", type=int, metavar="N", default=40, help="pairs of rollouts (default 40)")
    parser.add_argument("--gain", type=float, metavar="G", help="say what this gain would take (else 0.08, 0.16, 0.3)")
    parser.add_argument(
        "--max-pairs", type=int, metavar="N", default=200, help="for a test that pauses after so many (default 200)"
    )
    _caps(parser)
    _yes(parser)


def _race(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "candidates", metavar="CANDIDATE", nargs="+", help="candidates of one skill, c-...; or one skill, with controls"
    )
    _backends(parser, "target", "optimizer", "judge")
    parser.add_argument("--laps", type=int, metavar="N", default=60, help="shared tasks at most (default 60)")
    parser.add_argument(
        "--control", action="append", choices=("none", "rewrite"), default=[],
        help="race beside them: no skill at all; or the skill rewritten once, from what was recorded and "
        "rolled out (may be repeated)",
    )  # fmt: skip
    _caps(parser)
    _yes(parser)


def _credit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate", metavar="CANDIDATE", help="its id, c-...")
    _backends(parser, "target", "judge")
    parser.add_argument("--pairs", type=int, metavar="N", default=60, help="pairs per edit at most (default 60)")
    parser.add_argument("--rescue", action="store_true", help="look for the good part of a rejected bundle instead")
    _caps(parser)
    _yes(parser)


def _skills(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions (without one: list the skills)")
    root = actions.add_parser("add-root", help="allow promotions into the skills of a folder")
    root.add_argument("name", metavar="PATH", help="the folder that holds the skill folders")
    permit = actions.add_parser("permit", help="let an agent promote small, clean, accepted edits without asking")
    permit.add_argument("name", metavar="SKILL")
    permit.add_argument("--simulated", action="store_true", help="evidence of a simulation is enough")
    revoke = actions.add_parser("revoke", help="take that permission back")
    revoke.add_argument("name", metavar="SKILL")
    for action in (root, permit, revoke):
        _common(action)


def _show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="c-... | r-... | trajectory:N | SKILL | SKILL@VERSION")
    parser.add_argument("--out", metavar="DIR", help="write a run as files: best_skill.md, versions, history, steps")


def _check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL")


def _rebase(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate", metavar="CANDIDATE", help="the one that is stale")


def _runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL", nargs="?", help="only this skill's")


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
        (
            "add",
            ("import",),
            "add tasks, or questions with answers, from a file",
            "JSON list, JSON lines or CSV of {prompt, judge, ...} or {question, answers, ...}",
        ),
        ("export", (), "write the tasks as JSON lines", "where to write (else the terminal)"),
        ("rotate", (), "move test tasks that many promotion tests have drawn into train", None),
        ("check", (), "say what is wrong with stored tasks, or with a file before it is added", "a file of tasks"),
    ):
        action = actions.add_parser(name, aliases=aliases, help=text)
        action.add_argument("skill", metavar="SKILL")
        if file:
            action.add_argument("file", metavar="FILE", nargs=None if name == "add" else "?", help=file)
        if name == "rotate":
            action.add_argument(
                "--looks", type=int, metavar="N", default=10, help="drawn by so many promotion tests (default 10)"
            )
        if name == "add":
            action.add_argument(
                "--split-mode", choices=("ratio", "split_dir"),
                help="ratio: draw the splits by --ratio; split_dir: FILE is a folder of train, val and test",
            )  # fmt: skip
            action.add_argument("--ratio", metavar="A:B:C", help="shares of train, val and test (2:1:7)")
            action.add_argument("--seed", type=int, metavar="N", help="seed of the draw (42)")
        _common(action)


def _judges(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions (without one: list the commands)")
    listing = actions.add_parser("list", help="show the programs that may judge")
    add = actions.add_parser(
        "add",
        help="register a program: exit code 0 passes an answer",
        usage=f"{PROGRAM} judges add [-h] [--time S] [--memory MB] [--reads PATH] [--require-sandbox] [--yes] NAME -- "
        "PROGRAM ARGS...",
    )
    add.add_argument("name", metavar="NAME", help="what tasks call it: a to z, digits, hyphens")
    add.add_argument("--time", type=float, metavar="S", help="seconds that one check may take (60)")
    add.add_argument("--memory", type=int, metavar="MB", help="memory that it may use (2048)")
    add.add_argument("--reads", action="append", default=[], metavar="PATH", help="a path that it may read too")
    add.add_argument("--require-sandbox", action="store_true", help="never run it where nothing can confine it")
    _yes(add)
    remove = actions.add_parser("remove", help="forget a program: tasks that name it cannot be judged any more")
    remove.add_argument("name", metavar="NAME")
    for action in (listing, add, remove):
        _common(action)


def _promote(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate", metavar="CANDIDATE", help="its id, c-...")
    _yes(parser)
    _simulated(parser)
    parser.add_argument(
        "--unproven", action="store_true", help="adopt an undecided candidate; it stays labelled unproven"
    )


def _simulated(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--simulated", action="store_true", help="accept evidence that comes from a simulation")


def _approve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate", metavar="CANDIDATE", help="its id, c-...")
    _simulated(parser)
    parser.add_argument("--withdraw", action="store_true", help="take an unused approval back")


def _rollback(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL")
    parser.add_argument("version", metavar="VERSION", nargs="?", help="a version (else the one before the last change)")
    _yes(parser)


def _doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend", metavar="BACKEND:MODEL", action="append", default=[],
        help="ask this backend one short call (may be repeated)",
    )  # fmt: skip


def _harvest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", help="transcripts, or folders of them (else all that the hosts keep)"
    )
    parser.add_argument("--dry-run", action="store_true", help="count them, and record nothing")


def _capture(parser: argparse.ArgumentParser) -> None:
    """Declare nothing: the event comes on standard input."""


def _install(parser: argparse.ArgumentParser) -> None:
    _placed(parser, does="add")
    _backends(parser, "target", "optimizer", "judge")


def _uninstall(parser: argparse.ArgumentParser) -> None:
    _placed(parser, does="remove")


def _placed(parser: argparse.ArgumentParser, *, does: str) -> None:
    parser.add_argument("host", choices=HOSTS, metavar="HOST", help=" | ".join(HOSTS))
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--user", action="store_true", help="for all your projects (the default)")
    scope.add_argument("--project", action="store_true", help="for the project in the current folder")
    parser.add_argument(
        "--hooks", action="store_true", help=f"{does} the hooks that record sessions by themselves, too"
    )
    parser.add_argument("--skill", action="store_true", help=f"{does} the skill that teaches an agent the loop, too")
    parser.add_argument("--dry-run", action="store_true", help="show the change, and change nothing")
    _yes(parser)


def _verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--holds", metavar="HASH", help="the chain of events had this hash once: see that it still has")


def _backup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file that is not there yet")


def _restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a backup")
    _yes(parser)


def _export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL")
    parser.add_argument("file", metavar="FILE", help="a file that is not there yet")


def _import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what 'export' wrote")
    parser.add_argument("--skill", metavar="SKILL", help="the skill that takes it in (else the one of its name)")
    parser.add_argument("--keep-mine", action="store_true", help="leave out what contradicts what is here")


COMMANDS: dict[str, Command] = {
    "demo": Command("train a skill in a simulated world, in a second", "demo --seed 7", _demo),
    "serve": Command("serve MCP over stdin and stdout, for an agent's host", f"serve --target {_SIMULATED}", _serve),
    "skills": Command("list the skills, and say which may be written", "skills add-root ~/work/skills", _skills),
    "tasks": Command("list, add, export or check the tasks of a skill", "tasks add my-skill tasks.jsonl", _tasks),
    "judges": Command(
        "list and register the programs that may judge answers",
        "judges add unit-tests -- /usr/bin/python3 /home/me/check.py",
        _judges,
        takes_line=True,
    ),
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
    "calibrate": Command(
        "measure what a promotion test of a skill can find, before paying for one",
        f"calibrate my-skill --target {_SIMULATED}",
        _calibrate,
    ),
    "race": Command(
        "run candidates of one skill, and controls, on shared val tasks and drop the hopeless",
        f"race c-0123456789ab c-ba9876543210 --target {_SIMULATED}",
        _race,
    ),
    "credit": Command(
        "tell which edits of a candidate carry its gain, and which do harm",
        f"credit c-0123456789ab --target {_SIMULATED}",
        _credit,
    ),
    "promote": Command("write an accepted candidate over the live skill", "promote c-0123456789ab", _promote),
    "approve": Command("let an agent promote one candidate, after a look at it", "approve c-0123456789ab", _approve),
    "rollback": Command("restore an earlier version of a skill", "rollback my-skill", _rollback),
    "check": Command("check a skill by the Agent Skills specification", "check my-skill", _check),
    "rebase": Command(
        "make a candidate again on top of an edit that somebody made meanwhile", "rebase c-0123456789ab", _rebase
    ),
    "runs": Command("list the runs of a skill, or of all", "runs my-skill", _runs),
    "show": Command("show a candidate, run, trajectory, version or skill", "show c-0123456789ab", _show),
    "diff": Command("show what differs between two versions of a skill", "diff my-skill", _diff),
    "history": Command("show the promotions and rollbacks of a skill", "history my-skill", _history),
    "install": Command(
        "add the server to a host, and what records and teaches beside it",
        "install claude-code --hooks --skill",
        _install,
    ),
    "uninstall": Command("take out of a host what install put there", "uninstall claude-code --hooks", _uninstall),
    "harvest": Command("record attempts out of past sessions of Claude Code and Codex", "harvest --dry-run", _harvest),
    "capture": Command("record a session, as a host's hook tells of it", "capture < event.json", _capture),
    "verify": Command("check that the store holds what was written, and recompute its verdicts", "verify", _verify),
    "backup": Command("write the store to a file while it is in use, and check that", "backup store-copy.db", _backup),
    "restore": Command("put a backup in the place of the store", "restore store-copy.db", _restore),
    "export": Command("write a skill's whole history to a file", "export my-skill my-skill.history", _export),
    "import": Command("take in a skill's history from another store", "import my-skill.history", _import),
    "doctor": Command("check the installation, the store, the skill folders and backends", "doctor", _doctor),
}
