"""Main: from arguments to a command, and the one edge where errors become one line and an exit code.

Exit codes: 0 done, 1 an expected failure, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword

from skillopt_mcp.cli.parsing import COMMANDS, needs_store, parse
from skillopt_mcp.errors import SkillOptError

EXPECTED, INTERRUPTED = 1, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code of one command. Raises SystemExit (2, or 0 after --help) as argparse does."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        command, values = parse(arguments)
        # Only the command that was asked for is imported: `serve` must start in a moment.
        module = import_module(module_name(command))
        options = module.Options(**values)
        if needs_store(command, values):
            options.require_store()
        code = int(module.run(options))
        sys.stdout.flush()
    except SkillOptError as error:
        return _failed(str(error), as_json="--json" in arguments)
    except KeyboardInterrupt:
        _failed("interrupted", as_json="--json" in arguments)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has gone; without this, Python complains about it once more while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXPECTED
    return code


def commands() -> dict[str, str]:
    """Return every command by name, with what it does."""
    return {name: command.help for name, command in COMMANDS.items()}


def module_name(command: str) -> str:
    """Return the module of a command; one that is a word of Python has an underscore behind it."""
    return f"skillopt_mcp.cli.commands.{command}{'_' if iskeyword(command) else ''}"


def _failed(message: str, *, as_json: bool) -> int:
    """Tell an expected failure in one line, and in JSON as well where that was asked for."""
    line = " ".join(message.splitlines())
    sys.stderr.write(f"error: {line}\n")
    if as_json:
        sys.stdout.write(json.dumps({"error": line}) + "\n")
    return EXPECTED
