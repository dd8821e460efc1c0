"""Simulated: a backend that plays target and optimizer in a seeded world: deterministic, free, no real model."""

from __future__ import annotations

import asyncio
import hashlib
from functools import cached_property
from random import Random
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillopt_mcp.backends.proposer import Proposer
from skillopt_mcp.backends.world import KINDS, NOISE, Kind, World, amount, right_answer, taught_by, topics_of
from skillopt_mcp.errors import BackendError
from skillopt_mcp.records.calls import Call, Message, Question, Reply, Rollout, Usage
from skillopt_mcp.records.skills import SkillFiles

_MAX_REMEMBERED = 100_000
_FILLER_SHIFTS = 1 << 16
_FRAME = len('[["user",""],["assistant",""]]')
_MOST_SAID = 16_384
# Small words among them, as in any language: without, a text is a run of long words as no transcript ever has it.
_WORDS = (
    "ledger", "entry", "account", "balance", "posted", "carried", "line", "column", "amount", "price", "supplier",
    "to", "of", "in", "a", "is", "at", "by",
)  # fmt: skip


class Settings(BaseModel):
    """What a simulation may be told. All but `latency_ms` is part of its fingerprint."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    world: Kind = "honest"
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    noise: float = Field(default=NOISE, ge=0, le=0.5)
    helpful: float = Field(default=0.6, ge=0, le=1)
    harmful: float = Field(default=0.1, ge=0, le=1)
    latency_ms: float = Field(default=0.0, ge=0, le=600_000)
    trajectory_bytes: int = Field(default=0, ge=0, le=1 << 24)

    def spelled(self, *, complete: bool) -> str:
        """Return the spec: all that identifies the simulation, or only what differs from the defaults."""
        values = self.model_dump(exclude={"world", "latency_ms"}, exclude_unset=not complete)
        return ",".join([f"simulated:{self.world}", *(f"{name}={value}" for name, value in values.items())])


class _TaskFacts(NamedTuple):
    topics: frozenset[str]
    answer: str
    digest: bytes


class _SkillFacts(NamedTuple):
    taught: frozenset[str]
    n_tokens: int


class Simulated:
    """Answers calls as the world has it; equal calls are answered equally, different draws independently."""

    deferred = False
    n_slots = 40

    def __init__(self, settings: Settings) -> None:
        self.name = settings.spelled(complete=False)
        self.fingerprint = settings.spelled(complete=True)
        self._settings = settings
        self._world = World(settings.world, settings.seed, settings.noise)
        self._proposer = Proposer(settings.seed, settings.helpful, settings.harmful)
        self._latency_s = settings.latency_ms / 1000
        self._seed = str(settings.seed).encode()
        self._tasks: dict[str, _TaskFacts] = {}
        self._skills: dict[str, _SkillFacts] = {}

    async def complete(self, call: Call) -> Reply:
        """Return the simulated answer. Raises BackendError for a question the simulation has no answer to."""
        if self._latency_s > 0:
            await asyncio.sleep(self._latency_s)
        request = call.request
        return self._attempt(request, call.draw) if isinstance(request, Rollout) else self._reason(request, call)

    def worst_case(self, call: Call) -> Usage:
        """Return the most that answering `call` can use; a simulation is free."""
        request = call.request
        if isinstance(request, Rollout):
            n_in = self._facts_of(request.files).n_tokens + len(request.task.prompt) // 4
            return Usage(n_in, (self._settings.trajectory_bytes + _MOST_SAID) // 4, 0.0)
        return Usage((len(request.instructions) + len(request.evidence)) // 4, _MOST_SAID, 0.0)

    def _attempt(self, request: Rollout, draw: str) -> Reply:
        prompt = request.task.prompt
        task = self._tasks.get(prompt) or self._task(prompt)
        skill = self._facts_of(request.files)
        key = b"\0".join((self._seed, draw.encode(), request.files.digest.encode(), task.digest))
        chance = hashlib.sha256(key).digest()
        passed = int.from_bytes(chance[:8], "big") < self._world.pass_rate(skill.taught, task.topics) * (1 << 64)
        answer = task.answer if passed else _wrong(task.answer, chance)
        working = self._working(len(prompt) + len(answer), chance)
        usage = Usage(skill.n_tokens + len(prompt) // 4, len(working) // 4, 0.0, self._settings.latency_ms)
        return Reply(answer, (Message("user", prompt), Message("assistant", working + answer)), usage)

    def _working(self, n_taken: int, chance: bytes) -> str:
        opening = "I followed the skill line by line, wrote the calculation down and checked it. The result is "
        size = self._settings.trajectory_bytes - n_taken - _FRAME - len(opening)
        if size <= 0:
            return opening
        shift = int.from_bytes(chance[8:12], "big") % _FILLER_SHIFTS
        return self._filler[shift : shift + size] + opening

    @cached_property
    def _filler(self) -> str:
        words = " ".join(Random("filler").choices(_WORDS, k=_FILLER_SHIFTS // 4))
        size = _FILLER_SHIFTS + self._settings.trajectory_bytes
        return words * (size // len(words) + 1)

    def _task(self, prompt: str) -> _TaskFacts:
        answer = right_answer(self._world.seed, prompt)
        digest = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).digest()
        if len(self._tasks) >= _MAX_REMEMBERED:
            self._tasks.clear()
        return self._tasks.setdefault(prompt, _TaskFacts(topics_of(prompt), answer, digest))

    def _facts_of(self, files: SkillFiles) -> _SkillFacts:
        return self._skills.get(files.digest) or self._skill(files)

    def _skill(self, files: SkillFiles) -> _SkillFacts:
        if len(self._skills) >= _MAX_REMEMBERED:
            self._skills.clear()
        return self._skills.setdefault(files.digest, _SkillFacts(taught_by(files.text), len(files.text) // 4))

    def _reason(self, question: Question, call: Call) -> Reply:
        text = self._proposer.answer(question, call.draw)
        n_asked = len(question.instructions) + len(question.evidence)
        return Reply(text, usage=Usage(n_asked // 4, len(text) // 4, 0.0, self._settings.latency_ms))


def open_simulated(model: str) -> Simulated:
    """Return the simulation that "world,name=value,..." spells; the world is honest when left out.

    Raises BackendError for an unknown world or parameter, or a value out of range.
    """
    world, *pairs = [part.strip() for part in model.split(",")]
    if world and world not in KINDS:
        raise BackendError(f"unknown world '{world}' in 'simulated:{model}'; use one of: {', '.join(KINDS)}")
    values: dict[str, str] = {"world": world} if world else {}
    known = [name for name in Settings.model_fields if name != "world"]
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if name not in known or not equals or name in values:
            raise BackendError(f"cannot use '{pair}' in 'simulated:{model}'; give each once of: {'=, '.join(known)}=")
        values[name] = value
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise BackendError(f"'{first['loc'][0]}={first['input']}' in 'simulated:{model}': {first['msg']}") from error
    if settings.helpful + settings.harmful > 1:
        raise BackendError(f"helpful and harmful in 'simulated:{model}' add up to more than 1; lower one of them")
    return Simulated(settings)


def _wrong(answer: str, chance: bytes) -> str:
    return amount(int(answer.replace(".", "")) + 1 + int.from_bytes(chance[12:16], "big") % 9_999)
