"""NextStep: what to do after a result, as data; the server sends it as JSON, the terminal shows a command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:  # listing skills takes no pydantic, which is half of the start of a command
    from pydantic import JsonValue

Action = Literal[
    # tools, which are commands, too
    "list_skills", "inspect", "record_trajectory", "add_tasks", "propose_edits", "evaluate_candidate", "submit_work",
    "promote_skill", "rollback_skill",
    # commands alone
    "replay", "demo", "check", "gate", "skills track", "skills move", "skills add-root", "skills permit",
    "tasks judges add", "tasks check", "tasks review",
    "store verify", "store restore", "store erase",
]  # fmt: skip

# The command of an action, and which of its arguments are positional.
COMMANDS: Mapping[Action, tuple[str, tuple[str, ...]]] = {
    "list_skills": ("skills", ()),
    "inspect": ("show", ("id",)),
    "add_tasks": ("tasks add", ("skill", "file")),
    "evaluate_candidate": ("evaluate", ("candidate_id",)),
    "promote_skill": ("promote", ("candidate_id",)),
    "rollback_skill": ("rollback", ("skill", "version")),
    "replay": ("replay", ("skill",)),
    "demo": ("demo", ()),
    "skills track": ("skills track", ("folder",)),
    "check": ("check", ("folder",)),
    "gate": ("gate", ("path",)),
    "skills move": ("skills move", ("old", "new")),
    "skills add-root": ("skills add-root", ("folder",)),
    "skills permit": ("skills permit", ("skill",)),
    "tasks judges add": ("tasks judges add", ("name",)),
    "tasks check": ("tasks check", ("skill", "file")),
    "tasks review": ("tasks review", ("skill",)),
    "store verify": ("store verify", ()),
    "store restore": ("store restore", ("file",)),
    "store erase": ("store erase", ()),
}
# What only an agent can do: the sentence that a person says to theirs.
REQUESTS: Mapping[Action, str] = {
    "propose_edits": "Train the skill {skill}",
    "record_trajectory": "Record how your last uses of the skill {skill} went",
    "submit_work": "Continue {job_id}",
}
# Refused in a shell of an agent.
_FOR_PERSONS: frozenset[Action] = frozenset({
    "promote_skill", "rollback_skill", "skills move", "skills add-root", "skills permit", "tasks judges add",
    "tasks review", "store restore", "store erase",
})  # fmt: skip
_OPTIONAL = frozenset({"version"})


@dataclass(frozen=True)
class NextStep:
    """One step: a tool or a command, its arguments, and the reason in a few words.

    `command` is what a person types, where no tool call does it, or that is more than its arguments; else empty.
    """

    action: Action
    arguments: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    command: str = ""

    @classmethod
    def at_terminal(cls, action: Action, arguments: Mapping[str, JsonValue], why: str) -> Self:
        """Return a step that a person takes at a terminal."""
        step = cls(action=action, arguments=arguments, why=why)
        return replace(step, command=step.as_command())

    def as_command(self, store: str | None = None) -> str:
        """Return the step as a person types it, or says it to their agent where only an agent can do it.

        `store` is named in the command where it is not the default one.
        """
        if self.action in REQUESTS:
            return f'tell your agent: "{REQUESTS[self.action].format(**self.arguments)}"'
        if self.command:
            return shlex.join([*shlex.split(self.command), *(["--store", store] if store else [])])
        verb, positional = COMMANDS[self.action]
        words = ["skillopt-mcp", *verb.split()]
        for name in positional:
            if name in self.arguments or name not in _OPTIONAL:
                words.append(str(self.arguments.get(name, name.upper())))
        for name, value in self.arguments.items():
            if name not in positional and value not in (None, False):
                option, text = f"--{name.replace('_', '-')}", str(value)
                words += [option] if value is True else [f"{option}={text}"] if text[:1] == "-" else [option, text]
        return shlex.join([*words, *(["--store", store] if store else [])])

    def as_line(self, store: str | None = None, *, is_agents: bool = False) -> str:
        """The step as the last line of a command's output, in a shell of an agent with who may take it."""
        whose = ", for a person at a terminal" if is_agents and self.action in _FOR_PERSONS else ""
        return f"Next{whose}: {self.as_command(store)}{f'  ({self.why})' if self.why else ''}"


@dataclass(frozen=True, slots=True)
class CandidateState:
    """The candidate that matters most: the newest open one made from the live version, else the newest stale one."""

    id: str
    accepted: bool | None  # a promotion may rest on its test; None before one has decided
    is_stale: bool = False
    is_declined: bool = False
    promotion: NextStep | None = None


@dataclass(frozen=True, slots=True)
class SkillState:
    """What the next step of a skill depends on, and what is listed of it."""

    skill: str
    problem: str = ""  # why its folder cannot be used
    is_gone: bool = False
    n_train: int = 0
    n_val: int = 0
    n_test: int = 0  # held out: no part of a search sees these tasks
    n_waiting: int = 0  # tasks in train until a person has looked at them
    n_trajectories: int = 0
    n_new: int = 0  # recorded attempts since the last proposal
    n_scored: int = 0  # of these, with a score; counted up to what a proposal needs
    n_unscored: int = 0
    open_job: str | None = None  # a proposal or test whose work a host has, or is to take
    n_open: int = 0  # answers of it that are still open
    stopped_run: str | None = None  # the newest run, a replay that has not finished
    is_running: bool = False  # a process advances it
    n_candidates: int = 0  # made from the live version, open or accepted
    worse_than: str = ""  # the version before the live one, where a test says that the live one is worse
    candidate: CandidateState | None = None
    approved: tuple[str, ...] = ()  # candidates, or versions to roll back to, that a person agreed to
    gaps: Mapping[str, list[str]] = field(default_factory=dict)  # tags by the code of the note on them
