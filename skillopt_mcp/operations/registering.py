"""Registering: the programs that a person allows as judges, and the trial run that shows what they do."""

from __future__ import annotations

import asyncio
import json

from skillopt_mcp.errors import BadInput, NotFound
from skillopt_mcp.judges.command import CommandRunner, program_sha256
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import Call, Question
from skillopt_mcp.records.commands import RegisteredCommand
from skillopt_mcp.records.replies import CheckReply


def try_command(command: RegisteredCommand) -> CheckReply:
    """Return how a command ends on an empty answer, without files. Raises BadInput when it cannot be run here."""
    evidence = json.dumps({"answer": "", "files": []})
    call = Call("judge", "check", Question(command.name, evidence, "check"), "trial")
    reply = asyncio.run(CommandRunner({command.name: command}).complete(call))
    if reply.missing:
        raise BadInput(f"the command '{command.name}' cannot judge: {reply.text}: it was not registered")
    return CheckReply.model_validate_json(reply.text)


def add_command(workspace: Workspace, command: RegisteredCommand) -> bool:
    """Register a command; return whether it took the place of another one of its name."""
    return workspace.store.commands.register(command)


def remove_command(workspace: Workspace, name: str) -> None:
    """Forget a command: tasks that name it cannot be judged any more. Raises NotFound."""
    if not workspace.store.commands.remove(known(name)):
        raise NotFound(f"no command '{name}' is registered as a judge: see 'skillopt-mcp judges list'")


def has_changed(command: RegisteredCommand) -> bool:
    """Return whether its program is no longer the registered one: then it is not run."""
    return program_sha256(command.argv) != command.sha256
