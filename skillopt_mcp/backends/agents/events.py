"""Events: what a command line reports of its work, in one form for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic_core import from_json

from skillopt_mcp.prompts.rendering import cut_middle
from skillopt_mcp.records.calls import ALSO, TOOL_CALL, Fault, Message, Usage

MESSAGE_CHARACTERS = 20_000
SKILL = "skill"


class Event(BaseModel):
    """A part of the output; what we do not read may be anything."""

    model_config = ConfigDict(extra="ignore", frozen=True)


E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class AgentEvents:
    """What a program reported: `answer` is None until the end; `fault` is what it ended in, with the `reason`.

    `models` are those that answered, in the order in which they began to.
    """

    answer: str | None = None
    messages: list[Message] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    fault: Fault | None = None
    reason: str = ""
    models: list[str] = field(default_factory=list)

    @property
    def served(self) -> str:
        """Return the models that answered as one text."""
        return ALSO.join(dict.fromkeys(self.models))

    def add(self, role: str, content: str, name: str | None = None) -> None:
        """Keep a message, the middle cut out of a long one."""
        # Arguments stay whole: they are JSON.
        text = content if role == TOOL_CALL else cut_middle(content, MESSAGE_CHARACTERS)
        self.messages.append(Message(role, text, name))

    def transcript(self, skill: str | None) -> tuple[Message, ...]:
        """Return the messages before the answer, below one that records whether the skill was opened."""
        messages = self.messages
        if messages and messages[-1] == Message("assistant", cut_middle(self.answer or "", MESSAGE_CHARACTERS)):
            messages = messages[:-1]
        if skill is None:
            return tuple(messages or self.messages)
        state = "opened" if any(_opens(message, skill) for message in messages) else "not opened"
        return (Message(SKILL, state, skill), *messages)


def parsed(line: str, model: type[E]) -> E | None:
    """Return an event as `model`, None when it has another shape: versions differ, and the last line may be torn."""
    try:
        return model.model_validate_json(line)
    except ValidationError:
        return None


def objects(output: str) -> Iterator[tuple[str, str]]:
    """Yield the type and the text of each line that is a JSON object with a type."""
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        try:
            value: JsonValue = from_json(line)
        except ValueError:
            continue
        kind = value.get("type") if isinstance(value, dict) else None
        if isinstance(kind, str):
            yield kind, line


def _opens(message: Message, skill: str) -> bool:
    if message.role != TOOL_CALL or skill not in message.content:
        return False
    return message.name == "Skill" or "SKILL.md" in message.content
