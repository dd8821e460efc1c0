"""Calls: one question to a backend, asked once and answered once; the wall that every stage leans on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

from pydantic_core import from_json, to_json

from skillopt_mcp.core.skills import SkillFiles, is_memory
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.core.text import storable

T = TypeVar("T")
HOST = "host"
"""The backend that is the agent which a server serves, and the owner of its open calls: no process, without a lock."""
TOOL_CALL = "tool_call"
EVALUATION = "evaluation"
SKILL = "skill"
MOST_SERVED = 200
CONFIGURATION = "fp_"
"""How the last part of the name that a model is served by begins, where it says how that was set up: OpenAI's
system_fingerprint."""
AGAINST = " against "
"""What joins the fingerprints, and the names, of two models that answer for one text each in its arm of a test."""
ALSO = " + "
"""What joins the names of several models that served one answer."""
Role = Literal["target", "optimizer", "judge"]
Stage = Literal[
    "rollout", "reflect", "merge", "budget", "rank", "rewrite", "slow_update", "meta_skill", "judge", "check", "draft",
]  # fmt: skip
Fault = Literal[
    "rate_limit", "overloaded", "timeout", "connection", "server", "auth", "model_not_found", "context_too_long",
    "unsupported", "refusal", "truncated", "malformed", "empty", "internal", "worker_lost",
]  # fmt: skip
OF_THE_TARGET: frozenset[Fault] = frozenset(
    {"timeout", "refusal", "truncated", "context_too_long", "malformed", "empty"}
)
"""The faults that a target brings about itself, as our own backends see: its attempt at a task has failed."""
LOST: frozenset[Fault] = frozenset({"rate_limit", "overloaded", "server", "connection", "worker_lost"})
"""The faults that say nothing of an answer: the target was not asked, or its vendor or the machine failed."""


class RayOptions(NamedTuple):
    """The Ray cluster that attempts and judge programs are sent to: its address, or "local" for one on this machine.

    One attempt takes `cpus` and `resources` of a node. What workers `need`: "pip" (this version of the package), a
    folder that they work in, or "none", where the package is installed.
    """

    address: str
    cpus: float = 1.0
    resources: tuple[tuple[str, float], ...] = ()
    needs: str = "pip"


@dataclass(frozen=True)
class Rollout:
    """A request to attempt one task with one version of the skill. The task's judge is not for the backend's eyes.

    `memory` is the path of the one of the files that a host reads in every session, where it is not all there is.
    """

    files: SkillFiles
    task: Task
    memory: str | None = None

    @property
    def digest(self) -> str:
        """What identifies the request: version and task are content-addressed, so their digests do."""
        return f"{self.files.digest}:{self.task.digest}"

    def next_to(self, other: SkillFiles | None) -> Rollout:
        """The request with the other document of a run at hand, too: to a skill its memory file, to that the skill."""
        if other is None:
            return self
        memory = next(path for path in (self.files.main_path, other.main_path) if is_memory(path))
        return Rollout(SkillFiles((*self.files.files, *other.files)), self.task, memory)


@dataclass(frozen=True)
class Question:
    """A request to reason: instructions (trusted, ours) and evidence (untrusted, fenced by the prompt).

    `schema` names the reply model (`core.replies`), `refs` what the evidence was made of, for the ledger, and
    `temperature` is None where the backend may choose. The answer is one JSON object; every form but "rubric" may have
    a "reasoning" before, and the instructions say what is wanted in it:

    "patch"        {"edits": [{"op": "append", "target": null, "content": "...", "path": "SKILL.md", "evidence": [1]}]}
                   with op append, insert_after, replace, delete or set_description
    "suggest"      {"suggestions": [{"instruction": "...", "where": "..."}]}
    "rewrite"      {"skill": "..."}
    "aware_patch", "aware_suggest", "aware_rewrite": the same with
                   {"classified": [{"trajectory": 1, "kind": "defect" or "lapse"}], "notes": ["..."]}
    "merge", "merge_suggestions": a patch or suggestions with {"merged_from": [[1, 2]]}; "merge_rewrites": with [1, 2]
    "budget"       {"n": 2}                 "rank"        {"ranking": [2, 1]}
    "slow_update"  {"guidance": "..."}      "meta_skill"  {"notes": "..."}
    "draft"        {"tasks": [{"number": 1, "unfit": "", "prompt": "...", "files": [], "kind": "exact",
                   "expected": ["..."], "accepted": "...", "rejected": "...", "tag": "..."}]}
    "label"        {"labels": [{"number": 1, "label": "accepted", "rejected" or "unknown"}]}
    "rubric"       {"reasoning": "...", "grade": "none", "little", "half", "most" or "all"}
    "points"       {"points": [{"point": 1, "quote": "...", "absence": false, "holds": true}]}
    """

    instructions: str
    evidence: str
    schema: str
    refs: tuple[str, ...] = ()
    temperature: float | None = None

    @cached_property
    def digest(self) -> str:
        """Return the sha256 (hex) over instructions, evidence, schema name and temperature."""
        text = f"{self.schema}\0{self.instructions}\0{self.evidence}"
        if self.temperature is not None:
            text += f"\0{self.temperature}"
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


@lru_cache(maxsize=64)
def make_prefix(draw: str, version: str) -> bytes:
    """The first 6 bytes of the keys of all rollouts of a version on a draw, or with "" of all its questions."""
    run_and_step = draw.split("/", 2)[:2]
    return hashlib.sha256("\0".join((*run_and_step, version)).encode()).digest()[:6]


class Call(NamedTuple):
    """One question; `draw` says whose chance this is ("run/step/..."), so the same draw is never asked twice."""

    role: Role
    stage: Stage
    request: Rollout | Question
    draw: str

    def key(self, fingerprint: str) -> bytes:
        """Return the 32 bytes that name the call when `fingerprint` names the backend: equal keys are one call.

        The first 6 bytes are those of all rollouts of a version in a step, or of all its questions: calls asked
        together lie together in the store's index.
        """
        request = self.request
        parts = "\0".join((self.role, fingerprint, self.stage, request.digest, self.draw))
        version = request.files.digest if isinstance(request, Rollout) else ""
        return make_prefix(self.draw, version) + hashlib.sha256(parts.encode()).digest()[:26]


class Arrival(NamedTuple):
    """What came of a text that was driven through a host: it arrived, the host refused it, or that is not known.

    `words` are the host's own, what it changed, or why it was not checked.
    """

    state: Literal["arrived", "refused", "unchecked"]
    words: str = ""


class Message(NamedTuple):
    """One message of a transcript: `role` is system, user, assistant, tool_call, tool or skill; `name` a tool's name.

    A call of a tool is a message of its own: role TOOL_CALL, the tool's name, and its arguments as a JSON object; what
    the tool returned follows with the role `tool`. A host that had a skill to open records whether it did, "opened" or
    "not opened", with the role SKILL and the skill's name. An environment that scores its own rollouts records the
    score with the role EVALUATION. Only backends write these, so an answer cannot pretend to a call or a score.
    """

    role: str
    content: str
    name: str | None = None


NO_TOOL_CALL = Message("system", "no tool was called")
"""What is recorded of an attempt whose only record is that it called no tool: without a message, that is unknown."""


class Usage(NamedTuple):
    """What a call used: tokens, money in US dollars (None when the price is unknown), latency in milliseconds.

    `tokens_cached` of `tokens_in` were read from the vendor's cache. Where the vendor did not say what was used, the
    tokens are `estimated`: nothing that was set aside for the call is given back on their word.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = None
    latency_ms: float = 0.0
    tokens_cached: int = 0
    estimated: bool = False

    def plus(self, other: Usage) -> Usage:
        """What both used together; the price is unknown when one of them is."""
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Usage(
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            usd,
            self.latency_ms + other.latency_ms,
            self.tokens_cached + other.tokens_cached,
            self.estimated or other.estimated,
        )


