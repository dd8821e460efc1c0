"""Processes: functions that run in processes of their own, forked from one that has everything imported.

Nothing is opened there, so no connection crosses a fork.
"""

import atexit
import ctypes
import io
import multiprocessing
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from skillopt_mcp.cli.command import list_modules
from skillopt_mcp.cli.main import main
from tests.disk import MEMORY, spare_the_disk, spare_the_forecast

_CONTEXT = multiprocessing.get_context("forkserver")
IMPORTED = [
    "pytest",
    "skillopt_mcp.backends.asking",
    "skillopt_mcp.backends.simulated",
    "filelock",
    "concurrent.futures.thread",
    "skillopt_mcp.cli.main",
    *(f"skillopt_mcp.cli.commands.{name}" for name in list_modules()),
    "skillopt_mcp.server.wire",
    "skillopt_mcp.server.services",
    "skillopt_mcp.backends.openai",
    "openai.resources.chat",
    "anyio._backends._asyncio",
    "httpcore2",
    "truststore",
    "rich.console",
    "rich.live",
    "rich.logging",
    "rich.progress",
    "rich.table",
    "tests.frozen",
]
_CAPABILITIES = 0x20080522


def preload() -> None:
    """Settle what the process that all are forked from imports."""
    _CONTEXT.set_forkserver_preload(IMPORTED)


class Parent:
    """A child's connection to the test."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def send(self, *values: object) -> None:
        self._pipe.send(values if len(values) > 1 else values[0])

    def wait_for_start(self) -> None:
        """Report that everything is ready, and wait for the signal to start."""
        self.send("ready")
        self._pipe.recv()


class Child:
    """A process that runs `function(parent, *arguments)`; `bound` makes even root obey file modes there."""

    def __init__(self, function: Callable[..., None], *arguments: object, bound: bool = False) -> None:
        self._pipe, other = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_run, args=[function, other, bound, arguments])
        self.process.start()
        other.close()

    def receive(self) -> Any:
        """Return the next value that it sent."""
        return self._pipe.recv()

    def resume(self) -> None:
        self._pipe.send("go")

    def rest(self) -> list[Any]:
        """Return the other values that it sends, once it has ended well."""
        values = self._last_values()
        self.process.join()
        assert self.process.exitcode == 0
        return values

    def kill(self) -> list[Any]:
        """Kill it, unless it has ended, and return the values that it had sent by then."""
        self.process.kill()
        values = self._last_values()
        self.process.join()
        return values

    def _last_values(self) -> list[Any]:
        values: list[Any] = []
        with suppress(EOFError, OSError):
            while True:
                values.append(self._pipe.recv())
        return values

    def close(self) -> None:
        self.kill()
        self._pipe.close()
        self.process.close()


Spawn = Callable[..., Child]


@contextmanager
def spawning() -> Iterator[Spawn]:
    """Yield a way to start children; whatever is left of them at the end is killed."""
    children: list[Child] = []

    def spawn(function: Callable[..., None], *arguments: object, bound: bool = False) -> Child:
        children.append(Child(function, *arguments, bound=bound))
        return children[-1]

    try:
        yield spawn
    finally:
        for child in children:
            child.close()


def exit_code(function: Callable[..., None], *arguments: object, within_s: float) -> int:
    """Return the exit code of a function in a process of its own, negative for a signal."""
    return ended(begun(function, *arguments), within_s)


def begun(function: Callable[..., None], *arguments: object) -> ForkServerProcess:
    """Return the process that runs a function; `ended` waits for it."""
    process = _CONTEXT.Process(target=function, args=arguments)
    process.start()
    return process


def ended(process: ForkServerProcess, within_s: float) -> int:
    """Return the exit code of a process, negative for a signal, and forget it."""
    process.join(within_s)
    code = process.exitcode
    if code is None:
        process.kill()
        process.join()
    process.close()
    assert code is not None, f"not ended within {within_s} s"
    return code


class Script:
    """The console script in a forked process; `streams` are paths for stdin, stdout and stderr, if not `out`, `err`.

    What Python reads when it starts (PYTHON..., LC_...) is not read again: a test about that needs the script itself.
    The process waits for no disk, and begins with `prepare`, if any.
    """

    def __init__(
        self, words: Sequence[str], folder: Path, environ: Mapping[str, str], streams: Sequence[str] = (), *,
        stdin: str = "", prepare: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self._files = TemporaryDirectory(dir=MEMORY)
        paths = [Path(self._files.name, name) for name in ("in", "out", "err")]
        for path, content in zip(paths, (stdin, "", ""), strict=True):
            path.write_text(content)
        self._paths = paths
        self.returncode: int | None = None
        streams = streams or [str(path) for path in paths]
        self._process = begun(as_script, list(words), folder, dict(environ), streams, prepare)
        self.pid, self.sentinel = self._process.pid, self._process.sentinel

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        if self.returncode is None:
            self._process.kill()

    def wait(self, within_s: float = 120) -> int:
        """Return the exit code, negative for a signal; once it is known the process is forgotten."""
        if self.returncode is None:
            self.returncode = ended(self._process, within_s)
            self.out, self.err = (path.read_text() for path in self._paths[1:])
            self._files.cleanup()
        return self.returncode


class PipedScript(Script):
    """The console script with pipes for its stdin and stdout."""

    def __init__(self, words: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
        self._pipes = TemporaryDirectory(dir=MEMORY)
        pipes = [str(Path(self._pipes.name, name)) for name in ("in", "out")]
        for pipe in pipes:
            os.mkfifo(pipe)
        super().__init__(words, folder, environ, [*pipes, os.devnull])
        self.stdin = os.fdopen(os.open(pipes[0], os.O_WRONLY), "wb")
        self.stdout, self.stderr = os.fdopen(os.open(pipes[1], os.O_RDONLY), "rb"), None
        self._pipes.cleanup()


def as_script(
    argv: list[str],
    folder: Path,
    environ: Mapping[str, str],
    streams: Sequence[str],
    prepare: Callable[[], None] | None,
) -> None:
    """Do what the console script does, between the streams and the ending that Python gives a program."""
    os.setsid()
    for number, path in enumerate(streams):
        opened = os.open(path, os.O_WRONLY if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            os.fdopen(number, mode, closefd=False), began.encoding, began.errors, "\n", number == 2 or os.isatty(number)
        )
        for number, mode, began in ((0, "rb", sys.__stdin__), (1, "wb", sys.__stdout__), (2, "wb", sys.__stderr__))
    )
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = argv
    spare_the_disk(pytest.MonkeyPatch())
    spare_the_forecast(pytest.MonkeyPatch())
    if prepare:
        prepare()
    try:
        sys.exit(main())
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()


def start(children: Sequence[Child]) -> None:
    """Let the children go on at one moment, once all of them are ready."""
    assert [child.receive() for child in children] == ["ready"] * len(children)
    for child in children:
        child.resume()


def together(children: Sequence[Child]) -> list[list[Any]]:
    """Return the values that each child sent, all started at one moment."""
    start(children)
    return [child.rest() for child in children]


def _run(function: Callable[..., None], pipe: Connection, bound: bool, arguments: Sequence[object]) -> None:
    if bound:
        none = struct.pack("6I", *[0] * 6)
        assert ctypes.CDLL(None).capset(struct.pack("Ii", _CAPABILITIES, 0), none) == 0
    function(Parent(pipe), *arguments)
