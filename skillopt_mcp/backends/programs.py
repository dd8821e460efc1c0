"""Programs: runs the programs that a person registered as judges, confined. Not pure: it starts processes.

It answers questions of the stage `check` as a backend does. What it cannot run is missing, never a score.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.backends.processes import supervise
from skillopt_mcp.backends.supervisor import Exit, Supervised
from skillopt_mcp.core.calls import Call, Question, Reply, Usage
from skillopt_mcp.core.commands import NAME, Limits, RegisteredCommand
from skillopt_mcp.core.errors import BackendError, BadInput
from skillopt_mcp.core.evidence import Attempted
from skillopt_mcp.core.judging import Attempt, Outcome, Score
from skillopt_mcp.core.replies import CheckReply
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.base import quoted
from skillopt_mcp.tasks.judges.judging import judge_all, leaves, missing_programs
from skillopt_mcp.tasks.judges.kinds.command import CommandJudge, check_call, unregistered
from skillopt_mcp.tasks.judges.kinds.reported import ByEnvironment, ByHost
from skillopt_mcp.tasks.judges.kinds.rubric import Rubric
from skillopt_mcp.tasks.judges.kinds.tool_called import ToolCalled

if sys.platform != "win32":
    import pwd

# What the supervisor may take on top of the program's time, and what it then has to end.
_GRACE_S, _END_S = 1.5, 0.5
# What shells and wrappers exit with, and say, when they may not run, or do not find, what they were to run.
_NOT_STARTED = (126, 127)
_NOT_FOUND = re.compile("not found|no such file|permission denied|cannot execute", re.IGNORECASE)
_MAX_ARGV_CHARS = 32_000
_FREE = Usage(usd=0.0)
# The sets of programs that have started.
_TRIED: set[str] = set()


class _Material(BaseModel):
    """The evidence of a check: the answer, and the task's files as [path, content]."""

    model_config = ConfigDict(frozen=True)
    answer: str
    files: list[tuple[str, str]]


class CommandRunner:
    """Runs registered commands, one private folder each; `clean` takes secrets out of what they print."""

    name = "command"
    deferred = False

    def __init__(self, commands: Mapping[str, RegisteredCommand], clean: Callable[[str], str] = str) -> None:
        self._commands = commands
        self._clean = clean
        prints = "".join(sorted(command.fingerprint for command in commands.values()))
        self.fingerprint = f"command:{hashlib.sha256(prints.encode()).hexdigest()[:16]}"

    async def complete(self, call: Call) -> Reply:
        """Run the command: how it ended as the JSON of a CheckReply, a fault when it could not be run.

        Raises BackendError when no such command is registered, its program is no longer the registered one, or nothing
        can confine it.
        """
        if not isinstance(call.request, Question):
            raise BackendError(f"stage '{call.stage}' is no question to a registered command")
        command = await asyncio.to_thread(self.command, call.request.instructions)
        material = _Material.model_validate_json(call.request.evidence)
        folder = ""
        try:
            folder = tempfile.mkdtemp(prefix="judge-")
            environ = {"LANG": os.environ.get("LANG", "C.UTF-8")}
            job = _set_up(command, material, folder, environ)
            ending = await supervise(job, environ, command.limits.time_s + _GRACE_S, _END_S)
            if ending is None:
                raise OSError("its supervisor did not answer in time")
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            return _missing(f"it could not be run: {error}")
        # It may have changed between that look and its start: then what ran is not what was registered.
        await asyncio.to_thread(self.command, command.name)
        output = ending["output"] = self._clean(ending["output"])
        if ending["exit"] in _NOT_STARTED and _NOT_FOUND.search(output):
            # An answer may bring that about. Without one, only a program that cannot be started ends so.
            empty = check_call(command.name, Attempt("", draw=call.draw))
            if call.request == empty.request or (await self.complete(empty)).missing:
                ending["error"] = f"(exit code {ending['exit']}) {quoted(output[-300:], 300)}"
        return _reply(ending, confinement(command), describe_barrier(command.argv) if ending["error"] else "")

    def command(self, name: str) -> RegisteredCommand:
        """Return the command that a task names. Raises BackendError when it may not be run: see `complete`."""
        command = self._commands.get(name)
        if command is None:
            raise BackendError(unregistered(name))
        if has_changed(command):
            raise BackendError(
                f"the program of the judge command '{name}' has changed: look at it, and register it again with "
                f"'skillopt-mcp tasks judges add {name} -- PROGRAM ARGS'"
            )
        if why := _unconfinable(command):
            raise BackendError(why)
        return command