NOTHING = Usage(usd=0.0)


class Reply(NamedTuple):
    """The answer to a call. With `fault` it is *missing*, and `text` then says what went wrong.

    `served` is the model that the vendor reports, which may be another than was asked for, such as
    "gpt-5-2026-08-01/fp_abc"; empty where none is reported.
    """

    text: str
    messages: tuple[Message, ...] = ()
    usage: Usage = Usage()
    fault: Fault | None = None
    id: int = 0
    served: str = ""

    @property
    def missing(self) -> bool:
        """Whether the backend gave no usable answer, after all retries."""
        return self.fault is not None


class Ask(Protocol):
    """The one way to a model. Replies come in the order of the calls; a stored reply is returned as it was.

    Raises Waiting when a deferred backend has not answered, BackendError when a backend cannot be used at all.
    """

    def __call__(self, calls: Sequence[Call], /) -> list[Reply]: ...


class SharedAsk(Ask, Protocol):
    """An `Ask` that may lend threads, in which jobs ask at the same time, each for its own calls."""

    @property
    def is_shared(self) -> bool:
        """Whether it lends threads now."""

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Do a job in a thread of its own."""

    def wait_for(self, jobs: Collection[Future[T]]) -> Collection[Future[T]]:
        """Wait until some of these jobs are done, and return these."""

    def drop(self, calls: Sequence[Call]) -> None:
        """Send these calls no more, as far as none of them is claimed: who waits for them gets a CancelledError."""


@runtime_checkable
class Sharing(SharedAsk, Protocol):
    """A `SharedAsk` of its own: it lends threads within `shared`, where a backend takes several calls at once."""

    @property
    def defers(self) -> bool:
        """Whether a backend answers later: then all calls of a stage have to go out together."""

    def slots(self, role: Role) -> int:
        """How many calls at once of a role are worth it; 0 of one that answers later."""

    def shared(self) -> AbstractContextManager[None]:
        """Lend threads; what is under way at the end has a minute to land."""


def lends_threads(ask: Ask) -> TypeGuard[SharedAsk]:
    """Whether jobs may ask at the same time; without that, all calls of a stage go out together."""
    return getattr(ask, "is_shared", False)


class AskNextTo:
    """An `ask` whose attempts see the other document of a run, too, if there is one."""

    def __init__(self, ask: Ask, other: SkillFiles | None) -> None:
        self._ask, self._other = ask, other

    def __call__(self, calls: Sequence[Call], /) -> list[Reply]:
        return self._ask([self._with_other(call) for call in calls])

    @property
    def is_shared(self) -> bool:
        return lends_threads(self._ask)

    def submit(self, job: Callable[[], T]) -> Future[T]:
        assert lends_threads(self._ask)
        return self._ask.submit(job)

    def wait_for(self, jobs: Collection[Future[T]]) -> Collection[Future[T]]:
        assert lends_threads(self._ask)
        return self._ask.wait_for(jobs)

    def drop(self, calls: Sequence[Call]) -> None:
        assert lends_threads(self._ask)
        self._ask.drop([self._with_other(call) for call in calls])

    def _with_other(self, call: Call) -> Call:
        request = call.request
        return call._replace(request=request.next_to(self._other)) if isinstance(request, Rollout) else call


def messages_json(messages: Sequence[Message]) -> str:
    """Return messages as compact JSON: a list of [role, content] or [role, content, name], all of `storable` text."""
    rows = [(m.role, m.content) if m.name is None else (m.role, m.content, m.name) for m in messages]
    return to_json(rows).decode()


def parse_messages(text: str) -> tuple[Message, ...]:
    """Return the messages of a text written by `messages_json`."""
    return tuple(Message(*row) for row in from_json(text)) if text else ()


def storable_messages(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return messages whose text is all `storable`."""
    return tuple(Message(storable(m.role), storable(m.content), m.name and storable(m.name)) for m in messages)


def served_name(*said: object) -> str:
    """What a model is served by as one short text: the parts of its name that are texts, on one line."""
    words = (" ".join(storable(part).split()) for part in said if isinstance(part, str))
    return "/".join(filter(None, words))[:MOST_SERVED]
