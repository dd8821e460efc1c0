"""Terminals: run a host in a terminal of its own, as a person would, read what it draws there and press keys."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

TIMEOUT_S = 60
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:<=>?]*[ -/]*[@-~]|[\]P_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")
# Where the cursor is, and what kind of terminal it is: a host may wait for the answers.
_ASKED = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62;22c"}


@dataclass
class Terminal:
    """The person's side of a terminal. What was drawn is compared without blanks: hosts move the cursor over these."""

    descriptor: int
    drawn: bytes = b""

    def wait_for(self, text: str) -> str:
        """Return all that was drawn, without blanks, once `text` is in it; fails after a minute."""
        assert self._is_drawn(text, TIMEOUT_S), f"never drawn: {text!r}; but: {self.seen()[-3000:]}"
        return self.seen()

    def seen(self) -> str:
        """Return all that was drawn so far, without blanks and colours."""
        return _squeezed(_ESCAPES.sub("", self.drawn.decode(errors="replace")))

    def press(self, keys: str, until: str, *, again_s: float = TIMEOUT_S) -> None:
        """Press keys until `text` is drawn anew: once, or as often as a host that passes over early keys needs it."""
        self.drawn = b""
        end = time.monotonic() + TIMEOUT_S
        while True:
            os.write(self.descriptor, keys.encode())
            if self._is_drawn(until, again_s):
                return
            assert time.monotonic() < end, f"{keys!r} drew no {until!r}, but: {self.seen()[-3000:]}"

    def _is_drawn(self, text: str, within_s: float) -> bool:
        end = time.monotonic() + within_s
        while _squeezed(text) not in self.seen():
            if time.monotonic() > end:
                return False
            self._read()
        return True

    def _read(self) -> None:
        if not select.select([self.descriptor], [], [], 0.2)[0]:
            return
        try:
            read = os.read(self.descriptor, 65_536)
        except OSError:
            pytest.fail(f"the host has ended, and drew last: {self.drawn[-3000:].decode(errors='replace')}")
        self.drawn += read
        for asked, answer in _ASKED.items():
            if asked in read:
                os.write(self.descriptor, answer)


@contextmanager
def in_terminal(command: list[str], cwd: Path, environment: dict[str, str], *, rows: int = 50) -> Iterator[Terminal]:
    """Run a command in a terminal of 100 columns while the block runs; it is killed at the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 100, 0, 0))
    environment = environment | {"TERM": "xterm-256color"}
    process = subprocess.Popen(
        command, cwd=cwd, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        yield Terminal(ours)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours)


def _squeezed(text: str) -> str:
    return "".join(text.split())
