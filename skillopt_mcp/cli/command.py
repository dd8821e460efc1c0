"""Command: its fields are the flags, its docstring the help; a file in `commands/` with a decorated class adds one."""

from __future__ import annotations

import argparse
import ast
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NoReturn,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from skillopt_mcp import __version__

if TYPE_CHECKING:
    from skillopt_mcp.cli.terminal import Terminal
    from skillopt_mcp.core.budgets import Caps

PROGRAM = "skillopt-mcp"
TARGET, OPTIMIZER = "claude-code:haiku", "claude-code:sonnet"
FOLDER = Path(__file__).parent / "commands"


class WrongUsage(Exception):
    """What is wrong with the arguments, in one line."""


@dataclass(frozen=True)
class Arg:
    """A positional argument; its name in the help is the field's, unless `metavar` says otherwise."""

    help: str = ""
    metavar: str = ""


@dataclass(frozen=True)
class Flag:
    """An option, `--` and the field's name; one whose field is a list may be repeated.

    A number that may be left out is `bare` then.
    """

    help: str = ""
    metavar: str = ""
    group: str = ""
    bare: int | None = None


SKILL = "a skill's name, or the path of its folder"
YES = Flag("do not ask (needed where there is no terminal)")
TARGET_FLAG = Flag(f"does the tasks, for instance {TARGET}", "BACKEND:MODEL")
DRY_RUN = Flag("estimate calls, tokens, cost and time, and ask no model")
AGREED = Flag("agree beforehand; a person at a terminal still has to type it")


class Command:
    """Base of all commands: `run` returns the result, `show` prints it; neither knows about --json.

    `takes_line`: what follows `--` is the field `line`. `needs_store`: a store that is named must be there.
    `is_persons`: an agent's shell is refused.
    """

    name: ClassVar[str] = ""
    example: ClassVar[str] = ""
    epilog: ClassVar[str] = ""
    takes_line: ClassVar[bool] = False
    needs_store: ClassVar[bool] = False
    is_persons: ClassVar[bool] = False

    def run(self, terminal: Terminal) -> Any:
        """Return the result. Raises SkillOptError, WrongUsage, Declined."""
        raise NotImplementedError

    def show(self, result: Any, terminal: Terminal) -> None:
        """Print the result for a person, without its next step."""
        raise NotImplementedError

    def as_json(self, result: Any) -> Mapping[str, object]:
        """Return the result, a record or a mapping, as the one JSON object that --json prints."""
        return result if isinstance(result, Mapping) else result.model_dump(mode="json")

    def exit_code(self, result: Any) -> int:
        """Return 0, or 1 where the result is a failure."""
        return 0

    @classmethod
    def declare(cls, parser: argparse.ArgumentParser) -> None:
        """Declare options that are not fields."""


C = TypeVar("C", bound=Command)
COMMANDS: dict[str, type[Command]] = {}


@dataclass_transform(kw_only_default=True)
def command(
    name: str, *, example: str, also: str = "", needs_store: bool = False, takes_line: bool = False,
    is_persons: bool = False, hidden: bool = False,
) -> Callable[[type[C]], type[C]]:  # fmt: skip
    """Register a command class; `also` is a group that means this command when no action is named."""

    def register(cls: type[C]) -> type[C]:
        made = dataclass(kw_only=True)(cls)
        made.name, made.example, made.takes_line = name, example, takes_line
        made.needs_store, made.is_persons = needs_store, is_persons
        COMMANDS.update({each: made for each in (name, also) if each})
        return made

    return register


# Finding commands: without importing them, for `serve` has to start in a moment


@cache
def list_modules() -> tuple[str, ...]:
    """Return the names of the files of commands."""
    return tuple(sorted(name[:-3] for name in os.listdir(FOLDER) if name.endswith(".py") and name != "__init__.py"))


def describe_commands(*, actions: bool = False) -> dict[str, str]:
    """Return each command with the first sentence of its docstring, read without an import; hidden ones are left out.

    A group ("tasks") stands for its actions, unless `actions` asks for these.
    """
    found: dict[str, str] = {}
    for module in list_modules():
        tree = ast.parse((FOLDER / f"{module}.py").read_text("utf-8"))
        classes = dict[str, str]()
        for node in (each for each in tree.body if isinstance(each, ast.ClassDef)):
            for call in node.decorator_list:
                match call:
                    case ast.Call(ast.Name("command"), [ast.Constant(str(name)), *_], words):
                        if not any(word.arg == "hidden" for word in words):
                            text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                            classes[name] = f"{text[:1].lower()}{text[1:]}".rstrip(".")
        group = module.replace("_", " ")
        if actions or list(classes) in ([group], []):
            found |= classes
        else:
            found[group] = (ast.get_docstring(tree) or "").split("\n")[0].partition(": ")[2].rstrip(".")
    return found


