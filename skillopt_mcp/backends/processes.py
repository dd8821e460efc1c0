"""Processes: runs a command line below a supervisor, which ends all of it when it takes too long or when we die."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.backends.agents.places import FolderPaths
from skillopt_mcp.backends.supervisor import Exit, Supervised
from skillopt_mcp.core.text import storable

MAX_OUTPUT_BYTES = 64 << 20
MAX_ERROR_BYTES = 16 << 10
_NOT_STARTED = 127
_REPORT_BYTES = 1 << 20
_ROOT = Path(__file__).parents[2]
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from skillopt_mcp.backends.supervisor import main; main(sys.argv[2])"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A command line: its first argument is the program's path; the prompt goes to its standard input."""

    argv: list[str]
    environ: dict[str, str]
    prompt: str


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command line ended: `exit` is None when it was ended for taking too long, negative for a signal.

    `record` is what it kept of its work in a file of its own, empty where it keeps none.
    """

    exit: int | None
    output: str
    errors: str
    record: str = ""


async def run(line: Line, place: FolderPaths, timeout_s: float) -> Ended:
    """Run a command line until nothing of it is left. Raises OSError when it could not be supervised."""
    place.prompt.write_text(storable(line.prompt), "utf-8")
    job: Supervised = {
        "argv": line.argv,
        "work": str(place.work),
        "environ": None,
        "files": [str(path) for path in (place.prompt, place.output, place.errors)],
        "bounds": None,
    }
    ending = await supervise(job, line.environ, timeout_s, end_s=None)
    if ending and ending["error"]:
        return Ended(_NOT_STARTED, "", ending["error"].split(": ")[1])
    return Ended(ending and ending["exit"], text_of(place.output), text_of(place.errors, MAX_ERROR_BYTES))


async def supervise(job: Supervised, environ: Mapping[str, str], patience_s: float, end_s: float | None) -> Exit | None:
    """How a job ended, once nothing of it is left; None after `patience_s`. What is left then has `end_s` to end.

    Raises OSError when it could not be supervised.
    """
    supervisor = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", _START, str(_ROOT), json.dumps(job),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env=environ, start_new_session=True, limit=_REPORT_BYTES,
    )  # fmt: skip
    assert supervisor.stdin
    assert supervisor.stdout
    report, is_late = b"", False
    try:
        async with asyncio.timeout(patience_s):
            report = await supervisor.stdout.readline()
            await supervisor.wait()
    except TimeoutError:
        is_late = True
    finally:
        # The end of its input is the order to end everything below it.
        supervisor.stdin.close()
        try:
            await asyncio.wait_for(asyncio.shield(supervisor.wait()), end_s)
        except TimeoutError:
            supervisor.kill()
            await supervisor.wait()
    if not report and not is_late:
        raise OSError(f"its supervisor ended with {supervisor.returncode}")
    ending: Exit | None = json.loads(report) if report else None
    return ending


def text_of(path: Path, limit: int = MAX_OUTPUT_BYTES) -> str:
    """Return the end of a file, at most `limit` bytes of it, empty when it was never written."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - limit))
            return file.read(limit).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