def _set_up(command: RegisteredCommand, material: _Material, folder: str, environ: Mapping[str, str]) -> Supervised:
    """Write the task's files and the answer (answer.txt) in a folder; the job that runs the command there."""
    limits, work, tmp = command.limits, os.path.join(folder, "work"), os.path.join(folder, "tmp")
    os.mkdir(tmp)
    os.mkdir(work)
    for path, content in [*material.files, ("answer.txt", material.answer)]:
        place = Path(os.path.normpath(os.path.join(work, path)))
        if not place.is_relative_to(work) or place == Path(work):
            raise OSError(f"the file '{path}' would lie outside of the working copy")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, "utf-8", "replace", newline="")
    wrapper: list[str] = []
    if not command.unconfined:
        # No files but the folder, what it may read, and devices. It writes in the folder alone, whose `tmp` is its
        # /tmp and /dev/shm, too: what is there counts as its use of the disk.
        wrapper = [
            shutil.which("bwrap") or "bwrap", *_ALONE, "--bind", tmp, "/tmp", "--bind", tmp, "/dev/shm",
            *_ro_binds(readable_paths(command.argv, command.reads)), "--bind", folder, folder,
            "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", work, "--",
        ]  # fmt: skip
    path = f"{os.path.dirname(command.argv[0])}:/usr/local/bin:/usr/bin:/bin"
    return {
        "argv": list(command.argv),
        "work": work,
        "environ": {"PATH": path, **environ, "HOME": tmp, "TMPDIR": tmp},
        "files": [os.path.join(work, "answer.txt")],
        "bounds": {
            "folder": folder,
            "wrapper": wrapper,
            "user": unprivileged_user(),
            "time_s": limits.time_s,
            "memory_bytes": limits.memory_bytes,
            "file_bytes": limits.file_bytes,
            "disk_bytes": limits.disk_bytes,
            "n_files": limits.n_files,
            "n_processes": limits.n_processes,
        },
    }


def register_command(
    name: str, argv: Sequence[str], limits: Limits | None = None, reads: Sequence[str] = (), *, unconfined: bool = False
) -> RegisteredCommand:
    """Return the command ready to be stored, its program found and hashed. Raises BadInput when it could not run."""
    if not re.fullmatch(NAME, name):
        raise BadInput(f"{quoted(name, 40)} cannot name a command: use a to z, digits and hyphens")
    if not argv or sum(map(len, argv)) > _MAX_ARGV_CHARS or any("\0" in part for part in argv):
        raise BadInput(f"the command line of '{name}' is empty or too long: give a program and its arguments")
    program = shutil.which(argv[0])
    if program is None:
        raise BadInput(f"the program '{argv[0]}' is not found or not executable: give the path of a program")
    for folder in reads:
        if not os.path.isabs(folder) or not os.path.exists(folder) or os.path.realpath(folder) == "/":
            raise BadInput(f"'{folder}' is no absolute path of a file or folder below /: name what '{name}' may read")
    line = (os.path.abspath(program), *argv[1:])
    made = RegisteredCommand(name, line, program_sha256(line), limits or Limits(), tuple(reads), unconfined)
    if why := _unconfinable(made):
        raise BadInput(why)
    return made


def confinement(command: RegisteredCommand) -> str:
    """The name of what keeps a command from the rest of the machine."""
    return "none" if command.unconfined else "bwrap"


def _unconfinable(command: RegisteredCommand) -> str:
    """Return why a command may not be run here, and both ways out, or ""."""
    fault = "" if command.unconfined else bwrap_fault()
    return fault and (
        f'judge program "{command.name}" needs bubblewrap, which {fault}: install it (apt-get install bubblewrap), '
        "or register the program with --unconfined, with all your rights"
    )


# The digests of programs that are at rest, by path: an interpreter is too large to be hashed at every check.
_KNOWN: dict[str, tuple[tuple[int, ...], bytes]] = {}
_SETTLED_NS = 2_000_000_000


def program_sha256(argv: Sequence[str]) -> str:
    """Return the sha256 (hex) over the files that a command line names by absolute path: its program, its scripts."""
    digest = hashlib.sha256()
    for part in argv:
        if not (os.path.isabs(part) and os.path.isfile(part)):
            continue
        with open(part, "rb") as file:
            stat = os.fstat(file.fileno())
            # Only the system sets ctime; a file that has just changed may change again without another one.
            stamp = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            known, content = _KNOWN.get(part, ((), b""))
            if time.time_ns() - stat.st_ctime_ns < _SETTLED_NS:
                content = hashlib.file_digest(file, "sha256").digest()
            elif known != stamp:
                content = hashlib.file_digest(file, "sha256").digest()
                _KNOWN[part] = (stamp, content)
        digest.update(content)
    return digest.hexdigest()


def has_changed(command: RegisteredCommand) -> bool:
    """True where its program is no longer the registered one, or cannot be read: then it is not run."""
    try:
        return program_sha256(command.argv) != command.sha256
    except OSError:
        return True