def _find_command(words: Sequence[str]) -> tuple[type[Command], list[str]]:
    """The command that words begin with, and the rest of them; of a group alone the help, or WrongUsage."""
    for module in ("_".join(words[:2]), words[0]):
        if module in list_modules():
            import_module(f"{__package__}.commands.{module}")
            for n in (3, 2, 1):
                name, rest = " ".join(words[:n]), list(words[n:])
                # A group's own name is its list, unless another word follows.
                if (found := COMMANDS.get(name)) and (found.name == name or not rest or rest[0].startswith("-")):
                    return found, rest
    names = describe_commands(actions=True)
    actions = {name: text for name, text in names.items() if name.startswith(f"{words[0]} ")}
    if actions and (len(words) == 1 or words[1].startswith("-")):
        if {"-h", "--help"} & set(words):
            lines = [f"  {name:<20}{text}" for name, text in actions.items()]
            _Parser(
                prog=f"{PROGRAM} {words[0]}", usage="%(prog)s ACTION ...", epilog="\n".join(["actions:", *lines]),
                formatter_class=argparse.RawDescriptionHelpFormatter,
            ).print_help()  # fmt: skip
            raise SystemExit(0)
        raise WrongUsage(f"{words[0]} needs an action: {', '.join(dict.fromkeys(name.split()[1] for name in actions))}")
    tried = " ".join(words[:2]) if actions else words[0]
    raise WrongUsage(
        f"unknown command {tried!r}{_suggest_nearest(tried, [*names, *describe_commands()])} ({PROGRAM} --help)"
    )


