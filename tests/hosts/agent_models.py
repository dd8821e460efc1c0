"""Agent models: models on loopback for hosts that work as backends; the next turn follows from the whole request."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from fake_anthropic import Messages
from fake_openai import Responses
from scripted_model import Api, Json, Turn, serving

RESULTS = ("tool_result", "function_call_output")


@dataclass(frozen=True)
class Failure:
    """An error status, with the code and the message of the error."""

    status: int
    code: str
    message: str


@dataclass(frozen=True)
class Asked:
    """One request: what it carries of headers, tools and conversation."""

    headers: dict[str, str]
    body: Json

    @property
    def tools(self) -> list[str]:
        """Return the names of the tools that the model may call."""
        return [tool.get("name") or tool["type"] for tool in self.body.get("tools") or ()]

    @property
    def text(self) -> str:
        """Return all that the model is shown but the tools."""
        shown = [self.body.get(name) for name in ("system", "instructions", "messages", "input")]
        return "\n".join(_texts(shown))

    @property
    def n_results(self) -> int:
        """Return how many tools have answered so far."""
        return sum(kind in RESULTS for kind in _kinds(self.body.get("messages") or self.body["input"]))


Answer = Callable[[Asked], "Turn | Failure | Literal['hang']"]


@dataclass
class AgentModel:
    """A model that answers by `answer`; `asked` keeps all requests. At the end nothing hangs any more."""

    answer: Answer
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)


class _Answering(Api):
    agent: AgentModel

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        if not self.path.partition("?")[0].endswith(("/messages", "/responses")):
            self._json(200, {"input_tokens": 1})
            return
        asked = Asked({name.lower(): value for name, value in self.headers.items()}, body)
        self.agent.asked.append(asked)
        answer = self.agent.answer(asked)
        if isinstance(answer, Failure):
            error = {"type": answer.code, "code": answer.code, "message": answer.message}
            self._json(answer.status, {"type": "error", "error": error})
        elif answer == "hang":
            self.agent.ended.wait()
        else:
            self._stream(self.events(body, answer))


class _Messages(_Answering, Messages):
    """The Messages API."""


class _Responses(_Answering, Responses):
    """The Responses API."""


@contextmanager
def answering(host: str, answer: Answer) -> Iterator[AgentModel]:
    """Serve the model of a host on loopback while the block runs."""
    api = _Responses if host == "codex" else _Messages
    api.agent = AgentModel(answer)
    with serving(api, lambda _: []) as model:
        api.agent.port = model.port
        try:
            yield api.agent
        finally:
            api.agent.ended.set()


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name in ("text", "content", "output"):
            yield from _texts(value.get(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _kinds(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield str(value.get("type"))
        yield from _kinds(value.get("content"))
    elif isinstance(value, list):
        for inner in value:
            yield from _kinds(inner)
