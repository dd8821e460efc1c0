"""Terminal: results on stdout, progress and notes on stderr; colour and questions only where a person looks."""

from __future__ import annotations

import getpass
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from skillopt_mcp.cli.streams import output, results
from skillopt_mcp.cli.tables import lay_out_table
from skillopt_mcp.core.errors import NotFound, Refused
from skillopt_mcp.core.text import escaped
from skillopt_mcp.store.files import ENVIRONMENT, check_store, store_path
from skillopt_mcp.workspace.callers import find_caller, find_editor, find_mark, is_terminal

if TYPE_CHECKING:
    from skillopt_mcp.core.next_step import NextStep
    from skillopt_mcp.workspace.workspace import Workspace

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_DIFF_STYLES = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
_WIDE = 500


class Declined(Exception):
    """A person said no; the message says what was left undone."""


class Terminal:
    """Where a command prints, asks and finds its store. With `is_json` it says nothing: `main` prints the result."""

    def __init__(self, store: str | None = None, *, is_json: bool = False) -> None:
        self.store, self.is_json = store, is_json
        self._is_reviewed = False

    # The store

    @property
    def store_path(self) -> Path:
        """Return the store's file: as given, else of the environment, else the user's own."""
        return store_path(self.store, os.environ)

    @contextmanager
    def workspace(self, **options: Any) -> Iterator[Workspace]:
        """Lend the store, with the backends and caps that are given."""
        # `serve` opens none, and starts without it.
        from skillopt_mcp.workspace.workspace import Workspace  # noqa: PLC0415

        with Workspace(self.store_path, **options) as workspace:
            workspace.place.login, workspace.place.caller = _login(), find_caller()
            yield workspace

    def require_store(self) -> None:
        """Raise NotFound where the store was named and no file is there, StoreError for a file that is empty."""
        named_by = "--store" if self.store else f"${ENVIRONMENT}" if os.environ.get(ENVIRONMENT) else ""
        try:
            self.store_path.stat()
        except OSError as error:  # what cannot be looked at may be there, and opening it says what is wrong
            is_nowhere = isinstance(error, FileNotFoundError | NotADirectoryError)
        else:
            is_nowhere = False
        if named_by and is_nowhere:
            raise NotFound(
                f"there is no store at '{self.store_path}' (from {named_by}): check the path, or fill a new store with "
                "skillopt-mcp tasks add SKILL FILE"
            )
        if os.path.isfile(self.store_path):
            check_store(self.store_path)

    # Printing; characters that could steer a terminal are shown, not obeyed

    def say(self, text: str = "", style: str = "") -> None:
        """Print a part of the result."""
        is_seen = not self._is_reviewed or (results().isatty() and not self.is_json)
        self._print(results() if is_seen else sys.stderr, text, style)

    def note(self, text: str) -> None:
        """Print what is not the result."""
        self._print(sys.stderr, text, "")

    def next(self, step: NextStep | None) -> None:
        """Print what to do next."""
        if step:
            self.note(step.as_line(self.store, is_agents=self.is_agents))

    def command(self, command: str) -> None:
        """Print a command to try."""
        named = "" if not self.store or "--store" in command else f" --store {shlex.quote(self.store)}"
        self.say(f"  {command}{named}", "cyan")

    def diff(self, diff: str) -> None:
        """Print a unified diff."""
        for line in diff.splitlines():
            self.say(line, next((style for mark, style in _DIFF_STYLES if line.startswith(mark)), ""))

    def raw(self, text: str) -> None:
        """Print text as it is and in UTF-8, for a file or another program."""
        with output():
            results().flush()
            results().buffer.write(text.encode())

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], n_long: int = 1, brief: Sequence[str] = ()
    ) -> bool:
        """Print a table; the last `n_long` columns are cut where the terminal ends, and where it is narrow all are
        records, or, of `brief`, these columns alone. Return whether all columns are shown.
        """  # fmt: skip
        rows = [[escaped(cell) for cell in row] for row in rows]
        head, lines = lay_out_table(columns, rows, self.width, n_long)
        is_whole = bool(head) or not brief
        if not is_whole:
            places = [columns.index(each) for each in brief if each in columns]
            cut = [[row[at] for at in places] for row in rows]
            head, lines = lay_out_table([columns[at] for at in places], cut, self.width)
        if head:
            self.say(head, "bold")
        for line in lines:
            self.say(line)
        return is_whole

    @property
    def width(self) -> int:
        """How many columns there are; what is piped is as wide as it needs."""
        return os.get_terminal_size(results().fileno()).columns or 80 if results().isatty() else _WIDE

    def _print(self, stream: TextIO, text: str, style: str) -> None:
        if self.is_json and not self._is_reviewed:
            return
        shown = escaped(text)
        if style and shown and stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
            shown = f"\x1b[{';'.join(_CODES[each] for each in style.split())}m{shown}\x1b[0m"
        with output():
            stream.write(f"{shown}\n")

    # Asking

    @property
    def is_interactive(self) -> bool:
        """Whether a person sits at both ends: what they are asked and what they answer."""
        return is_terminal(sys.stdin) and is_terminal(sys.stderr) and not self.is_agents

    @property
    def is_watched(self) -> bool:
        """Whether a person looks at the results of a command."""
        return self.sees_held_out and results().isatty() and not self.is_json

    @property
    def sees_held_out(self) -> bool:
        """Whether held-out content may be shown: where the output goes is the business of the person who asks."""
        return find_caller() == "person"

    @property
    def is_agents(self) -> bool:
        """Whether this is a shell of an agent, which is shown nothing that is held out."""
        return bool(find_mark())

    def require_person(self, command: str) -> None:
        """Raise Refused in a shell of an agent: only a person may agree, and see what is held out."""
        if self.is_agents:
            raise Refused(
                f"'{command}' is for a person, and this shell belongs to an agent ({find_mark()} is set): run it in "
                "a terminal of your own"
            )

    def require_consent(self, command: str, *, is_standing: bool = False) -> None:
        """Raise Refused where no person can agree: in an agent's shell, or without a terminal to ask at.

        A standing permission is given in no editor's terminal, as the editor's agent may type into it.
        """
        self.require_person(command)
        if not self.is_interactive:
            raise Refused(f"'{command}' needs a person: run it at a terminal (standard input and error)")
        if is_standing and (editor := find_editor()):
            raise Refused(
                f"'{command}' agrees to more than one change, and an agent may type into this terminal ({editor}): run "
                "it in a terminal outside of the editor"
            )

    def require_viewer(self, command: str, file: str | None = None) -> None:
        """Raise Refused where held-out tasks would be shown to no person; a script may have them in a file."""
        self.require_person(command)
        path = os.path.abspath(os.path.expanduser(file or "/dev/stdout"))
        is_device = path.startswith(("/dev/", "/proc/")) and not path.startswith("/dev/shm/")  # there are files
        is_shown = is_device or (os.path.exists(path) and not os.path.isfile(path))
        if is_shown and not self.sees_held_out:
            raise Refused(f"'{command}' shows held-out tasks, and standard input is no terminal: run it at one")

    @contextmanager
    def review(self) -> Iterator[None]:
        """Enter to show what a person agrees to: on standard error where results go elsewhere, as questions do."""
        self._is_reviewed = True
        try:
            yield
        finally:
            self._is_reviewed = False

    def ask(self, question: str, *, yes: bool, declined: str = "Nothing was changed.") -> None:
        """Go on if the person agrees. Raises Declined where they do not, Refused where no person can be asked."""
        if yes:
            return
        if not self.is_interactive or (self.is_json and not self._is_reviewed):
            raise Refused("there is no terminal to ask at: run it in one, or agree beforehand with --yes")
        sys.stderr.write(f"{escaped(question)} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Declined(declined)


def _login() -> str:
    """Who is logged in here, and by whom where that was by sudo; empty where they have no name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return ""
    behind = os.environ.get("SUDO_USER", "")
    return f"{name}, by sudo of {behind}" if behind and behind != name else name