def _suggest_nearest(word: str, names: Sequence[str]) -> str:
    # Only a mistake pays for this import, which takes longer than the rest of the parser.
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(word, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


# Parsing


@dataclass(frozen=True)
class ParsedCommand:
    """A command with its fields, and what `main` alone knows."""

    command: Command
    store: str | None
    json: bool


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        message = message.replace("expected one argument", "a value is missing; one that begins with - follows a =")
        raise WrongUsage(f"{message} ({self.prog} --help)")


def parse(arguments: Sequence[str]) -> ParsedCommand:
    """Return the command that was asked for. Raises SystemExit for --help and --version, WrongUsage."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    store, as_json, words = _take_common(arguments[:end])
    if not words or words[0].startswith("-"):
        words = [str(vars(_top_parser(is_help=not words or words[0] != "--version").parse_args(words))["command"])]
    cls, rest = _find_command(words)
    values: dict[str, Any] = {}
    if cls.takes_line:
        values["line"] = tuple(arguments[end + 1 :])
    else:
        rest += arguments[end:]
    parser = _parser(cls)
    for action in parser._actions:  # so that the word after it is not taken for its number
        for n, word in enumerate(rest):
            if action.nargs == "?" and word in action.option_strings and not "".join(rest[n + 1 : n + 2]).isdigit():
                rest[n] = f"{word}={action.const}"
    known, unknown = parser.parse_known_args(rest)
    if unknown:
        options = [option for action in parser._actions for option in action.option_strings]
        parser.error(f"unknown argument {unknown[0]!r}{_suggest_nearest(unknown[0], options)}")
    return ParsedCommand(cls(**values, **vars(known)), store, as_json)


def _take_common(arguments: Sequence[str]) -> tuple[str | None, bool, list[str]]:
    """Return the store and whether JSON is wanted, which may be given anywhere, and all other words."""
    store, words, rest = None, list[str](), iter(arguments)
    for word in rest:
        if word == "--store":
            store = next(rest, None)
            if store is None or store.startswith("-"):
                raise WrongUsage("--store needs a PATH")
        elif word.startswith("--store="):
            store = word.removeprefix("--store=")
        elif word != "--json":
            words.append(word)
    return store, "--json" in arguments, words


def _top_parser(*, is_help: bool) -> argparse.ArgumentParser:
    names = describe_commands() if is_help else {}
    width = max(map(len, names), default=0) + 2
    parser = _Parser(
        prog=PROGRAM,
        description="Train the skill files of coding agents, and prove each change before it goes live.",
        epilog="\n".join(
            ["commands:", *(f"  {name:<{width}}{text}" for name, text in names.items()), "",
             f"Try it, without a key or a model:  {PROGRAM} demo",
             f"Options of a command:              {PROGRAM} COMMAND --help"]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s [-h] [--version] COMMAND [--store PATH] [--json] ...",
        allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    _add_common(parser)
    parser.add_argument("command", metavar="COMMAND", help="what to do, see below")
    return parser


def _parser(cls: type[Command]) -> argparse.ArgumentParser:
    example = f"example:\n  {PROGRAM} {cls.example}" if cls.example else ""
    parser = _Parser(
        prog=f"{PROGRAM} {cls.name}",
        description=getdoc(cls),
        epilog="\n\n".join(filter(None, (example, cls.epilog))),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    hints = get_type_hints(cls, include_extras=True)
    groups: dict[str, argparse._ArgumentGroup] = {}
    declared: tuple[Field[Any], ...] = fields(cls) if is_dataclass(cls) else ()
    for field in declared:
        for mark in get_args(hints[field.name])[1:] if get_origin(hints[field.name]) is Annotated else ():
            group = mark.group if isinstance(mark, Flag) else ""
            place = groups.setdefault(group, parser.add_argument_group(group)) if group else parser
            default: Any = field.default_factory() if field.default_factory is not MISSING else field.default
            _add_argument(place, field.name, get_args(hints[field.name])[0], mark, default)
    cls.declare(parser)
    _add_common(parser)
    return parser


def _add_argument(place: argparse._ActionsContainer, name: str, hint: Any, mark: Arg | Flag, default: Any) -> None:
    """Declare a field as argparse knows it: its type says whether it is a switch, a choice, a number or a list."""
    if isinstance(hint, UnionType):
        hint = next(each for each in get_args(hint) if each is not type(None))
    options: dict[str, Any] = {"help": mark.help.replace("%", "%%")}
    is_list = get_origin(hint) in (list, tuple, Sequence)
    if get_origin(hint) is Literal:
        options["choices"] = get_args(hint)
    elif hint in (int, float):
        options |= {"type": hint, "metavar": "N"}
    if mark.metavar or isinstance(mark, Arg):
        options["metavar"] = mark.metavar or name.upper()
    if isinstance(mark, Arg):
        options["nargs"] = ("+" if default is MISSING else "*") if is_list else None if default is MISSING else "?"
        place.add_argument(name, default=None if default is MISSING else default, **options)
        return
    if default not in (None, False, MISSING) and default != [] and default != ():
        options["help"] += f" (default: {default})"
    if hint is bool:
        options = {"help": options["help"], "action": "store_true"}
    elif is_list:
        options["action"], default = "append", []
    elif mark.bare is not None:
        options |= {"nargs": "?", "const": mark.bare}
    place.add_argument(f"--{name.replace('_', '-')}", default=default, **options)


def _add_common(parser: argparse.ArgumentParser) -> None:
    """Declare what `parse` has taken out already, for the help."""
    parser.add_argument(
        "--store", metavar="PATH", default=argparse.SUPPRESS,
        help="the store's file (else $SKILLOPT_STORE, else the one in your data folder that 'doctor' names)",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object and nothing else"
    )


# Flags of several commands; light, for `serve` has them, too

_CAPS = "hard caps, over all processes and resumes"


@dataclass(kw_only=True)
class Capped(Command):
    """Commands with hard caps, and the backends that answer."""

    judge: Annotated[str | None, Flag("judges by rubrics, where tasks have such", "BACKEND:MODEL")] = None
    max_calls: Annotated[int | None, Flag("calls sent to a model, repeated ones too", group=_CAPS)] = None
    max_tokens: Annotated[int | None, Flag("tokens in and out", group=_CAPS)] = None
    max_usd: Annotated[float | None, Flag("US dollars; only for models of known price", group=_CAPS)] = None
    max_minutes: Annotated[float | None, Flag("minutes of work", group=_CAPS)] = None

    @property
    def caps(self) -> Caps:
        """Return the caps that were given."""
        from skillopt_mcp.core.budgets import Caps  # noqa: PLC0415 (a hook, at which a host waits, needs no pydantic)

        return Caps(self.max_calls, self.max_tokens, self.max_usd, self.max_minutes)
