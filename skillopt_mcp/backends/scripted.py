"""Scripted: a backend that answers by a script, for tests."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.registry import Resolved, backend
from skillopt_mcp.core.calls import Call, Fault, Message, Reply, Rollout, Stage
from skillopt_mcp.core.errors import BackendError, TurnedDown

Answer = str | Reply | BackendFault
Replies = Callable[[Call], Answer] | Mapping[Stage, Sequence[Answer]]


class ScriptedMessage(BaseModel):
    """A message of a scripted transcript; role tool_call is a call of the tool `name`, `content` its arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    role: str
    content: str = ""
    name: str | None = None


class Rule(BaseModel):
    """An answer for the calls whose skill and task, or instructions and evidence, hold every text in `match`.

    `messages` are what was recorded on the way to it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    match: str | list[str] = ""
    reply: str = ""
    messages: list[ScriptedMessage] = Field(default_factory=list)
    fault: Fault | None = None
    retry_after: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def matches(self, text: str) -> bool:
        """True where the rule is meant for a call of this text."""
        return all(part in text for part in ([self.match] if isinstance(self.match, str) else self.match))

    def answer(self) -> Answer:
        """The answer to a call that the rule is meant for."""
        if self.fault:
            return BackendFault(self.fault, self.reply or self.fault, self.retry_after)
        return Reply(self.reply, tuple(Message(each.role, each.content, each.name) for each in self.messages))


_SCRIPT: TypeAdapter[dict[Stage, list[str | Rule]]] = TypeAdapter(dict[Stage, list[str | Rule]])


class Scripted:
    """Answers by a function of the call, or per stage in the order given, where the last answer serves on.

    `calls` keeps every call it was asked, retries among them; `stages` are those that a script has replies for.
    """

    deferred = False
    stages: frozenset[str] | None = None
    concurrency = 8

    def __init__(self, replies: Replies, latency_ms: float = 0.0, name: str = "scripted") -> None:
        self.name = name
        self.fingerprint = name
        self.calls: list[Call] = []
        self._answer = replies if callable(replies) else _in_order(replies)
        self._latency_s = latency_ms / 1000
        self.is_instant = not self._latency_s

    @property
    def n_calls(self) -> int:
        """The number of calls that it was asked, retries among them."""
        return len(self.calls)

    async def complete(self, call: Call) -> Reply:
        """Return the next answer. Raises BackendFault where the script says so, TurnedDown where it is silent."""
        self.calls.append(call)
        if self._latency_s > 0:
            await asyncio.sleep(self._latency_s)
        answer = self._answer(call)
        if isinstance(answer, BackendFault):
            raise BackendFault(answer.fault, answer.message, answer.retry_after, answer.usage)
        return Reply(answer) if isinstance(answer, str) else answer


@backend(
    "scripted",
    spec="scripted:FILE",
    answers="a file of replies: [a run without a model](#a-run-without-a-model)",
    is_asked=False,
    resolve=lambda text, _: Resolved({"options": text}, is_usual=True),
)
def open_scripted(model: str) -> Scripted:
    """Return the backend for a script file: a JSON object of stage -> list of reply texts, or of rules.

    In a list of rules the first that matches answers. Raises BackendError when the file is not such a script.
    """
    try:
        content = Path(model).read_bytes()
        script = _SCRIPT.validate_json(content)
    except OSError as error:
        raise BackendError(f"script '{model}' cannot be read: {error.strerror}; write scripted:FILE.json") from error
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
        # A wrong rule is not a text either, and that error would come first.
        first = next((each for each in wrong if Rule.__name__ in each["loc"][:-1]), wrong[0])
        where = ".".join(map(str, first["loc"])) or "the file"
        raise BackendError(f"script '{model}' is not usable: {where}: {first['msg']}") from error
    backend = Scripted(_by_rules(script), name=f"scripted:{model}")
    backend.stages = frozenset(script)
    backend.fingerprint = f"scripted:{hashlib.sha256(content).hexdigest()[:16]}"
    return backend


def _in_order(replies: Mapping[Stage, Sequence[Answer]]) -> Callable[[Call], Answer]:
    n_given: dict[Stage, int] = {}

    def answer(call: Call) -> Answer:
        answers = replies.get(call.stage, ())
        if not answers:
            raise TurnedDown(f"the script has no reply for stage '{call.stage}'; add one")
        index = n_given.get(call.stage, 0)
        n_given[call.stage] = index + 1
        return answers[min(index, len(answers) - 1)]

    return answer


def _by_rules(script: Mapping[Stage, Sequence[str | Rule]]) -> Callable[[Call], Answer]:
    texts: dict[Stage, list[Answer]] = {
        stage: [entry for entry in entries if isinstance(entry, str)] for stage, entries in script.items()
    }
    in_order = _in_order(texts)

    def answer(call: Call) -> Answer:
        request = call.request
        text = (
            f"{request.files.text}\n{request.task.prompt}"
            if isinstance(request, Rollout)
            else f"{request.instructions}\n{request.evidence}"
        )
        rules = (entry for entry in script.get(call.stage, ()) if isinstance(entry, Rule))
        found = next((rule for rule in rules if rule.matches(text)), None)
        return found.answer() if found else in_order(call)

    return answer