def describe_barrier(argv: Sequence[str]) -> str:
    """Return why a command line cannot work for the user that it runs as here, and what to do, or ""."""
    user = unprivileged_user()
    why = find_barrier(argv, user)
    if not why:
        return ""
    return (
        f"{why}, and what root registers as a judge runs as '{name_of(user)}': put it where that user can reach it, or "
        "run skillopt-mcp as another user than root"
    )


def _reply(ending: Exit, confined: str, why: str) -> Reply:
    """The reply for a command that ended; `why` is the reason that it may not have been started for."""
    code, limit, error, output = ending["exit"], ending["limit"], ending["error"], ending["output"]
    if error is not None:
        return _missing(f"it could not be started: {'; '.join(filter(None, (why, error)))}")
    if limit == "abandoned":
        return _missing("it was given up")
    check = CheckReply.model_validate({"exit": code, "limit": limit, "output": output, "confined": confined})
    return Reply(check.model_dump_json(), usage=_FREE)


def _missing(reason: str) -> Reply:
    return Reply(reason, usage=_FREE, fault="internal")


SYSTEM_FOLDERS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/nix/store", "/sys/devices/system/cpu",
)  # fmt: skip
# Not `share`: that of ~/.local holds what other programs keep, keyrings too.
_PREFIX_PARTS = ("bin", "lib", "lib64", "libexec", "include", "pyvenv.cfg")
_PROBE_S = 10
_LINKS = 40
_USE = {True: "run", False: "read"}


def bwrap_fault() -> str:
    """Return why bubblewrap cannot confine programs here, or "". It is run once to see."""
    path = shutil.which("bwrap")
    return _failure(path) if path else "is not installed"


