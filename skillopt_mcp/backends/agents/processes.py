"""Processes: one run of a command line, ended with all that it started when it takes too long or when we die."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.backends.agents.places import FolderPaths
from skillopt_mcp.core.calls import storable

MAX_OUTPUT_BYTES = 64 << 20
MAX_ERROR_BYTES = 16 << 10
_ROOT = Path(__file__).parents[3]
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from skillopt_mcp.backends.agents.supervisor import main; main(sys.argv[2])"
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

    def replaced(self, words: Mapping[str, str]) -> Ended:
        """Return the same with some words replaced: `words` has the new ones by the old ones."""
        texts = [self.output, self.errors, self.record]
        for old, new in words.items():
            texts = [text.replace(old, new) for text in texts]
        return Ended(self.exit, *texts)


async def run(line: Line, place: FolderPaths, timeout_s: float) -> Ended:
    """Return how the command line ended, once nothing of it is left. Raises OSError when it could not be supervised."""
    place.prompt.write_text(storable(line.prompt), "utf-8")
    files = [str(path) for path in (place.prompt, place.output, place.errors)]
    job = json.dumps({"argv": line.argv, "folder": str(place.work), "files": files})
    supervisor = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", _START, str(_ROOT), job,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env=line.environ, start_new_session=True,
    )  # fmt: skip
    assert supervisor.stdin
    assert supervisor.stdout
    line_out = b""
    try:
        async with asyncio.timeout(timeout_s):
            line_out = await supervisor.stdout.readline()
        if not line_out:
            raise OSError("its supervisor died")
    except TimeoutError:
        pass
    finally:
        # The end of its input is the order to end everything below it.
        supervisor.stdin.close()
        await asyncio.shield(supervisor.wait())
    exit_code = int(json.loads(line_out)["exit"]) if line_out else None
    return Ended(exit_code, text_of(place.output), text_of(place.errors, MAX_ERROR_BYTES))


def text_of(path: Path, limit: int = MAX_OUTPUT_BYTES) -> str:
    """Return the end of a file, at most `limit` bytes of it, empty when it was never written."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - limit))
            return file.read(limit).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
