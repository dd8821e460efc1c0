"""Capture: what the hooks of Claude Code and Codex run; it never gets in the way of the host."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.errors import SkillOptError
from skillopt_mcp.limits import MIB
from skillopt_mcp.operations.capturing import capture, parse_event


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Nothing beyond what all commands take: the event comes on standard input."""


def run(options: Options) -> int:
    """Return 0, whatever happened: a host takes other codes for a wish to stop it."""
    try:
        # A host reads what a hook prints as instructions to itself, so all that is said goes to stderr.
        found = capture(options.store_path, parse_event(sys.stdin.buffer.read(MIB)))
    except (SkillOptError, OSError) as error:
        _note(str(error))
        return 0
    for problem in found.problems if found else ():
        _note(f"{problem.path}: {problem.reason}")
    if options.json:
        sys.stdout.write((found.model_dump_json() if found else "{}") + "\n")
    return 0


def _note(text: str) -> None:
    sys.stderr.write(f"skillopt-mcp capture: {' '.join(text.split())}\n")
