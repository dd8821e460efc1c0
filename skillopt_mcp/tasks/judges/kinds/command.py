"""Command: the judge that lets a program decide that a person registered.

The program is run by `programs`, behind `ask` like every other question, so its outcome is a stored row that a
resumed run finds again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Self

from pydantic import Field, ValidationError

from skillopt_mcp.core.calls import Ask, Call, Question, Reply
from skillopt_mcp.core.commands import NAME
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Outcome, Score, Unscored, judge
from skillopt_mcp.core.replies import CheckReply
from skillopt_mcp.tasks.judges.base import Asking, quoted

_LIMITS = {
    "time": "ran out of time",
    "processes": "started too many processes",
    "disk": "took too much of the disk",
    "signal": "was ended by a signal",
}


@judge("command")
class CommandJudge(Asking):
    """The registered command `name` exits with 0 in a private folder that holds the task's files and `answer.txt`.

    A person registers commands at a terminal; a task can only name one. The answer also is its standard input.
    """

    name: str = Field(description="registered by the user")

    def score(self, attempt: Attempt) -> Outcome:
        return Unscored(f"the command '{self.name}' has not been run")

    @classmethod
    def score_all(cls, ask: Ask, attempts: Sequence[tuple[Self, Attempt]]) -> list[Outcome]:
        """Return the scores of programs that are run on the answers."""
        replies = ask([check_call(command.name, attempt) for command, attempt in attempts])
        return [command._outcome(reply) for (command, _), reply in zip(attempts, replies, strict=True)]

    def _outcome(self, reply: Reply) -> Outcome:
        """Return passed for exit code 0; a program that could not be run leaves no score."""
        if reply.missing:
            return Unscored(f"command '{self.name}': {reply.text}")
        try:
            ended = CheckReply.model_validate_json(reply.text)
        except ValidationError:
            return Unscored(f"command '{self.name}': its result cannot be read: {quoted(reply.text)}")
        if ended.limit is None and ended.exit is None:
            return Unscored(f"command '{self.name}': it did not end")
        how = _LIMITS[ended.limit] if ended.limit else f"ended with exit code {ended.exit}"
        reason = f"command '{self.name}' {how} [confined: {ended.confined}]"
        if ended.limit is None and ended.exit == 0:
            return Score(hard=True, soft=1.0, reason=reason)
        output = f": {quoted(ended.output[-400:], 400)}" if ended.output.strip() else ""
        return Score(hard=False, soft=0.0, reason=reason + output)

    def check(self) -> None:
        if not re.fullmatch(NAME, self.name):
            raise BadInput(f"command judge: name must be a to z, digits and hyphens, got {quoted(self.name, 40)}")


def check_call(name: str, attempt: Attempt) -> Call:
    """Return the question to a program: its name, and the answer and files as its evidence."""
    evidence = json.dumps({"answer": attempt.answer, "files": attempt.files}, ensure_ascii=False)
    return Call("judge", "check", Question(name, evidence, "check"), attempt.draw)


def unregistered(name: str) -> str:
    """Return that a program is not registered, and what to do."""
    return f'judge program "{name}" is not registered: skillopt-mcp tasks judges add {name} -- PROGRAM'