@cache
def _failure(path: str) -> str:
    """The way in which the bubblewrap at this path fails, or ""."""
    user = unprivileged_user()
    try:
        subprocess.run(
            [path, *_ALONE, *_ro_binds(SYSTEM_FOLDERS), "--", "/bin/sh", "-c", ":"],
            user=user[0] if user else None, group=user[1] if user else None, extra_groups=[] if user else None,
            capture_output=True, timeout=_PROBE_S, check=True,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        return f"fails here ({quoted(error.stderr.decode('utf-8', 'replace').strip()[-200:], 200)})"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"fails here ({error})"
    return ""


# Processes, network, users and devices of its own, and no files yet.
_ALONE = (
    "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev",
)  # fmt: skip


def _ro_binds(paths: Sequence[str]) -> list[str]:
    return [part for path in paths for part in ("--ro-bind-try", path, path)]


def readable_paths(argv: Sequence[str], further: Sequence[str]) -> list[str]:
    """The paths that a command may read: the system, the installation of its program, files in its line, `further`.

    A program in PREFIX/bin reads PREFIX's lib and so on; other files of a home folder are not among them.
    """
    found: dict[str, None] = dict.fromkeys([*SYSTEM_FOLDERS, *further])
    for part in argv:
        path = Path(part)
        if not path.is_absolute() or not path.is_file():
            continue
        # An interpreter next to the program, or a link, leads to another installation.
        neighbour = path.parent / "python3" if path.parent.name == "bin" else path
        for each in (path, Path(os.path.realpath(path)), neighbour, Path(os.path.realpath(neighbour))):
            found[str(each)] = None
            if each.parent.name == "bin":
                found |= dict.fromkeys(str(each.parent.parent / name) for name in _PREFIX_PARTS)
    inside = [path for path in found if any(str(parent) in found for parent in Path(path).parents)]
    return [path for path in found if path not in inside and os.path.exists(path)]


def unprivileged_user() -> list[int]:
    """Return [user id, group id] of the user that programs run as when this process is root's, else []."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return []
    try:
        user = pwd.getpwnam("nobody")
    except KeyError:
        return [65534, 65534]
    return [user.pw_uid, user.pw_gid]


def name_of(user: Sequence[int]) -> str:
    """Return the name of a user ([user id, group id]), its number where it has none, "" where there is no user."""
    if not user:
        return ""
    try:
        return pwd.getpwuid(user[0]).pw_name
    except KeyError:
        return str(user[0])


def find_barrier(argv: Sequence[str], user: Sequence[int]) -> str:
    """Return which file that a command line names a user ([user id, group id]) cannot reach, and why, or "".

    A link is followed: what it leads through counts as well. Access lists, where there are any, are not looked at.
    """
    for part in filter(os.path.isabs, argv if user else ()):
        at = part
        for _ in range(_LINKS):
            # Links in the folders are resolved, the one in the last place is followed.
            path = Path(os.path.realpath(os.path.dirname(at)), os.path.basename(at))
            leads = f" leads to '{path}'" if str(path) != part else ""
            closed = next((each for each in reversed(path.parents) if not _may(each, user, 0o1)), None)
            if closed is not None:
                return f"'{part}'{leads}: the user '{name_of(user)}' may not enter the folder '{closed}'"
            if not path.is_symlink():
                if path.is_file() and not _may(path, user, 0o1 if part == argv[0] else 0o4):
                    return f"'{part}'{leads}: the user '{name_of(user)}' may not {_USE[part == argv[0]]} it"
                break
            at = os.path.join(path.parent, os.readlink(path))
    return ""


def _may(path: Path, user: Sequence[int], right: int) -> bool:
    """True where the mode of a file or folder gives a user a right (1 to enter or run, 4 to read)."""
    try:
        found = os.stat(path)
    except OSError:
        return True
    shift = 6 if found.st_uid == user[0] else 3 if found.st_gid == user[1] else 0
    return bool(found.st_mode >> shift & right)


def try_programs(store: Store, tasks: Iterable[Task]) -> None:
    """Raise BackendError if a judge program of the tasks cannot start: before answers to judge are paid for."""
    names = {name for task in tasks for name in missing_programs(task.judge, ())}
    commands = store.commands.find_named(names) if names else {}
    runner = CommandRunner(commands)
    if runner.fingerprint in _TRIED:
        return
    # A thread of its own: the caller's may have an event loop already.
    with ThreadPoolExecutor(1) as thread:
        for name in commands:
            call = check_call(name, Attempt("", draw="trial"))
            reply = thread.submit(asyncio.run, runner.complete(call)).result()
            if reply.missing:
                raise BackendError(f'judge program "{name}" cannot start: {reply.text}')
    _TRIED.add(runner.fingerprint)


_ENDINGS = {
    "time": "ran out of time (allow it more with --time)",
    "processes": "started more processes than it may",
    "disk": "took more of the disk than it may",
    "signal": "died, perhaps at a limit (allow it more memory with --memory)",
}
# Most programs take a lack of memory for an error of their own, and end with an exit code.
_NO_MEMORY = re.compile("MemoryError|cannot allocate memory|out of memory|bad_alloc", re.IGNORECASE)
_MOST_AT_ONCE = 4


def try_command(command: RegisteredCommand) -> tuple[CheckReply, str]:
    """Run a program on an empty answer, without files: how it ends, and why it may never pass an answer, or "".

    Raises BadInput when it cannot be run here.
    """
    call = check_call(command.name, Attempt("", draw="trial"))
    reply = asyncio.run(CommandRunner({command.name: command}).complete(call))
    if reply.missing:
        raise BadInput(f"the command '{command.name}' cannot judge: {reply.text}: it was not registered")
    trial = CheckReply.model_validate_json(reply.text)
    ending = _ENDINGS[trial.limit] if trial.limit else ""
    if trial.exit and _NO_MEMORY.search(trial.output):
        ending = "ran out of memory (allow it more with --memory)"
    never = f"on an empty answer it {ending}: if it does so on every answer, it passes none of them" if ending else ""
    return trial, never


def trivial_programs(store: Store, tasks: Iterable[Task]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with tasks that a program judges: it is run on an empty answer and on the prompt.

    Tasks that need a model or a recorded attempt are passed over. Raises BackendError when a program cannot be run.
    """
    tried = []
    for task in tasks:
        kinds = list(leaves(task.judge))
        needs_others = any(isinstance(leaf, Rubric | ToolCalled | ByEnvironment | ByHost) for leaf in kinds)
        if not needs_others and any(isinstance(leaf, CommandJudge) for leaf in kinds):
            tried.append(task)
    names = sorted({name for task in tried for name in missing_programs(task.judge, ())})
    judges = CommandRunner(store.commands.find_named(names))
    for name in names:
        judges.command(name)
    answers = [(task, answer) for task in tried for answer in ("", task.prompt)]
    attempts = [Attempted(task, answer, (), f"check/{n}") for n, (task, answer) in enumerate(answers)]
    outcomes = run_programs(judges, attempts)
    for task, empty, parrot in zip(tried, outcomes[::2], outcomes[1::2], strict=True):
        if not isinstance(empty, Score):
            yield task.name, empty.reason
        elif empty.hard:
            yield task.name, "an empty answer passes: the program expects too little"
        elif isinstance(parrot, Score) and parrot.hard:
            yield task.name, "the prompt itself passes as an answer"


def run_programs(judges: CommandRunner, attempts: Sequence[Attempted]) -> list[Outcome]:
    """The outcomes of attempts that programs judge, run now and not kept. Raises BackendError where one cannot be."""

    async def ask(calls: Sequence[Call]) -> list[Reply]:
        free = asyncio.Semaphore(_MOST_AT_ONCE)

        async def one(call: Call) -> Reply:
            async with free:
                return await judges.complete(call)

        return list(await asyncio.gather(*map(one, calls)))

    return judge_all(lambda calls: asyncio.run(ask(calls)), attempts)
