"""Capture: what the hooks of Claude Code and Codex run; it never gets in the way of the host."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.cli.streams import results
from skillopt_mcp.errors import SkillOptError
from skillopt_mcp.limits import MIB
from skillopt_mcp.operations.evidence.hooking import may_record, parse_event


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Nothing beyond what all commands take: the event comes on standard input."""


def run(options: Options) -> int:
    """Return 0, whatever happened: a host takes other codes for a wish to stop it."""
    shown = "{}"
    # A host reads what a hook prints as instructions to itself, so all that is said goes to stderr.
    try:
        event = parse_event(sys.stdin.buffer.read(MIB))
        if may_record(options.store_path, event):
            # A host waits at every stop, and in most sessions no skill is opened: then none of this is loaded.
            from skillopt_mcp.operations.evidence.capturing import capture  # noqa: PLC0415

            if found := capture(options.store_path, event):
                shown = json.dumps(found.model_dump(mode="json"))
                for problem in found.problems:
                    _note(f"{problem.path}: {problem.reason}")
    except (SkillOptError, OSError) as error:
        _note(str(error))
        shown = json.dumps({"error": str(error)})
    if options.json:
        results().write(f"{shown}\n")
    return 0


def _note(text: str) -> None:
    sys.stderr.write(f"skillopt-mcp capture: {' '.join(text.split())}\n")
