"""Processes: functions that run in processes of their own, forked from one that has everything imported.

Nothing is opened there, so no connection crosses a fork.
"""

import ctypes
import multiprocessing
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

from skillopt_mcp.cli.command import module_path, modules

_CONTEXT = multiprocessing.get_context("forkserver")
IMPORTED = [
    "pytest",
    "skillopt_mcp.calls.asking",
    "skillopt_mcp.backends.simulated",
    "filelock",
    "concurrent.futures.thread",
    "skillopt_mcp.cli.main",
    *map(module_path, modules()),
    "tests.frozen",
]
_CAPABILITIES = 0x20080522


def preload() -> None:
    """Settle what the process that all are forked from imports."""
    _CONTEXT.set_forkserver_preload(IMPORTED)


class Parent:
    """What a child talks to."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def say(self, *values: object) -> None:
        self._pipe.send(values if len(values) > 1 else values[0])

    def await_cue(self) -> None:
        """Say that everything is ready, and wait for the word to go on."""
        self.say("ready")
        self._pipe.recv()


class Child:
    """A process that runs `function(parent, *arguments)`; `bound` makes even root obey file modes there."""

    def __init__(self, function: Callable[..., None], *arguments: object, bound: bool = False) -> None:
        self._pipe, other = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_run, args=[function, other, bound, arguments])
        self.process.start()
        other.close()

    def hear(self) -> Any:
        """Return the next thing it says."""
        return self._pipe.recv()

    def cue(self) -> None:
        self._pipe.send("go")

    def rest(self) -> list[Any]:
        """Return what else it says, once it has ended well."""
        said = self._last_words()
        self.process.join()
        assert self.process.exitcode == 0
        return said

    def kill(self) -> list[Any]:
        """Kill it, unless it has ended, and return what it had said by then."""
        self.process.kill()
        said = self._last_words()
        self.process.join()
        return said

    def _last_words(self) -> list[Any]:
        said: list[Any] = []
        with suppress(EOFError, OSError):
            while True:
                said.append(self._pipe.recv())
        return said

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


def start(children: Sequence[Child]) -> None:
    """Let the children go on at one moment, once all of them are ready."""
    assert [child.hear() for child in children] == ["ready"] * len(children)
    for child in children:
        child.cue()


def together(children: Sequence[Child]) -> list[list[Any]]:
    """Return what each child said, all started at one moment."""
    start(children)
    return [child.rest() for child in children]


def _run(function: Callable[..., None], pipe: Connection, bound: bool, arguments: Sequence[object]) -> None:
    if bound:
        none = struct.pack("6I", *[0] * 6)
        assert ctypes.CDLL(None).capset(struct.pack("Ii", _CAPABILITIES, 0), none) == 0
    function(Parent(pipe), *arguments)
