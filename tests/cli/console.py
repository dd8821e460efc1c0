"""Console: the installed console script, in a process of its own or in one forked with its imports done."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest

from skillopt_mcp.cli.commands import install
from tests.disk import MEMORY
from tests.processes import as_script, begun, ended, exit_code

SCRIPT = str(Path(sys.executable).with_name("skillopt-mcp"))
SEED = 3
TIMEOUT_S = 60
TARGET = f"simulated:honest,seed={SEED}"
# Commands by which a person agrees: no script does.
CONSENTING = {"promote", "rollback", "permit"}
BACKENDS = ("--target", TARGET, "--optimizer", TARGET)


@dataclass(frozen=True)
class Place:
    """A skill of the simulated world in a registered skill root, with its tasks in a store of its own."""

    skill_path: Path
    store_path: Path

    @property
    def main(self) -> Path:
        return self.skill_path / "SKILL.md"

    @property
    def program(self) -> str:
        """What commands that are reported begin with where this store was named."""
        return f"skillopt-mcp --store {self.store_path}"

    @property
    def command(self) -> list[str]:
        return [SCRIPT, "--store", str(self.store_path)]


Cli = Callable[..., subprocess.CompletedProcess[str]]


def parsed(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the one JSON object that a command printed."""
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    value = json.loads(line)
    assert isinstance(value, dict)
    return value


def run_script(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Return how the console script ends in a folder, with nothing to read."""
    return subprocess.run(
        [SCRIPT, *arguments],
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip


def run_forked(
    arguments: Sequence[str], folder: Path, prepare: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Return the same of a person, sooner: in a process that is forked from one with everything imported.

    What Python reads when it starts (PYTHON..., LC_...) is not read again: a test about that needs the script itself.
    The process waits for no disk, and begins with `prepare`, if any. Its input is a terminal with nothing to read; so
    is its output where the command asks a person to agree.
    """
    ours, theirs = zip(*(pty.openpty() for _ in range(3)), strict=True)
    try:
        argv, environ = [SCRIPT, *arguments], dict(os.environ)
        terminals = [os.ttyname(each) for each in theirs]
        os.write(ours[0], b"\x04")  # the end of its input
        if CONSENTING & {*arguments}:
            environ["NO_COLOR"] = "1"
            code = exit_code(as_script, argv, folder, environ, terminals, prepare, within_s=TIMEOUT_S)
            return subprocess.CompletedProcess(argv, code, *map(_read_screen, ours[1:]))
        with NamedTemporaryFile("r", dir=MEMORY) as out, NamedTemporaryFile("r", dir=MEMORY) as err:
            streams = (terminals[0], out.name, err.name)
            code = exit_code(as_script, argv, folder, environ, streams, prepare, within_s=TIMEOUT_S)
            return subprocess.CompletedProcess(argv, code, out.read(), err.read())
    finally:
        for each in (*ours, *theirs):
            os.close(each)


def _read_screen(terminal: int) -> str:
    """All that a terminal shows by now."""
    shown = b""
    while select.select([terminal], [], [], 0)[0]:
        shown += os.read(terminal, 65536)
    return shown.decode().replace("\r\n", "\n")


def run_at_a_terminal(
    arguments: Sequence[str], folder: Path, environ: Mapping[str, str], answer: str, columns: int = 0,
    question: str = "[y/N]",
) -> tuple[int, str]:  # fmt: skip
    """Return exit code and screen of a forked command whose question, if any, is answered at a terminal of its own."""
    ours, theirs = pty.openpty()  # a person looks at what goes to a file
    if columns:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = begun(as_script, [SCRIPT, *arguments], folder, environ, [os.ttyname(theirs)] * 3, None)
    screen, asked = b"", False
    while ours in select.select([ours, process.sentinel], [], [], TIMEOUT_S)[0]:
        screen += os.read(ours, 65536)
        if not asked and question.encode() in screen:
            asked = True
            os.write(ours, answer.encode() + b"\n")
    os.close(theirs)
    code = ended(process, TIMEOUT_S)
    os.close(ours)
    return code, screen.decode()


def start_no_server() -> None:
    """Let an installation take it that the server it would start has reported its tools."""
    pytest.MonkeyPatch().setattr(install, "check_server", lambda *_: ["list_skills"])
