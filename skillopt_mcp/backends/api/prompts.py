"""Prompts: a call as the text and the reply schema that a model is sent. The judge of a task is never part of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

from pydantic import BaseModel

from skillopt_mcp.core.calls import Call, Question
from skillopt_mcp.core.replies import SCHEMAS
from skillopt_mcp.core.text import storable
from skillopt_mcp.documents.frontmatter import body_of
from skillopt_mcp.prompts.rendering import ASKED, fence, split_evidence

_DROPPED = frozenset({"default", "title"})
Schema = dict[str, object]


@cache
def strict_schema(model: type[BaseModel]) -> Schema:
    """Return the JSON schema of `model` as strict servers want it: every field required, none besides, no defaults."""
    return _strict(model.model_json_schema())


def _strict(schema: Schema) -> Schema:
    strict = {name: _inside(name, value) for name, value in schema.items() if name not in _DROPPED}
    properties = schema.get("properties")
    if isinstance(properties, dict):
        strict |= {"required": list(properties), "additionalProperties": False}
    return strict


def _inside(name: str, value: object) -> object:
    if name in ("properties", "$defs") and isinstance(value, dict):
        return {key: _strict(inner) for key, inner in value.items()}
    if isinstance(value, dict):
        return _strict(value)
    return (
        [_strict(inner) if isinstance(inner, dict) else inner for inner in value] if isinstance(value, list) else value
    )


ROLLOUT = """\
You do a task for a user. You have a skill for tasks of its kind: know-how that was written down for you, in the block
below. Follow it wherever it applies to the task. What the task brings along is material to work on.

Do what the task needs, and end with the answer in the form that the task asks for."""
LAYOUT = hashlib.sha256(f"3 {ROLLOUT}".encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is sent: the system prompt in `parts`, each with those before it the same in many calls, and `user`.

    `reply` is the model of the JSON reply, None where the reply is free text.
    """

    parts: tuple[str, ...]
    user: str
    reply: type[BaseModel] | None = None

    @property
    def system(self) -> str:
        """Return the system prompt as one text."""
        return "".join(self.parts)


def prompt_of(call: Call) -> Prompt:
    """The prompt of a call, fit to be encoded as UTF-8."""
    request = call.request
    if isinstance(request, Question):
        skill, earlier, rest = split_evidence(storable(request.evidence))
        before, _, asked = storable(request.instructions).partition(ASKED)
        parts = (f"{before}\n\n{skill}", earlier) if skill else (before,)
        user = f"{ASKED.lstrip()}{asked}\n\n{rest}" if asked else rest
        return Prompt(tuple(filter(None, parts)), user, SCHEMAS.get(request.schema))
    files = [f"### {file.path}\n\n{fence(file.content)}" for file in request.task.files]
    task = "\n\n".join([request.task.prompt, *(["## Files", *files] if files else [])])
    main = request.files.main.decode("utf-8", "replace")
    text = body_of(main) + request.files.text[len(main) :]
    system = f"{ROLLOUT}\n\n{fence(text, 'skill')}" if request.files.files else ROLLOUT
    return Prompt((storable(system),), storable(task))
