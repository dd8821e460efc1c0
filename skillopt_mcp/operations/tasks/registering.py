"""Registering: the programs that a person allows as judges, and the trial run that shows what they do."""

from __future__ import annotations

import asyncio
import json
import re

from skillopt_mcp.errors import BadInput, NotFound
from skillopt_mcp.judges.command import CommandRunner
from skillopt_mcp.judges.judging import leaves
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import Call, Question
from skillopt_mcp.records.commands import RegisteredCommand
from skillopt_mcp.records.judging import Command
from skillopt_mcp.records.replies import CheckReply

_ENDINGS = {
    "time": "ran out of time (allow it more with --time)",
    "processes": "started more processes than it may",
    "disk": "took more of the disk than it may",
    "signal": "died, perhaps at a limit (allow it more memory with --memory)",
}
# Most programs take a lack of memory for an error of their own, and end with an exit code.
_NO_MEMORY = re.compile("MemoryError|cannot allocate memory|out of memory|bad_alloc", re.IGNORECASE)


def try_command(command: RegisteredCommand) -> CheckReply:
    """Return how a command ends on an empty answer, without files. Raises BadInput when it cannot be run here."""
    evidence = json.dumps({"answer": "", "files": []})
    call = Call("judge", "check", Question(command.name, evidence, "check"), "trial")
    reply = asyncio.run(CommandRunner({command.name: command}).complete(call))
    if reply.missing:
        raise BadInput(f"the command '{command.name}' cannot judge: {reply.text}: it was not registered")
    return CheckReply.model_validate_json(reply.text)


def find_command(workspace: Workspace, name: str) -> RegisteredCommand | None:
    """Return the command that is registered under a name, or None."""
    return workspace.store.commands.named([name]).get(name)


def n_judged_by(workspace: Workspace, name: str) -> int:
    """Return how many tasks, of all skills, name a command as their judge."""
    store = workspace.store
    tasks = (task for skill in store.skills.list_skills() for task in store.tasks.list_tasks(skill.id))
    return sum(any(isinstance(leaf, Command) and leaf.name == name for leaf in leaves(task.judge)) for task in tasks)


def cannot_pass(trial: CheckReply) -> str:
    """Return why a command whose trial ended so may never pass an answer, "" when its trial came to an end."""
    ending = _ENDINGS[trial.limit] if trial.limit else ""
    if trial.exit and _NO_MEMORY.search(trial.output):
        ending = "ran out of memory (allow it more with --memory)"
    return f"on an empty answer it {ending}: if it does so on every answer, it passes none of them" if ending else ""


def add_command(workspace: Workspace, command: RegisteredCommand) -> bool:
    """Register a command; return whether it took the place of another one of its name."""
    return workspace.store.commands.register(command)


def remove_command(workspace: Workspace, name: str) -> None:
    """Forget a command: tasks that name it cannot be judged any more. Raises NotFound."""
    if not workspace.store.commands.remove(known(name)):
        raise NotFound(f"no command '{name}' is registered as a judge: see 'skillopt-mcp judges list'")
