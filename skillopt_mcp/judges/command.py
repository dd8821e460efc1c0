"""Command: runs the programs that a person registered as judges. Not pure: it starts processes and writes files.

It answers questions of the stage `check` as a backend does. What it cannot run is missing, never a score.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.errors import BackendError, BadInput
from skillopt_mcp.judges.answers import quoted
from skillopt_mcp.judges.checks import unregistered
from skillopt_mcp.judges.confinement import (
    Level,
    barred,
    best_level,
    bwrap_line,
    name_of,
    readable_paths,
    unprivileged_user,
    unreadable,
)  # fmt: skip
from skillopt_mcp.records.calls import Call, Question, Reply, Usage
from skillopt_mcp.records.commands import NAME, Limits, RegisteredCommand
from skillopt_mcp.records.replies import CheckReply

_ROOT = Path(__file__).parents[2]
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from skillopt_mcp.judges.supervisor import main; main(sys.argv[2])"
)
_GRACE_S = 15.0
# What shells and wrappers exit with when they may not run, or do not find, what they were to run.
_NOT_STARTED = (126, 127)
_MAX_ARGV_CHARS = 32_000
_TOLD_BYTES = 1 << 20
_FREE = Usage(usd=0.0)


class _Material(BaseModel):
    """The evidence of a check: the answer, and the task's files as [path, content]."""

    model_config = ConfigDict(frozen=True)
    answer: str
    files: list[tuple[str, str]]


class _Ending(BaseModel):
    """What the supervisor tells."""

    exit: int | None
    limit: str | None
    error: str | None
    confined: str
    output: str


def _together(prints: Iterable[str]) -> str:
    return f"command:{hashlib.sha256(''.join(sorted(prints)).encode()).hexdigest()[:16]}"


NO_COMMANDS = _together(())


class CommandRunner:
    """Runs registered commands, one private folder each.

    `level` overrides the strongest confinement there is; `clean` takes secrets out of what a program prints.
    """

    name = "command"
    deferred = False

    def __init__(
        self,
        commands: Mapping[str, RegisteredCommand],
        level: Level | None = None,
        clean: Callable[[str], str] = str,
    ) -> None:
        self._commands = commands
        self._clean = clean
        self._level: Level = best_level() if level is None else level
        self.fingerprint = _together(command.fingerprint for command in commands.values())

    async def complete(self, call: Call) -> Reply:
        """Return how the command ended, as the JSON of a CheckReply; a fault when it could not be run.

        Raises BackendError when no such command is registered, or its program is no longer the registered one.
        """
        if not isinstance(call.request, Question):
            raise BackendError(f"stage '{call.stage}' is no question to a registered command")
        command = await asyncio.to_thread(self.command, call.request.instructions)
        if command.require_sandbox and self._level == "none":
            return _missing(
                "nothing here can confine it (no bubblewrap, no Landlock), and it was registered to need that"
            )
        material = _Material.model_validate_json(call.request.evidence)
        try:
            with unreadable(), tempfile.TemporaryDirectory(prefix="judge-", ignore_cleanup_errors=True) as folder:
                _lay_out(Path(folder), material)
                ending = await _supervised(self._job(command, folder), command.limits.time_s + _GRACE_S)
        except OSError as error:
            return _missing(f"it could not be run: {error}")
        # It may have changed between that look and its start: then what ran is not what was registered.
        await asyncio.to_thread(self.command, command.name)
        is_started = ending.error is None and ending.exit not in _NOT_STARTED
        cleaned = ending.model_copy(update={"output": self._clean(ending.output)})
        return _reply(cleaned, "" if is_started else told_barred(command.argv))

    def command(self, name: str) -> RegisteredCommand:
        """Return the command that a task names. Raises BackendError when it is not registered, or has changed since."""
        command = self._commands.get(name)
        if command is None:
            raise BackendError(unregistered(name))
        if has_changed(command):
            raise BackendError(
                f"the program of the judge command '{name}' has changed: look at it, and register it anew with "
                f"'skillopt-mcp judges add {name} -- PROGRAM ARGS'"
            )
        return command

    def _job(self, command: RegisteredCommand, folder: str) -> str:
        reads = readable_paths(command.argv, command.reads)
        wrapper: list[str] = []
        if self._level == "bwrap":
            wrapper = bwrap_line(shutil.which("bwrap") or "bwrap", folder, reads, os.path.join(folder, "work"))
        job = {
            "argv": command.argv,
            "folder": folder,
            "wrapper": wrapper,
            "landlock": self._level == "landlock",
            "reads": reads,
            "user": unprivileged_user(),
            **asdict(command.limits),
            "disk_bytes": command.limits.disk_bytes,
        }
        return json.dumps(job)


