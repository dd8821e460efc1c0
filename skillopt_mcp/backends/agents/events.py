"""Events: what a command line reports of its work, in one form for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic_core import from_json

from skillopt_mcp.core.calls import ALSO, SKILL, Fault, Message, Rollout, Usage
from skillopt_mcp.documents.frontmatter import body_of
from skillopt_mcp.prompts.rendering import MESSAGE_CHARACTERS, cut_middle

ARRIVED_CHARACTERS = 200
BASE = "Base directory for this skill: "
_LINE_NUMBER = re.compile(r"^ *\d+(?:[\t→:]|  )", re.MULTILINE)


class Event(BaseModel):
    """A part of the output; what we do not read may be anything."""

    model_config = ConfigDict(extra="ignore", frozen=True)


E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class AgentEvents:
    """What a program reported: `answer` is None until the end; `fault` is what it ended in, with the `reason`.

    `models` are those that answered, in the order in which they began to. `loaded` is what the program itself put
    before the model, such as a skill's text; `failed` are the places of calls among the messages whose tool failed.
    `mark` is how a prompt begins that names a skill, "" where none does; `by_itself`: it asked no model. `commands`
    are those of its own prompts, where it lists them.
    """

    answer: str | None = None
    messages: list[Message] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    fault: Fault | None = None
    reason: str = ""
    models: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    failed: set[int] = field(default_factory=set)
    mark: str = ""
    by_itself: bool = False
    commands: list[str] = field(default_factory=list)

    @property
    def served(self) -> str:
        """Return the models that answered as one text."""
        return ALSO.join(dict.fromkeys(self.models))

    def add(self, role: str, content: str, name: str | None = None) -> None:
        """Keep a message."""
        self.messages.append(Message(role, content, name))

    def transcript(self, skill: str | None, request: Rollout) -> tuple[Message, ...]:
        """The messages before the answer, below one that records whether the text of the skill arrived."""
        messages = self.messages
        if messages and messages[-1] == Message("assistant", self.answer or ""):
            messages = messages[:-1]
        if skill is None:
            return tuple(messages or self.messages)
        state = "opened" if self._is_opened(skill, request) else "not opened"
        return (Message(SKILL, state, skill), *messages)

    def _is_opened(self, skill: str, request: Rollout) -> bool:
        if self.mark and request.task.prompt.split(maxsplit=1)[:1] == [self.mark + skill]:
            return True
        bases = [text.partition("\n")[0] for text in self.loaded]
        if any(base.startswith(BASE) and base.rstrip("/").endswith(f"/{skill}") for base in bases):
            return True
        results = [message for message in self.messages if message.role == "tool"]
        forked = f'Skill "{skill}" completed (forked execution)'
        if any(message.name == "Skill" and forked in message.content for message in results):
            return True
        body = body_of(request.files.main.decode("utf-8", "replace"))
        shown = (cut_middle(message.content, MESSAGE_CHARACTERS) for message in results)
        return _is_shown(body, [*self.loaded, *shown])


def parse_event(event: object, model: type[E]) -> E | None:
    """An event as `model`, of its line or the object in it; None when it has another shape, as of other versions."""
    try:
        return model.model_validate_json(event) if isinstance(event, str) else model.model_validate(event)
    except ValidationError:
        return None


def read_objects(output: str) -> Iterator[tuple[str, object]]:
    """Yield the type and the object of each line that is a JSON object with a type; the last line may be torn."""
    for line in output.split("\n"):  # within a text other ends of lines may stand
        if not line.startswith("{"):
            continue
        try:
            value: JsonValue = from_json(line)
        except ValueError:
            continue
        kind = value.get("type") if isinstance(value, dict) else None
        if isinstance(kind, str):
            yield kind, value


def _is_shown(body: str, texts: Sequence[str]) -> bool:
    """Whether a text holds 200 characters in a row of a body, or all of a shorter one; however its lines are numbered.

    Runs of white space count as one blank.
    """
    wanted = " ".join(body.split())
    size = min(ARRIVED_CHARACTERS, len(wanted))
    pieces = {wanted[at : at + size] for at in range(len(wanted) - size + 1)} if size else set()
    for shown in (form for text in texts for form in (text, _LINE_NUMBER.sub("", text))):
        there = " ".join(shown.split())
        if any(there[at : at + size] in pieces for at in range(len(there) - size + 1)):
            return True
    return False
