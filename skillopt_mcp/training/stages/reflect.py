"""Reflect: the optimizer reads what happened, in minibatches of a kind, and proposes changes.

Minibatches hold failures, or successes, or pairs of a failed and a successful attempt at one task.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from skillopt_mcp.core.calls import Ask, Call, lends_threads
from skillopt_mcp.core.edits import UNSHOWN, Edit, Patch
from skillopt_mcp.core.evidence import Trajectory
from skillopt_mcp.core.limits import PATCH_EDITS
from skillopt_mcp.core.replies import AwareReply, EditReply, ProposalReply
from skillopt_mcp.core.skills import MAIN_FILE, SkillFiles
from skillopt_mcp.documents.edits import clean_note
from skillopt_mcp.prompts.rendering import (
    TRAJECTORY_LIMIT,
    Brief,
    Group,
    Parsed,
    ask_parsed,
    render_contrasts,
    render_trajectories,
)

MAX_PATTERNS = 8
MAX_STRANGE = 8
MAX_DIGITS = 12
NotesFrom = Literal["both", "failure_only"]
_GROUPS: tuple[Group, ...] = ("failure", "success", "contrast")


@dataclass(frozen=True, slots=True)
class Reflection:
    """The patches that came of a batch, and why some minibatches gave none.

    `notes` point at rules that were passed over, each an edit of the appendix; `patterns` are the mistakes seen.
    """

    patches: tuple[Patch, ...]
    unusable: tuple[str, ...]
    notes: tuple[Edit, ...] = ()
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReflectSettings:
    """How to reflect: attempts per minibatch, characters per attempt, and what to ask.

    With `aware`, analysts classify failures as lapses or defects; `notes_from` says which may write notes on lapses.
    Of minibatches of successes at most `n_success` are read (None: all).
    """

    minibatch: int = 8
    limit: int = TRAJECTORY_LIMIT
    failure_only: bool = False
    aware: bool = False
    notes_from: NotesFrom = "both"
    n_success: int | None = None


@dataclass(frozen=True, slots=True)
class _Minibatch:
    group: Group
    n: int
    attempts: tuple[Trajectory, ...]

    @property
    def place(self) -> tuple[int, int]:
        return _GROUPS.index(self.group), self.n


class Awaited(NamedTuple):
    """An attempt at a task that may not have landed yet: `get` waits for it, and returns None where it has no score."""

    task_id: int
    get: Callable[[], Trajectory | None]


def reflect(
    ask: Ask, files: SkillFiles, evidence: Sequence[Trajectory | Awaited], brief: Brief, settings: ReflectSettings,
    all_landed: Callable[[], None] = lambda: None,
) -> Reflection:  # fmt: skip
    """Return a patch per minibatch of failures (hard is 0), successes and contrasts.

    What has no score is neither. The draw decides the order in which attempts are taken, and a minibatch is read once
    its own members have landed; `all_landed` is called when all have. Every edit carries the ids of the trajectories of
    its minibatch.
    """
    _, model = brief.form.analyst_reply(aware=settings.aware)
    if brief.budget < 1:
        all_landed()
        return Reflection((), ())

    def ask_for(chosen: Sequence[_Minibatch]) -> list[Parsed[ProposalReply]]:
        calls = [_call(files, each, brief, settings) for each in chosen]
        return ask_parsed(ask, calls, model, lambda _, reply: brief.form.problem(files, reply))

    minibatches = _minibatches(evidence, brief, settings)
    if lends_threads(ask):
        asked = [(each, ask.submit(partial(ask_for, [each]))) for each in minibatches]
        all_landed()
        replied = sorted(((each, future.result()[0]) for each, future in asked), key=lambda pair: pair[0].place)
    else:
        together = sorted(minibatches, key=lambda each: each.place)
        all_landed()
        replied = list(zip(together, ask_for(together), strict=True))
    outcomes = [_read(each, reply, brief, settings) for each, reply in replied]
    return Reflection(
        patches=tuple(patch for each in outcomes for patch in each.patches),
        unusable=tuple(note for each in outcomes for note in each.unusable),
        notes=tuple(note for each in outcomes for note in each.notes),
        patterns=tuple(pattern for each in outcomes for pattern in each.patterns)[:MAX_PATTERNS],
    )


def _minibatches(
    evidence: Sequence[Trajectory | Awaited], brief: Brief, settings: ReflectSettings
) -> Iterator[_Minibatch]:
    """Yield each minibatch as soon as it is full, and the others at the end."""
    tasks = [-1 - n if each.task_id is None else each.task_id for n, each in enumerate(evidence)]
    at_task: dict[int, list[int]] = {}
    for n, task in enumerate(tasks):
        at_task.setdefault(task, []).append(n)
    waiting: dict[Group, list[tuple[Trajectory, ...]]] = {name: [] for name in _GROUPS}
    n_full, paired = Counter[Group](), set[int]()

    def fill(name: Group) -> Iterator[_Minibatch]:
        units, waiting[name] = waiting[name], []
        if units and not (name == "success" and n_full[name] == settings.n_success):
            yield _Minibatch(name, n_full[name], tuple(each for unit in units for each in unit))
            n_full[name] += 1

    order = list(range(len(evidence)))
    random.Random(brief.draw).shuffle(order)
    for at in order:
        # The first failed and the first successful attempt at a task that has both are read as a pair.
        landed = {n: each for n in at_task[tasks[at]] if (each := _get_landed(evidence[n])) and each.hard is not None}
        firsts = {hard: next((n for n, each in landed.items() if each.hard is hard), None) for hard in (False, True)}
        failed, succeeded = firsts[False], firsts[True]
        name: Group = "contrast"
        if failed is not None and succeeded is not None and tasks[at] >= 0 and at in (failed, succeeded):
            if tasks[at] in paired:
                continue
            paired.add(tasks[at])
            unit: tuple[Trajectory, ...] = (landed[failed], landed[succeeded])
        elif at in landed and not (landed[at].hard and settings.failure_only):
            name, unit = "success" if landed[at].hard else "failure", (landed[at],)
        else:
            continue
        waiting[name].append(unit)
        if len(waiting[name]) == (max(1, settings.minibatch // 2) if name == "contrast" else settings.minibatch):
            yield from fill(name)
    for name in _GROUPS:
        yield from fill(name)


def _get_landed(each: Trajectory | Awaited) -> Trajectory | None:
    return each.get() if isinstance(each, Awaited) else each


def _is_aware(minibatch: _Minibatch, settings: ReflectSettings) -> bool:
    return settings.aware and (minibatch.group != "success" or settings.notes_from == "both")


def _call(files: SkillFiles, minibatch: _Minibatch, brief: Brief, settings: ReflectSettings) -> Call:
    aware = _is_aware(minibatch, settings)
    schema, _ = brief.form.analyst_reply(aware=aware)
    failure, success, contrast = brief.form.analyst
    prompt = {"failure": failure, "success": success, "contrast": contrast}[minibatch.group]
    attempts = minibatch.attempts
    if minibatch.group == "contrast":
        body = render_contrasts(list(zip(attempts[::2], attempts[1::2], strict=True)), settings.limit)
    else:
        body = render_trajectories(attempts, settings.limit)
    instructions = brief.instructions(prompt, "skill_aware") if aware else brief.instructions(prompt)
    question = brief.question(files, instructions, body, schema, tuple(each.id for each in attempts))
    return Call("optimizer", "reflect", question, f"{brief.draw}/{minibatch.group}{minibatch.n}")


def _read(minibatch: _Minibatch, parsed: Parsed[ProposalReply], brief: Brief, settings: ReflectSettings) -> Reflection:
    """Return the reflection that one analyst's reply is."""
    reply, name = parsed.value, minibatch.group
    if reply is None:
        return Reflection((), (f"{name} analyst: {parsed.problem}",))
    ids = tuple(each.id for each in minibatch.attempts)
    patterns = (reply.reasoning,) if reply.reasoning and name != "success" else ()
    proposals, notes, unusable = reply.proposals()[:PATCH_EDITS], tuple[Edit, ...](), tuple[str, ...]()
    if isinstance(reply, AwareReply) and _is_aware(minibatch, settings):
        failed = {each.id for each in minibatch.attempts if not each.hard}
        numbers = {each.trajectory for each in reply.classified if each.kind == "lapse"}
        lapses = {id for number, id in enumerate(ids, start=1) if number in numbers}
        notes = _notes(reply, tuple(id for id in ids if id in lapses) or ids)
        if proposals and failed and failed <= lapses:
            unusable, proposals = (f"{name} analyst: changes without a defect behind them were left out",), []
        ids = tuple(id for id in ids if id not in lapses)
    # What is worked into a whole text later, or is one, rests on all that its author saw.
    cited = [_cited(each, minibatch, ids) if brief.mode == "patch" else ids for each in proposals]
    edits = tuple(
        _edit(each, ids, named, from_failure=name != "success") for each, named in zip(proposals, cited, strict=True)
    )
    patches = (Patch(edits, reply.reasoning),) if edits else ()
    return Reflection(patches, unusable, notes, patterns)


def _notes(reply: AwareReply, sources: tuple[str, ...]) -> tuple[Edit, ...]:
    cleaned = [note for text in reply.notes if (note := clean_note(text))]
    return tuple(Edit("append", None, note, MAIN_FILE, sources, cited=sources) for note in dict.fromkeys(cleaned))


def _cited(reply: EditReply, minibatch: _Minibatch, ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return what an edit names of the attempts, and the first numbers that it gives and none of them has."""
    shown = [each.id for each in minibatch.attempts]
    named = {shown[number - 1] for number in reply.evidence if 1 <= number <= len(shown)}
    strange = dict.fromkeys(str(number)[:MAX_DIGITS] for number in reply.evidence if not 1 <= number <= len(shown))
    return (*(id for id in ids if id in named), *(f"{UNSHOWN}{each}" for each in list(strange)[:MAX_STRANGE]))


def _edit(reply: EditReply, sources: tuple[str, ...], cited: tuple[str, ...], *, from_failure: bool) -> Edit:
    return Edit(reply.op, reply.target, reply.content, reply.path, sources, from_failure, cited)
