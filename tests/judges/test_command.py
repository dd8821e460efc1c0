"""Command: what a registered program is given, what it cannot reach, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.judge_sockets import socket_reached
from skillopt_mcp.backends import programs
from skillopt_mcp.backends.programs import (
    CommandRunner,
    bwrap_fault,
    find_barrier,
    program_sha256,
    readable_paths,
    register_command,
    unprivileged_user,
)
from skillopt_mcp.core.calls import Call, Question, Reply, Usage
from skillopt_mcp.core.commands import Limits, RegisteredCommand
from skillopt_mcp.core.errors import BackendError, BadInput
from skillopt_mcp.core.replies import CheckReply

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tricks are those of Linux")
needs_bwrap = pytest.mark.skipif(bool(bwrap_fault()), reason=f"bubblewrap {bwrap_fault()}")
LEVELS = ["none", pytest.param("bwrap", marks=needs_bwrap)]
CANARY = "sk-canary-5d3c1f"


@functools.cache
def python() -> str:
    """Return a Python that the unprivileged user may run too."""
    user = unprivileged_user()
    if not user:
        return sys.executable
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            if subprocess.run([candidate, "-c", ""], user=user[0], check=False, capture_output=True).returncode == 0:
                return candidate
        except OSError:
            continue
    pytest.skip("no Python that the unprivileged user may run")


def program(code: str, *, reads: Sequence[str] = (), **limits: float) -> RegisteredCommand:
    """Return a registered command that runs Python code."""
    chosen = Limits(**{"time_s": 20.0, **limits})  # type: ignore[arg-type]
    return register_command("check", [python(), "-c", code], chosen, reads, unconfined=True)


def call(answer: str = "", files: tuple[tuple[str, str], ...] = (), name: str = "check") -> Call:
    """Return the question to run a command on an answer."""
    return Call("judge", "check", Question(name, json.dumps({"answer": answer, "files": files}), "check"), "d/1")


def asked(command: RegisteredCommand, level: str, question: Call | None = None) -> Reply:
    """Return the reply for a command, run with bubblewrap or without."""
    command = replace(command, unconfined=level == "none")
    return asyncio.run(CommandRunner({command.name: command}).complete(question or call()))


def run(command: RegisteredCommand, level: str, question: Call | None = None) -> CheckReply:
    """Return how a command ended."""
    reply = asked(command, level, question)
    assert not reply.missing, reply.text
    assert reply.usage == Usage(usd=0.0)
    return CheckReply.model_validate_json(reply.text)


def missing(command: RegisteredCommand, level: str, question: Call | None = None) -> Reply:
    """Return the reply for a command that could not be run."""
    reply = asked(command, level, question)
    assert reply.missing
    return reply


@pytest.fixture
def outside() -> Iterator[Path]:
    """Give a folder that every user may write."""
    folder = Path(tempfile.mkdtemp(prefix="outside-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("level", LEVELS)
def test_a_program_gets_the_answer_the_files_and_a_bare_environment(level: str) -> None:
    code = """
