"""Checks: the judge that lets a registered command decide; what it is asked, and what its end means for the score.

The program itself is run by `judges.command`, behind `ask` like every other question, so its outcome is a stored row
that a resumed run finds again.
"""

from __future__ import annotations

import json
import re

from pydantic import ValidationError

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.answers import quoted
from skillopt_mcp.records.calls import Call, Question, Reply
from skillopt_mcp.records.commands import NAME
from skillopt_mcp.records.evidence import Attempted
from skillopt_mcp.records.judging import Command, Score, Unscored
from skillopt_mcp.records.replies import CheckReply

_ENDED = {
    "time": "ran out of time",
    "processes": "started too many processes",
    "disk": "took too much of the disk",
    "signal": "was ended by a signal",
}


def check_call(spec: Command, attempted: Attempted) -> Call:
    """Return the question to the runner: the name of the command, and the answer and files as its evidence."""
    files = [[file.path, file.content] for file in attempted.task.files]
    evidence = json.dumps({"answer": attempted.answer, "files": files}, ensure_ascii=False)
    return Call("judge", "check", Question(spec.name, evidence, "check"), attempted.draw)


def score_check(spec: Command, reply: Reply) -> Score | Unscored:
    """Return passed for exit code 0; a command that could not be run leaves no score."""
    if reply.missing:
        return Unscored(f"command '{spec.name}': {reply.text}")
    try:
        ended = CheckReply.model_validate_json(reply.text)
    except ValidationError:
        return Unscored(f"command '{spec.name}': its result cannot be read: {quoted(reply.text)}")
    if ended.limit is None and ended.exit is None:
        return Unscored(f"command '{spec.name}': it did not end")
    told = f"command '{spec.name}' {_ENDED[ended.limit] if ended.limit else f'ended with exit code {ended.exit}'}"
    told = f"{told} [confined: {ended.confined}]"
    if ended.limit is None and ended.exit == 0:
        return Score(hard=True, soft=1.0, reason=told)
    output = f": {quoted(ended.output[-400:], 400)}" if ended.output.strip() else ""
    return Score(hard=False, soft=0.0, reason=told + output)


def unregistered(name: str) -> str:
    """Return what to tell of a command that nobody registered."""
    return (
        f"no command '{name}' is registered as a judge: a person does that at a terminal, with "
        f"'skillopt-mcp judges add {name} -- PROGRAM ARGS'"
    )


def check_command(spec: Command) -> None:
    """Raise BadInput when the name cannot be a registered command's."""
    if not re.fullmatch(NAME, spec.name):
        raise BadInput(
            f"command judge: {quoted(spec.name, 40)} cannot be the name of a command; a person registers commands at a "
            "terminal, and a task names one (a to z, digits, hyphens)"
        )
