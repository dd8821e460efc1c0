"""Reflect: the optimizer reads what happened, in minibatches of failures and of successes, and proposes patches."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.prompts.asking import ask_parsed
from skillopt_mcp.prompts.loading import Prompts, fill
from skillopt_mcp.prompts.rendering import render_evidence, render_trajectories
from skillopt_mcp.records.calls import Ask, Call, Question
from skillopt_mcp.records.edits import Edit, Patch
from skillopt_mcp.records.evidence import Trajectory
from skillopt_mcp.records.replies import EditReply, PatchReply
from skillopt_mcp.records.skills import SkillFiles


@dataclass(frozen=True, slots=True)
class Reflection:
    """The patches that came of a batch, and why some minibatches gave none."""

    patches: tuple[Patch, ...]
    unusable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReflectSettings:
    """How to reflect: this step's edit budget, the size of a minibatch, the prompts, and the draw."""

    budget: int
    minibatch: int
    prompts: Prompts
    draw: str


def reflect(ask: Ask, files: SkillFiles, evidence: Sequence[Trajectory], settings: ReflectSettings) -> Reflection:
    """Return a patch per minibatch of failures (hard is 0) and of successes, of at most the step's budget each.

    What has no score is neither. Minibatches are shuffled by the draw. Every edit carries the ids of its minibatch's
    trajectories.
    """
    if settings.budget < 1:
        return Reflection((), ())
    failures = [each for each in evidence if each.hard is False]
    successes = [each for each in evidence if each.hard]
    calls, sources = [], []
    for name, group in (("failure", failures), ("success", successes)):
        for n, minibatch in enumerate(_minibatches(group, settings, name)):
            calls.append(_question(files, minibatch, settings, f"{settings.draw}/{name}{n}"))
            sources.append((name, tuple(each.id for each in minibatch)))
    patches, unusable = [], []
    for parsed, (name, ids) in zip(ask_parsed(ask, calls, PatchReply), sources, strict=True):
        if parsed.value is None:
            unusable.append(f"{name} analyst: {parsed.problem}")
        elif parsed.value.edits:
            edits = tuple(
                _edit(reply, ids, from_failure=name == "failure") for reply in parsed.value.edits[: settings.budget]
            )
            patches.append(Patch(edits, parsed.value.reasoning))
    return Reflection(tuple(patches), tuple(unusable))


def _minibatches(group: Sequence[Trajectory], settings: ReflectSettings, name: str) -> list[list[Trajectory]]:
    order = list(group)
    random.Random(f"{settings.draw}/{name}").shuffle(order)
    return [order[start : start + settings.minibatch] for start in range(0, len(order), settings.minibatch)]


def _question(files: SkillFiles, minibatch: list[Trajectory], settings: ReflectSettings, draw: str) -> Call:
    failed = not minibatch[0].hard
    prompt = settings.prompts.analyst_failure if failed else settings.prompts.analyst_success
    question = Question(
        instructions=fill(prompt, budget=settings.budget),
        evidence=render_evidence(files.text, render_trajectories(minibatch)),
        schema="patch",
        refs=tuple(each.id for each in minibatch),
    )
    return Call("optimizer", "reflect", question, draw)


def _edit(reply: EditReply, sources: tuple[str, ...], *, from_failure: bool) -> Edit:
    return Edit(reply.op, reply.target, reply.content, reply.path, sources, from_failure)