import json, os, sys
found = sorted(os.path.join(folder, name) for folder, _, names in os.walk(".") for name in names)
same = open("answer.txt").read() == sys.stdin.read() == "42 \\u00fc"
json.dump([found, same, open("data/in.csv").read(), sorted(os.environ), os.environ["HOME"] != os.getcwd()], sys.stdout)
open(os.path.join(os.environ["TMPDIR"], "x"), "w").close(); open("made", "w").close()
"""
    ended = run(program(code), level, call("42 ü", (("data/in.csv", "a,b"),)))
    assert ended.exit == 0, ended.output
    found, same, data, environment, has_home = json.loads(ended.output)
    assert found == ["./answer.txt", "./data/in.csv"]
    assert (same, data, has_home) == (True, "a,b", True)
    assert set(environment) - {"PWD", "LC_CTYPE"} == {"PATH", "LANG", "HOME", "TMPDIR"}
    assert ended.confined == level


TRICKS = {
    "new session": "os.fork() or (os.setsid(), time.sleep(60))",
    "double fork": "os.fork() or (os.setsid(), os.fork() and os._exit(0), os.chdir('/'), time.sleep(60))",
    "pipe holder": "os.fork() or time.sleep(60)\nprint('done', flush=True)",
    "bounded fork bomb": "for _ in range(7):\n    try: os.fork()\n    except OSError: pass\ntime.sleep(60)",
    "signals ignored": "[signal.signal(n, signal.SIG_IGN) for n in range(1, 65) if n not in (9, 19, 32, 33)]\n"
    "os.fork()\ntime.sleep(60)",
    "stopped child": "os.fork() or os.kill(os.getpid(), signal.SIGSTOP)",
    "pid hopper": "end = time.monotonic() + 20\nif os.fork() == 0:\n    os.setsid()\n"
    "    while time.monotonic() < end:\n        if os.fork(): os._exit(0)\n        time.sleep(0.001)",
    "endless output": "while True: os.write(1, b'x' * 65536)",
    "own group killed": "os.fork() or (os.setsid(), time.sleep(60))\ntime.sleep(0.1)\nos.killpg(0, 9)",
    "overseer killed": "os.fork() or (os.setsid(), time.sleep(60))\n"
    "try: os.kill(os.getppid(), 9)\nexcept OSError: pass\ntime.sleep(60)",
    "another program": "os.fork() or (os.setsid(), os.closerange(0, 99), os.execvp('sleep', ['sleep', MARK]))",
    "limits raised": "import resource\ntry: resource.setrlimit(resource.RLIMIT_NPROC, (-1, -1))\n"
    "except (OSError, ValueError): pass\nos.fork() or (os.setsid(), time.sleep(60))",
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("trick", TRICKS)
def test_nothing_of_a_program_stays_whatever_it_tries(trick: str, level: str) -> None:
    if (trick, level) == ("overseer killed", "none"):
        pytest.skip("what runs unconfined can end whatever its user can")
    mark = f"61.{uuid.uuid4().int % 10**12:012}"
    command = program(f"import os, signal, sys, time\nMARK = '{mark}'\n{TRICKS[trick]}", time_s=0.3, n_processes=24)
    started = time.monotonic()
    run(command, level)
    assert time.monotonic() - started < 8
    assert running(mark) == []


def running(mark: str) -> list[str]:
    """Return the processes that have the mark in their command line."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in line and int(name) != os.getpid():
            found.append(name)
    return found


@pytest.mark.parametrize("level", LEVELS)
def test_processes_are_capped_by_the_kernel(level: str) -> None:
    code = """
import os, time
for _ in range(7):
    try: os.fork()
    except OSError: print("refused", flush=True)
time.sleep(0.2)
"""
    ended = run(program(code, n_processes=16), level)
    assert "refused" in ended.output
    assert ended.output.count("refused") < 7 * 2**7


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("code", "limits", "expected"),
    [
        ("x = bytearray(1 << 30)", {"memory_bytes": 300 << 20}, "MemoryError"),
        ("open('big', 'wb').write(bytes(1 << 21))", {"file_bytes": 1 << 20}, ""),
        ("files = [open('answer.txt') for _ in range(100)]", {"n_files": 40}, "Too many open files"),
    ],
)
def test_memory_file_size_and_open_files_are_limited(
    level: str, code: str, limits: dict[str, float], expected: str
) -> None:
    ended = run(program(code, **limits), level)
    assert ended.exit != 0
    assert expected in ended.output


@pytest.mark.parametrize("level", LEVELS)
def test_time_is_limited_and_running_out_of_it_is_an_end(level: str) -> None:
    ended = run(program("print('begun', flush=True)\nwhile True: pass", time_s=0.5), level)
    assert (ended.exit, ended.limit, ended.output) == (None, "time", "begun\n")
    assert ended.confined == level


@pytest.mark.parametrize("level", LEVELS)
def test_ending_a_program_and_removing_its_files_count_within_its_time(level: str) -> None:
    code = """
import os
for _ in range(3): os.fork()
for n in range(10**6):
    name = f"{os.getpid()}-{n}"
    os.mkdir(name); open(f"{name}/f", "w").close()
    for k in range(60_000): os.link(f"{name}/f", f"{name}/{k}")
"""
    started = time.monotonic()
    assert run(program(code, time_s=2.5), level).limit == "time"
    assert time.monotonic() - started < 4.5


def test_the_end_of_a_flood_of_output_is_kept() -> None:
    ended = run(program("print('x' * 3_000_000); print('the end')"), "none")
    assert ended.exit == 0
    assert ended.output.endswith("xxx\nthe end\n")
    assert len(ended.output) < 20_000


@needs_bwrap
def test_it_writes_in_its_private_folder_and_nowhere_else(outside: Path) -> None:
    code = f"""
import multiprocessing
multiprocessing.Lock()
for path in ("/tmp/mine", "/dev/shm/mine"): open(path, "w").close()
for path in ({str(outside / "written")!r}, "/mine", "/dev/mine", "/etc/mine", "/usr/mine"):
    try: open(path, "w").close(); print("wrote", path)
    except OSError: pass
"""
    ended = run(program(code), "bwrap")
    assert (ended.exit, ended.output) == (0, "")
    assert not os.path.exists("/tmp/mine")
    assert run(program(f"open({str(outside / 'written')!r}, 'w').close()"), "none").exit == 0
    assert [path.name for path in outside.iterdir()] == ["written"]


