"""Aggregate: many patches become one, merged level by level, failures first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillopt_mcp.prompts.asking import Parsed, ask_parsed
from skillopt_mcp.prompts.loading import Prompts, fill
from skillopt_mcp.prompts.rendering import render_edits, render_evidence
from skillopt_mcp.records.calls import Ask, Call, Question
from skillopt_mcp.records.edits import Edit, Patch
from skillopt_mcp.records.replies import EditReply, MergeReply
from skillopt_mcp.records.skills import SkillFiles


@dataclass(frozen=True, slots=True)
class Aggregation:
    """The one patch, and why some merges were made without the model."""

    patch: Patch
    unusable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """How to merge: how many patches at once, the prompts, and the draw."""

    fan_in: int
    prompts: Prompts
    budget: int
    draw: str


def aggregate(ask: Ask, files: SkillFiles, patches: Sequence[Patch], settings: MergeSettings) -> Aggregation:
    """Return one patch: failures and successes are merged apart, side by side, and then together.

    A single patch passes through with no call. On an unusable reply the edits are concatenated without doubles.
    """
    groups = {
        "failure": [patch for patch in patches if _from_failure(patch)],
        "success": [patch for patch in patches if not _from_failure(patch)],
    }
    unusable: list[str] = []
    level = 0
    while any(len(group) > 1 for group in groups.values()):
        groups = _merge_level(ask, files, groups, settings, f"level{level}", unusable)
        level += 1
    heads = [group[0] for group in groups.values() if group]
    if len(heads) > 1:
        heads = _merge_level(ask, files, {"final": heads}, settings, "final", unusable)["final"]
    return Aggregation(heads[0] if heads else Patch(()), tuple(unusable))


def _merge_level(
    ask: Ask,
    files: SkillFiles,
    groups: dict[str, list[Patch]],
    settings: MergeSettings,
    level: str,
    unusable: list[str],
) -> dict[str, list[Patch]]:
    """Return every group merged once, `fan_in` patches at a time; all merges of a level are asked together."""
    chunks = [
        (name, group[start : start + settings.fan_in])
        for name, group in groups.items()
        for start in range(0, len(group), settings.fan_in)
    ]
    pools = [[edit for patch in chunk for edit in patch.edits] for _, chunk in chunks]
    calls = [
        _question(files, pool, settings, f"{settings.draw}/{level}/{name}{n}")
        for n, ((name, chunk), pool) in enumerate(zip(chunks, pools, strict=True))
        if len(chunk) > 1
    ]
    replies = iter(ask_parsed(ask, calls, MergeReply))
    merged: dict[str, list[Patch]] = {name: [] for name in groups}
    for (name, chunk), pool in zip(chunks, pools, strict=True):
        if len(chunk) == 1:
            merged[name].append(chunk[0])
            continue
        reply = next(replies)
        patch = _merged(reply, pool)
        if patch is None:
            unusable.append(f"merge: {reply.problem or 'the merged patch is empty'}")
        merged[name].append(patch or _joined(chunk))
    return merged


def _question(files: SkillFiles, pool: list[Edit], settings: MergeSettings, draw: str) -> Call:
    question = Question(
        instructions=fill(settings.prompts.merge, budget=settings.budget),
        evidence=render_evidence(files.text, render_edits(pool)),
        schema="merge",
        refs=tuple(dict.fromkeys(source for edit in pool for source in edit.sources)),
    )
    return Call("optimizer", "merge", question, draw)


def _joined(patches: Sequence[Patch]) -> Patch:
    """Return all edits of the patches in order; equal ones become one, which keeps the sources of all."""
    edits: dict[tuple[str, str, str | None, str | None], Edit] = {}
    for edit in (edit for patch in patches for edit in patch.edits):
        twin = edits.get(_key(edit), edit)
        sources = tuple(dict.fromkeys((*twin.sources, *edit.sources)))
        edits[_key(edit)] = replace(twin, sources=sources, from_failure=twin.from_failure or edit.from_failure)
    return Patch(tuple(edits.values()), "\n".join(filter(None, (patch.reasoning for patch in patches))))


def _merged(reply: Parsed[MergeReply], pool: list[Edit]) -> Patch | None:
    """Return the model's merged patch, or None when there is none to use."""
    if reply.value is None or not reply.value.edits:
        return None
    claims = reply.value.merged_from
    edits = [
        _with_provenance(edit, pool, claims[n] if n < len(claims) else []) for n, edit in enumerate(reply.value.edits)
    ]
    return Patch(tuple(edits), reply.value.reasoning)


def _with_provenance(edit: EditReply, pool: list[Edit], numbers: list[int]) -> Edit:
    """Return the merged edit with the sources of the edits that it stands for: the equal and the named ones."""
    parents = [pool[number - 1] for number in numbers if 1 <= number <= len(pool)]
    parents += [each for each in pool if _key(each) == _key(edit)]
    sources = tuple(dict.fromkeys(source for each in parents or pool for source in each.sources))
    from_failure = any(each.from_failure for each in parents or pool)
    return Edit(edit.op, edit.target, edit.content, edit.path, sources, from_failure)


def _key(edit: Edit | EditReply) -> tuple[str, str, str | None, str | None]:
    return (edit.op, edit.path, edit.target, edit.content)


def _from_failure(patch: Patch) -> bool:
    return any(edit.from_failure for edit in patch.edits)
