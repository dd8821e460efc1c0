"""Main: from arguments to a command, its result and next step; the one edge where errors become one line.

Exit codes: 0 done, 1 an expected failure, 2 wrong usage, 130 interrupted, by Ctrl-C or by SIGTERM.
"""

from __future__ import annotations

import atexit
import gc
import json
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from typing import Any

from skillopt_mcp.cli.command import ParsedCommand, WrongUsage, parse
from skillopt_mcp.cli.streams import Unwritable, drop_output, open_streams, output, results, separate_results
from skillopt_mcp.core.errors import SkillOptError
from skillopt_mcp.core.text import quoted

EXPECTED, USAGE, INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code of one command. Raises SystemExit after --help and --version, as argparse does."""
    if argv is None:
        # Imports make many objects and no garbage: collecting during them, and once more at the exit, costs a third.
        gc.disable()
        atexit.register(gc.freeze)
    if argv is None and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # What `timeout`, a CI job and a shutdown send leaves as much behind as Ctrl-C does; a server has its own way.
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    arguments = list(sys.argv[1:] if argv is None else argv)
    open_streams()
    if sys.platform == "win32":
        return _report_failure(
            "Windows is not supported, its files cannot be changed safely enough: use WSL", as_json=False
        )
    try:
        return _run(arguments or ["--help"])
    except BrokenPipeError:
        drop_output()
        return EXPECTED
    except Unwritable as error:
        drop_output()
        return _report_failure(str(error), as_json=False)


def _run(arguments: Sequence[str]) -> int:
    """Return the exit code of one command, whose result or error is printed."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in own
    try:
        parsed = parse(arguments)
        gc.enable()
        with separate_results(whole=as_json):
            return _finish(parsed)
    except WrongUsage as error:
        return _report_failure(str(error), as_json=as_json, code=USAGE)
    except SkillOptError as error:
        return _report_failure(str(error), as_json=as_json)
    except UnicodeEncodeError as error:
        if error.encoding.startswith("utf"):
            raise
        problem = f"{quoted(error.object)} cannot be spelled in this locale ({error.encoding})"
        return _report_failure(f"{problem}: set LC_ALL=C.UTF-8, or PYTHONUTF8=1", as_json=as_json)
    except KeyboardInterrupt as stop:
        message = "; ".join(["interrupted", *getattr(stop, "__notes__", [])])
        return _report_failure(message, as_json=as_json, code=INTERRUPTED)
    finally:
        with output():
            sys.stdout.flush()


def _finish(parsed: ParsedCommand) -> int:
    # What opens a store is imported after the arguments were parsed: --help and a typo need none of it.
    from skillopt_mcp.cli.terminal import Declined, Terminal  # noqa: PLC0415

    command, terminal = parsed.command, Terminal(parsed.store, is_json=parsed.json)
    if command.needs_store:
        terminal.require_store()
    if command.is_persons:
        terminal.require_person(command.name)
    try:
        result = command.run(terminal)
    except Declined as declined:
        if parsed.json:
            raise SkillOptError(str(declined)) from None
        terminal.note(str(declined))
        return EXPECTED
    if parsed.json and result is not None:
        with output():
            results().write(json.dumps(command.as_json(result), default=_as_fields) + "\n")
    elif result is not None:
        command.show(result, terminal)
        terminal.next(getattr(result, "next_step", None))
    return command.exit_code(result)


def _as_fields(record: Any) -> Any:
    return asdict(record) if is_dataclass(record) else record.model_dump(mode="json")  # type: ignore[arg-type]


def _report_failure(message: str, *, as_json: bool, code: int = EXPECTED) -> int:
    """Print a failure in one line, and in JSON as well where that was asked for."""
    line = " ".join(message.splitlines())
    with suppress(OSError):
        sys.stderr.write(f"error: {line}\n")
    if as_json:
        with output():
            sys.stdout.write(json.dumps({"error": line}) + "\n")
    return code