@needs_bwrap
def test_a_file_outside_of_the_system_cannot_be_read_unless_it_was_named(outside: Path) -> None:
    (outside / "notes").write_text("private")
    code = f"print(open({str(outside / 'notes')!r}).read())"
    assert "private" not in run(program(code), "bwrap").output
    assert "private" in run(program(code, reads=[str(outside)]), "bwrap").output


@needs_bwrap
def test_no_connection_leaves() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        assert run(program(code), "bwrap").exit == 1
        assert run(program(code), "none").exit == 0


@needs_bwrap
def test_no_unix_socket_is_reached() -> None:
    assert socket_reached(unconfined=True) == 3
    assert socket_reached() == 0


SPY = """
import glob
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try: print(open(path, "rb").read().decode("latin-1"))
    except OSError: pass
import os
print(os.environ)
"""
HOST = """
import asyncio, sys
from skillopt_mcp.backends import programs
from skillopt_mcp.backends.programs import CommandRunner, register_command
from skillopt_mcp.core.calls import Call, Question
from skillopt_mcp.core.commands import Limits
command = register_command("check", sys.argv[2:], Limits(time_s=20.0), unconfined=sys.argv[1] == "none")
question = Call("judge", "check", Question("check", '{"answer": "", "files": []}', "check"), "d/1")
print(asyncio.run(CommandRunner({"check": command}).complete(question)).text)
"""


@needs_bwrap
def test_a_key_in_the_environment_of_the_host_cannot_be_read() -> None:
    environment = {**os.environ, "API_KEY": CANARY}
    expected = subprocess.run(
        [sys.executable, "-c", HOST, "bwrap", python(), "-c", SPY], env=environment, capture_output=True, check=True
    )
    ended = CheckReply.model_validate_json(expected.stdout)
    assert (ended.exit, CANARY in ended.output) == (0, False)


@pytest.mark.parametrize("level", LEVELS)
def test_a_program_and_its_folder_end_with_the_process_that_asked(level: str, outside: Path) -> None:
    mark = f"61.{uuid.uuid4().int % 10**12:012}"
    code = f"import os, time; MARK = {mark!r}; os.fork() or os.setsid(); time.sleep(60)"
    environment = {**os.environ, "TMPDIR": str(outside)}
    host = subprocess.Popen([sys.executable, "-c", HOST, level, python(), "-c", code], env=environment)
    until = time.monotonic() + 10
    while len(started := overseers(host.pid)) < 3 and time.monotonic() < until:
        os.sched_yield()
    host.kill()
    host.wait()
    for pidfd in started:
        assert select.select([pidfd], [], [], 5)[0]
        os.close(pidfd)
    assert [pid for pid in running(mark) if int(pid) != host.pid] == []
    assert list(outside.iterdir()) == []


def overseers(pid: int) -> list[int]:
    """Return a pidfd for each process below `pid`."""
    found, level = [], [pid]
    while level:
        children = [path for parent in level for path in Path(f"/proc/{parent}/task").glob("*/children")]
        level = [int(child) for path in children if path.exists() for child in path.read_text().split()]
        found += level
    return [os.pidfd_open(each) for each in found if Path(f"/proc/{each}").exists()]


@pytest.mark.parametrize("level", LEVELS)
def test_giving_up_ends_the_program(level: str) -> None:
    mark = f"61.{uuid.uuid4().int % 10**12:012}"
    command = program(f"import os, time; MARK = {mark!r}; os.fork() or os.setsid(); time.sleep(60)")
    command = replace(command, unconfined=level == "none")

    async def give_up() -> None:
        async with asyncio.timeout(0.5):
            await CommandRunner({"check": command}).complete(call())

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    assert running(mark) == []


@pytest.mark.parametrize("level", LEVELS)
def test_what_cannot_be_started_is_missing_and_no_failure(level: str) -> None:
    command = register_command("check", ["/bin/sh", "-c", "exec /nowhere/at-all"], unconfined=True)
    assert "could not be started" in missing(command, level).text


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("code", [126, 127])
@pytest.mark.parametrize(
    "line", ["exit {}", "test -s answer.txt && { echo 'x: not found'; exit {}; }; exit 0", "echo 'as wanted'; exit {}"]
)
def test_an_exit_code_of_a_program_that_started_is_its_own(level: str, code: int, line: str) -> None:
    command = register_command("check", ["/bin/sh", "-c", line.replace("{}", str(code))], unconfined=True)
    ended = run(command, level, call("an answer"))
    assert (ended.exit, ended.limit) == (code, None)


