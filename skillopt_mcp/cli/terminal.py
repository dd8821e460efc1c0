"""Terminal: results on stdout, progress and notes on stderr; colour only where a person looks."""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence

from pydantic import BaseModel
from rich.console import Console
from rich.text import Text

from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.cli.streams import output, results
from skillopt_mcp.cli.tables import laid_out
from skillopt_mcp.documents.characters import escaped
from skillopt_mcp.errors import Refused
from skillopt_mcp.operations.speaking import BACKENDS, as_commands

_DIFF_STYLES = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
_TESTED = re.compile(r"evaluate_candidate (c-\w+)")
_WIDE = 500
_ADVICE = ("next_step", "conclude")
# Set by the hosts in the shells that their models type into.
_AGENT_SHELLS = ("CLAUDECODE", "AI_AGENT", "CODEX_THREAD_ID", "CODEX_CI")


def stdout() -> Console:
    """Return the console of results; piped output is as wide as it needs, and has no colour."""
    return _console(stderr=False)


def stderr() -> Console:
    """Return the console of notes and progress."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else results()
    width = None if stream.isatty() else _WIDE
    return Console(file=stream, highlight=False, markup=False, emoji=False, width=width)


def is_interactive() -> bool:
    """Return whether a person sits at both ends: what they are shown and what they answer."""
    return sys.stdin.isatty() and results().isatty()


def require_person(command: str) -> None:
    """Raise Refused in a shell of an agent: what only a person may say, a model must not say for them."""
    for name in _AGENT_SHELLS:
        if os.environ.get(name):
            raise Refused(
                f"'{command}' is for a person, and this shell belongs to an agent ({name} is set): run it in a "
                "terminal of your own"
            )


def login() -> str:
    """Return who is logged in here, and by whom where that was by sudo; empty where nobody has a name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return ""
    behind = os.environ.get("SUDO_USER", "")
    return f"{name}, by sudo of {behind}" if behind and behind != name else name


def emit(value: BaseModel | Mapping[str, object], options: Invocation | None = None) -> None:
    """Print one JSON object; given the options of the command, each `next_step` in it is in the words of `advice`."""
    shown: object = value.model_dump(mode="json") if isinstance(value, BaseModel) else dict(value)
    if options:
        shown = _advised(shown, options)
    with output():
        results().write(json.dumps(shown, ensure_ascii=True) + "\n")


def say(text: str = "", style: str = "") -> None:
    """Print text from wherever it comes; characters that could steer a terminal are shown, not obeyed."""
    _print(stdout(), text, style)


def say_command(command: str) -> None:
    """Print a command to try, on one line however long, so that it can be copied."""
    with output():
        stdout().print(Text(f"  {escaped(command)}", style="cyan"), soft_wrap=True)


def say_raw(text: str) -> None:
    """Print text as it is and in UTF-8, for a file or another program, whatever the terminal can spell."""
    with output():
        results().flush()
        results().buffer.write(text.encode())


def say_markdown(text: str) -> None:
    """Print a page of the guide: laid out where a person looks, as it is where a program reads."""
    console = stdout()
    if not console.is_terminal:
        say_raw(text)
        return
    from skillopt_mcp.cli.markdown import Page  # noqa: PLC0415 - its parser takes a while, one command alone needs it

    with output():
        console.print(Page(text))


def note(text: str) -> None:
    """Tell the person something that is not the result."""
    _print(stderr(), text)


def _print(console: Console, text: str, style: str = "") -> None:
    # On a terminal lines break between words; what is piped keeps its lines, and so does a command, which is copied.
    with output():
        for line in escaped(text).split("\n"):
            is_kept = not console.is_terminal or "skillopt-mcp " in line
            console.print(Text(line, style=style), soft_wrap=is_kept)


def say_diff(diff: str) -> None:
    """Print a unified diff, coloured on a terminal."""
    console = stdout()
    for line in diff.splitlines():
        style = next((style for mark, style in _DIFF_STYLES if line.startswith(mark)), "")
        with output():
            console.print(Text(escaped(line), style=style), soft_wrap=True)


def say_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], n_long: int = 1, brief: Sequence[str] = ()
) -> bool:
    """Print a table; the last `n_long` columns are cut where the terminal ends, and where it is narrow all are records.

    What stands in the other columns, an id above all, is never cut nor broken over lines. Where it is narrow, those in
    `brief` alone are shown, in that order, the last one cut. Returns whether all are.
    """
    console = stdout()
    rows = [[escaped(cell) for cell in row] for row in rows]
    head, lines = laid_out(columns, rows, console.width, n_long)
    is_whole = bool(head) or not brief
    if not is_whole:
        places = [columns.index(each) for each in brief if each in columns]
        cut = [[row[at] for at in places] for row in rows]
        head, lines = laid_out([columns[at] for at in places], cut, console.width)
    with output():
        if head:
            console.print(Text(head, style="bold"), soft_wrap=True)
        for line in lines:
            console.print(Text(line), soft_wrap=True)
    return is_whole


def advice_on(skill: str, text: str, options: Invocation) -> str:
    """Return what to do next with a skill, by what a command may call it, in the words of this command line."""
    named = shlex.quote(skill)
    if text in ("record_trajectory", "propose_edits") or text.startswith("propose_edits with rollouts"):
        asked = text.removesuffix(", or record_trajectory")
        text = f"{asked} by your agent (no key needed), or skillopt-mcp replay {named} {BACKENDS}"
    elif found := _TESTED.match(text):
        candidate = found[1]
        either = f"by your agent (no key needed), or skillopt-mcp evaluate {candidate} --target BACKEND:MODEL"
        text = f"evaluate_candidate {candidate} {either}{text[found.end() :]}"
    return advice(text.replace("add_tasks", f"skillopt-mcp tasks add {named} FILE"), options)


def advice(text: str, options: Invocation, target: str | None = None, judge: str | None = None) -> str:
    """Return an operation's advice in the words of this command line, on the store and by the backends named."""
    text = as_commands(text)
    if target:
        named = f"--target {shlex.quote(target)}{f' --judge {shlex.quote(judge)}' if judge else ''}"
        text = text.replace("--target BACKEND:MODEL", named)
    return options.on_store(text)


def _advised(value: object, options: Invocation) -> object:
    """Return a JSON value whose every `next_step`, and `conclude`, speaks of commands."""
    if isinstance(value, list):
        return [_advised(each, options) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: advice(each, options) if name in _ADVICE and isinstance(each, str) else _advised(each, options)
        for name, each in value.items()
    }


def agreed(question: str, *, yes: bool, ask: bool = True) -> bool:
    """Return whether the person agrees. Raises Refused when nobody may be asked and nobody agreed beforehand."""
    if yes:
        return True
    if not ask or not is_interactive():
        raise Refused("there is no terminal to ask at: look at it in one, or agree beforehand with --yes")
    sys.stderr.write(f"{escaped(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
