"""Main: from arguments to a command, and the one edge where errors become one line and an exit code.

Exit codes: 0 done, 1 an expected failure, 2 wrong usage, 130 interrupted, by Ctrl-C or by SIGTERM.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from keyword import iskeyword

from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.cli.parsing import COMMANDS, WrongUsage, needs_store, parse
from skillopt_mcp.cli.streams import Unwritable, drop_output, open_streams, output, results_apart
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import SkillOptError

EXPECTED, USAGE, INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code of one command. Raises SystemExit (2, or 0 after --help) as argparse does."""
    if argv is None and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # What `timeout`, a CI job and a shutdown send leaves as much behind as Ctrl-C does; a server has its own way.
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    arguments = list(sys.argv[1:] if argv is None else argv)
    open_streams()
    if sys.platform == "win32":
        return _failed("Windows is not supported, its files cannot be changed safely enough: use WSL", as_json=False)
    try:
        return _run(arguments)
    except BrokenPipeError:
        # Whoever read us has gone.
        drop_output()
        return EXPECTED
    except Unwritable as error:
        drop_output()
        return _failed(str(error), as_json=False)


def _run(arguments: Sequence[str]) -> int:
    """Return the exit code of one command, whose errors are told here."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in own
    options: Invocation | None = None
    try:
        command, values = parse(arguments)
        # Only the command that was asked for is imported: `serve` must start in a moment.
        module = import_module(module_name(command))
        options = module.Options(**values)
        assert isinstance(options, Invocation)
        if needs_store(command, values):
            options.require_store()
        with results_apart(whole=as_json):
            return int(module.run(options))
    except WrongUsage as wrong:
        _tell_json(str(wrong), as_json=as_json)
        raise SystemExit(USAGE) from None
    except SkillOptError as error:
        return _failed(options.on_store(str(error)) if options else str(error), as_json=as_json)
    except UnicodeEncodeError as error:
        if error.encoding.startswith("utf"):
            raise
        said = f"{quoted(error.object)} cannot be spelled in this locale ({error.encoding})"
        return _failed(f"{said}: set LC_ALL=C.UTF-8, or PYTHONUTF8=1", as_json=as_json)
    except KeyboardInterrupt as stop:
        _failed("; ".join(["interrupted", *getattr(stop, "__notes__", [])]), as_json=as_json)
        return INTERRUPTED
    finally:
        with output():
            sys.stdout.flush()


def commands() -> dict[str, str]:
    """Return every command by name, with what it does."""
    return {name: command.help for name, command in COMMANDS.items()}


def module_name(command: str) -> str:
    """Return the module of a command; one that is a word of Python has an underscore behind it."""
    return f"skillopt_mcp.cli.commands.{command}{'_' if iskeyword(command) else ''}"


def _failed(message: str, *, as_json: bool) -> int:
    """Tell an expected failure in one line, and in JSON as well where that was asked for."""
    line = " ".join(message.splitlines())
    with suppress(OSError):
        sys.stderr.write(f"error: {line}\n")
    _tell_json(line, as_json=as_json)
    return EXPECTED


def _tell_json(line: str, *, as_json: bool) -> None:
    if as_json:
        with output():
            sys.stdout.write(json.dumps({"error": line}) + "\n")