@pytest.mark.parametrize("level", LEVELS)
def test_an_answer_that_is_run_fails_by_a_command_that_is_not_there(level: str) -> None:
    command = register_command("check", ["/bin/sh", "answer.txt"], unconfined=True)
    assert run(command, level, call("no-such-program-at-all")).exit == 127
    assert (
        "could not be started"
        in missing(
            register_command("check", ["/usr/bin/env", "no-such-interpreter", "x"], unconfined=True), level, call("a")
        ).text
    )


def test_a_file_of_the_task_cannot_lie_outside_of_the_working_copy(outside: Path) -> None:
    for path in ("../out", "/etc/out", "a/../../out", "."):
        assert "outside" in missing(program(""), "none", call("x", ((path, "y"),))).text
    assert run(program("print(open('answer.txt').read())"), "none", call("x", (("answer.txt", "y"),))).output == "x\n"


@pytest.mark.parametrize(("bwrap", "why"), [("", "is not installed"), ("echo no uid map; exit 1", "fails here")])
def test_without_bubblewrap_only_what_a_person_let_run_unconfined_is_run(
    bwrap: str, why: str, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = program("")
    monkeypatch.setenv("PATH", str(open_folder))
    if bwrap:
        (open_folder / "bwrap").write_text(f"#!/bin/sh\n{bwrap}\n")
        (open_folder / "bwrap").chmod(0o755)
    both = rf'"check" needs bubblewrap, which {why}.*: install it .*, or register the program with --unconfined'
    with pytest.raises(BackendError, match=both):
        asked(command, "bwrap")
    with pytest.raises(BadInput, match=both):
        register_command("check", command.argv)
    assert run(command, "none").exit == 0


def test_a_program_is_looked_at_before_each_check(open_folder: Path) -> None:
    script = open_folder / "check.sh"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    runner = CommandRunner({"check": register_command("check", [str(script)], unconfined=True)})
    assert not asyncio.run(runner.complete(call())).missing
    script.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(BackendError, match="'check' has changed: look at it, and register it again"):
        asyncio.run(runner.complete(call()))
    script.unlink()
    with pytest.raises(BackendError, match="'check' has changed"):
        runner.command("check")


def test_a_program_that_changes_while_it_runs_has_judged_nothing(open_folder: Path) -> None:
    script = open_folder / "check.sh"
    script.write_text('#!/bin/sh\necho >> "$0"\n')
    script.chmod(0o777)
    runner = CommandRunner({"check": register_command("check", [str(script)], unconfined=True)})
    with pytest.raises(BackendError, match="'check' has changed"):
        asyncio.run(runner.complete(call()))


GREED = {
    "many files": "for n in range(40): open(f'f{n}', 'wb').write(bytes(1 << 19))",
    "empty files": "for n in range(5000): open(f'f{n}', 'wb').close()",
    "deleted and open": "kept = [open(f'f{n}', 'wb') for n in range(40)]\n"
    "for file in kept: file.write(bytes(1 << 19)); file.flush(); os.unlink(file.name)",
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("greed", GREED)
def test_what_all_files_take_of_the_disk_is_limited(greed: str, level: str) -> None:
    command = program(f"import os, time\n{GREED[greed]}\ntime.sleep(60)", file_bytes=1 << 20, time_s=50.0)
    assert command.limits.disk_bytes == 16 << 20
    ended = run(command, level)
    assert (ended.exit, ended.limit) == (None, "disk")


@needs_bwrap
@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_its_temporary_files_count_as_well(folder: str) -> None:
    code = f"import os, time\nos.chdir({folder!r})\n{GREED['many files']}\ntime.sleep(60)"
    assert run(program(code, file_bytes=1 << 20, time_s=50.0), "bwrap").limit == "disk"


@pytest.mark.parametrize("level", LEVELS)
def test_a_program_that_is_quick_to_end_is_measured_as_well(level: str) -> None:
    fill = (
        "import os; os.mkdir('a')\nfor n in range({n}): open(f'a/{{n}}', 'wb').write(bytes(1 << 19))\nos.chmod('a', 0)"
    )
    assert run(program(fill.format(n=40), file_bytes=1 << 20), level).limit == "disk"
    assert run(program(fill.format(n=20), file_bytes=1 << 20), level).exit == 0
    links = "import os\nopen('a', 'wb').write(bytes(1 << 19))\nfor n in range(40): os.link('a', f'b{n}')"
    assert run(program(links, file_bytes=1 << 20), level).exit == 0


def test_folders_in_folders_are_removed_however_deep_and_locked(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(open_folder))
    code = "import os\nfor _ in range({n}): os.mkdir('{name}'); os.chdir('{name}')\nopen('f', 'w'); os.chmod('.', 0)"
    assert run(program(code.format(n=1_000, name="d")), "none").exit == 0
    # No path is as long as these are deep.
    assert run(program(code.format(n=50, name="d" * 100)), "none").limit == "disk"
    assert list(open_folder.iterdir()) == []


def test_a_shell_never_reads_the_command_line() -> None:
    command = register_command(
        "check", [python(), "-c", "import sys; print(sys.argv[1:])", "$(id)", "; id", "a b"], unconfined=True
    )
    assert run(command, "none").output == "['$(id)', '; id', 'a b']\n"


@pytest.mark.parametrize(
    ("name", "argv", "expected"),
    [
        ("Check", ["true"], "use a to z"),
        ("a/b", ["true"], "use a to z"),
        ("check", [], "empty or too long"),
        ("check", ["true", "x\0"], "empty or too long"),
        ("check", ["/nowhere/at-all"], "not found or not executable"),
    ],
)
def test_what_could_never_run_is_not_registered(name: str, argv: list[str], expected: str) -> None:
    with pytest.raises(BadInput, match=expected):
        register_command(name, argv)


def test_the_fingerprint_changes_with_all_that_can_change_an_outcome() -> None:
    made = functools.partial(register_command, "check", unconfined=True)
    first = made(["true"])
    others = [
        made(["true", "x"]),
        made(["true"], Limits(time_s=1)),
        replace(first, unconfined=False),
        made(["true"], reads=["/etc"]),
    ]
    assert len({each.fingerprint for each in [first, *others]}) == 5
    assert made(["true"]).fingerprint == first.fingerprint
    assert CommandRunner({}).fingerprint != CommandRunner({"check": first}).fingerprint


def test_a_program_may_read_its_installation_and_no_home(tmp_path: Path) -> None:
    for part in ("home/me/env/bin", "home/me/env/lib", "home/me/.ssh"):
        (tmp_path / part).mkdir(parents=True)
    tool = tmp_path / "home/me/env/bin/tool"
    tool.write_text("")
    script = tmp_path / "home/me/check.py"
    script.write_text("")
    readable = [path for path in readable_paths([str(tool), str(script), "-x"], []) if path.startswith(str(tmp_path))]
    assert sorted(Path(path).relative_to(tmp_path / "home/me").as_posix() for path in readable) == [
        "check.py", "env/bin", "env/lib",
    ]  # fmt: skip
    assert program_sha256([str(tool), str(script)]) != program_sha256([str(tool)])


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a new folder that every user may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_a_program_that_its_user_cannot_reach_is_shown_with_the_folder_that_is_closed(open_folder: Path) -> None:
    closed, stranger = open_folder / "closed", (54_321, 54_321)
    closed.mkdir()
    program, script = closed / "python3", closed / "check.py"
    for path in (program, script):
        path.write_text("")
        path.chmod(0o755)
    link = open_folder / "bin"
    link.symlink_to(program)
    assert find_barrier([str(link), str(script)], stranger) == ""
    script.chmod(0o700)
    assert find_barrier([str(link), "-x", str(script)], stranger) == f"'{script}': the user '54321' may not read it"
    program.chmod(0o644)
    assert find_barrier([str(link)], stranger) == f"'{link}' leads to '{program}': the user '54321' may not run it"
    closed.chmod(0o700)
    why = f"'{link}' leads to '{program}': the user '54321' may not enter the folder '{closed}'"
    assert find_barrier([str(link)], stranger) == why
    assert find_barrier([str(link)], (os.geteuid(), os.getegid())).endswith("may not run it")
    assert find_barrier([str(link)], ()) == ""


def test_a_program_at_rest_is_hashed_once_and_a_swapped_one_is_noticed(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = open_folder / "check.sh"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    before = os.stat(program)
    now = time.time_ns() + 10 * programs._SETTLED_NS
    monkeypatch.setattr(programs.time, "time_ns", lambda: now)  # type: ignore[attr-defined]
    first, hashed = programs.program_sha256([str(program)]), []
    real = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda file, name: (hashed.append(file.name), real(file, name))[1])
    assert programs.program_sha256([str(program)]) == first
    assert hashed == []
    program.write_text("#!/bin/sh\nexit 1\n")  # as long as before, and as old as before to who asks for mtime alone
    os.utime(program, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert programs.program_sha256([str(program)]) != first