def register_command(
    name: str,
    argv: Sequence[str],
    limits: Limits | None = None,
    reads: Sequence[str] = (),
    *,
    require_sandbox: bool = False,
) -> RegisteredCommand:
    """Return the command ready to be stored, its program found and hashed. Raises BadInput when it could never run."""
    if not re.fullmatch(NAME, name):
        raise BadInput(f"{quoted(name, 40)} cannot name a command: use a to z, digits and hyphens")
    if not argv or sum(map(len, argv)) > _MAX_ARGV_CHARS or any("\0" in part for part in argv):
        raise BadInput(f"the command line of '{name}' is empty or too long: give a program and its arguments")
    program = shutil.which(argv[0])
    if program is None:
        raise BadInput(f"the program '{argv[0]}' is not found or not executable: give the path of a program")
    for folder in reads:
        if not os.path.isabs(folder) or not os.path.exists(folder):
            raise BadInput(f"'{folder}' is no absolute path of something there: name what '{name}' may read")
    line = (os.path.abspath(program), *argv[1:])
    return RegisteredCommand(name, line, program_sha256(line), limits or Limits(), tuple(reads), require_sandbox)


# The digests of programs that are at rest, by path: an interpreter is too large to be hashed at every check.
_KNOWN: dict[str, tuple[tuple[int, ...], bytes]] = {}
_SETTLED_NS = 2_000_000_000


def program_sha256(argv: Sequence[str]) -> str:
    """Return the sha256 (hex) over the files that a command line names by absolute path: its program, its scripts."""
    digest = hashlib.sha256()
    for part in argv:
        if os.path.isabs(part) and os.path.isfile(part):
            digest.update(_file_sha256(part))
    return digest.hexdigest()


def _file_sha256(path: str) -> bytes:
    with open(path, "rb") as file:
        stat = os.fstat(file.fileno())
        # Nobody but the system sets ctime; a file that has just changed may change again without another one.
        stamp = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        if time.time_ns() - stat.st_ctime_ns < _SETTLED_NS:
            return hashlib.file_digest(file, "sha256").digest()
        if _KNOWN.get(path, ((), b""))[0] != stamp:
            _KNOWN[path] = (stamp, hashlib.file_digest(file, "sha256").digest())
        return _KNOWN[path][1]


def has_changed(command: RegisteredCommand) -> bool:
    """Return whether its program is no longer the registered one, or cannot be read: then it is not run."""
    try:
        return program_sha256(command.argv) != command.sha256
    except OSError:
        return True


def _lay_out(folder: Path, material: _Material) -> None:
    """Write the working copy: the task's files, and the answer as answer.txt."""
    work = folder / "work"
    (folder / "tmp").mkdir()
    work.mkdir()
    for path, content in [*material.files, ("answer.txt", material.answer)]:
        place = Path(os.path.normpath(work / path))
        if not place.is_relative_to(work) or place == work:
            raise OSError(f"the file '{path}' would lie outside of the working copy")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, "utf-8", "replace", newline="")


async def _supervised(job: str, patience_s: float) -> _Ending:
    """Return what the supervisor tells. Raises OSError when it tells nothing."""
    supervisor = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", _START, str(_ROOT), job,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={"LANG": os.environ.get("LANG", "C.UTF-8")}, start_new_session=True, limit=_TOLD_BYTES,
    )  # fmt: skip
    assert supervisor.stdin
    assert supervisor.stdout
    try:
        told = await asyncio.wait_for(supervisor.stdout.readline(), patience_s)
    except TimeoutError:
        raise OSError("its supervisor did not answer in time") from None
    finally:
        # The end of its input is the order to end everything below it.
        supervisor.stdin.close()
        await asyncio.shield(supervisor.wait())
    if not told:
        raise OSError(f"its supervisor ended with {supervisor.returncode}")
    return _Ending.model_validate_json(told)


def told_barred(argv: Sequence[str]) -> str:
    """Return why a command line cannot work for the user that it runs as here, and what to do, or ""."""
    user = unprivileged_user()
    why = barred(argv, user)
    if not why:
        return ""
    return (
        f"{why}, and what root registers as a judge runs as '{name_of(user)}': put it where that user can reach it, or "
        "run skillopt-mcp as another user than root"
    )


def _reply(ending: _Ending, why: str) -> Reply:
    """Return how a command ended; `why` is the reason that it may not have been started for."""
    if ending.error is not None:
        return _missing(f"it could not be started: {why or ending.error}")
    if ending.limit == "abandoned":
        return _missing("it was given up")
    if ending.exit in _NOT_STARTED:
        told = f"{why}; " if why else ""
        return _missing(f"it could not be started (exit code {ending.exit}): {told}{quoted(ending.output[-300:], 300)}")
    check = CheckReply.model_validate(ending.model_dump(exclude={"error"}))
    return Reply(check.model_dump_json(), usage=_FREE)


def _missing(reason: str) -> Reply:
    return Reply(reason, usage=_FREE, fault="internal")
