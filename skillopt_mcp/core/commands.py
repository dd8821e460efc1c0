"""Commands: the programs that a person registered as judges."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass

from pydantic_core import to_json

NAME = r"[a-z0-9][a-z0-9-]{0,63}"
_FULL_FILES = 16


@dataclass(frozen=True, slots=True)
class Limits:
    """What a command may use: seconds of wall clock, bytes, and counts of open files and processes."""

    time_s: float = 60.0
    memory_bytes: int = 2 << 30
    file_bytes: int = 64 << 20
    n_files: int = 256
    n_processes: int = 64

    @property
    def disk_bytes(self) -> int:
        """What all files together may take of the disk."""
        return _FULL_FILES * self.file_bytes


@dataclass(frozen=True, slots=True)
class RegisteredCommand:
    """A program and its arguments under a name; no shell reads them.

    `sha256` is of the program's files when the person registered them: a changed program is not run. `reads` are
    further folders that it may read. Only where the person said `unconfined` is it run without bubblewrap.
    `unattended`: a script registered it, and no agent may use it.
    """

    name: str
    argv: tuple[str, ...]
    sha256: str
    limits: Limits = Limits()
    reads: tuple[str, ...] = ()
    unconfined: bool = False
    created_at: str = ""
    unattended: bool = False

    @property
    def fingerprint(self) -> str:
        """Return the sha256 (hex) of all that can change the outcome."""
        parts = (self.name, self.argv, self.sha256, asdict(self.limits), self.reads, self.unconfined)
        return hashlib.sha256(to_json(parts)).hexdigest()
