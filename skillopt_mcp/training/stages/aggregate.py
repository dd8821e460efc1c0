"""Aggregate: many patches become one, merged level by level, failures first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillopt_mcp.core.calls import Ask, Call
from skillopt_mcp.core.edits import Edit, Patch
from skillopt_mcp.core.replies import PROPOSALS, EditReply, ProposalReply
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.prompts.rendering import Brief, Parsed, ask_parsed, render_rewrites

_ONE_PROMPT = 60_000  # characters of edits
_Key = tuple[str, str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """The one patch, and why some merges were made without the model."""

    patch: Patch
    unusable: tuple[str, ...]


def aggregate(
    ask: Ask, files: SkillFiles, patches: Sequence[Patch], brief: Brief, fan_in: int, *, at_once: bool = False
) -> Aggregation:
    """Return one patch: failures and successes are merged apart, `fan_in` patches at a time, and then together.

    All are merged together `at_once` where one prompt holds them. A single patch passes through with no call. On an
    unusable reply the edits are concatenated without doubles, those from failures first; of whole texts the first
    stays.
    """
    groups = {
        "failure": [patch for patch in patches if _from_failure(patch)],
        "success": [patch for patch in patches if not _from_failure(patch)],
    }
    unusable: list[str] = []
    level = 0
    pool = [edit for patch in patches for edit in patch.edits]
    in_one_call = at_once and len(brief.form.render(pool)) <= _ONE_PROMPT
    while not in_one_call and any(len(group) > 1 for group in groups.values()):
        groups, problems = _merge_level(ask, files, _chunks(groups, fan_in), brief, f"level{level}")
        unusable += problems
        level += 1
    heads = [patch for group in groups.values() for patch in group]
    if len(heads) > 1:
        final, problems = _merge_level(ask, files, [("final", heads)], brief, "final")
        unusable += problems
        heads = final["final"]
    return Aggregation(heads[0] if heads else Patch(()), tuple(unusable))


def _chunks(groups: dict[str, list[Patch]], fan_in: int) -> list[tuple[str, list[Patch]]]:
    return [
        (name, group[start : start + fan_in])
        for name, group in groups.items()
        for start in range(0, len(group), fan_in)
    ]


def _merge_level(
    ask: Ask, files: SkillFiles, chunks: list[tuple[str, list[Patch]]], brief: Brief, level: str
) -> tuple[dict[str, list[Patch]], list[str]]:
    """Return the chunks merged, by the name of their group, and what went wrong; all are asked together."""
    pools = [[edit for patch in chunk for edit in patch.edits] for _, chunk in chunks]
    calls = [
        _call(files, name, pool, brief, f"{brief.draw}/{level}/{name}{n}")
        for n, ((name, chunk), pool) in enumerate(zip(chunks, pools, strict=True))
        if len(chunk) > 1
    ]
    form = brief.form
    replies = iter(ask_parsed(ask, calls, PROPOSALS[form.merge_reply], lambda _, reply: form.problem(files, reply)))
    merged: dict[str, list[Patch]] = {name: [] for name, _ in chunks}
    problems = []
    for (name, chunk), pool in zip(chunks, pools, strict=True):
        if len(chunk) == 1:
            merged[name].append(chunk[0])
            continue
        reply = next(replies)
        patch = _merged(reply, pool)
        if patch is None:
            problems.append(f"merge: {reply.problem or 'the merged patch is empty'}")
        merged[name].append(patch or (chunk[0] if form.whole else _joined(chunk)))
    return merged, problems


def _call(files: SkillFiles, group: str, pool: list[Edit], brief: Brief, draw: str) -> Call:
    failure, success, final = brief.form.merge
    prompt = {"failure": failure, "success": success, "final": final}[group]
    refs = tuple(dict.fromkeys(source for edit in pool for source in edit.sources))
    body = render_rewrites(files, pool) if brief.form.whole else brief.form.render(pool)
    question = brief.question(files, brief.instructions(prompt), body, brief.form.merge_reply, refs)
    return Call("optimizer", "merge", question, draw)


def _joined(patches: Sequence[Patch]) -> Patch:
    """Return all edits of the patches in order; equal ones become one, which keeps the sources of all."""
    edits: dict[_Key, Edit] = {}
    for edit in (edit for patch in patches for edit in patch.edits):
        twin = edits.get(_key(edit), edit)
        sources = tuple(dict.fromkeys((*twin.sources, *edit.sources)))
        cited = tuple(dict.fromkeys((*twin.cited, *edit.cited)))
        from_failure = twin.from_failure or edit.from_failure
        edits[_key(edit)] = replace(twin, sources=sources, cited=cited, from_failure=from_failure)
    return Patch(tuple(edits.values()), "\n".join(filter(None, (patch.reasoning for patch in patches))))


def _merged(reply: Parsed[ProposalReply], pool: list[Edit]) -> Patch | None:
    """Return the model's merged patch, or None when there is none to use.

    An edit stands for the ones that it names and those that are equal to it; when there are none, for the whole pool.
    """
    proposals = reply.value.proposals() if reply.value else []
    if reply.value is None or not proposals:
        return None
    claims = reply.value.parents()
    equal: dict[_Key, list[Edit]] = {}
    for each in pool:
        equal.setdefault(_key(each), []).append(each)
    edits = []
    for n, edit in enumerate(proposals):
        numbers = claims[n] if n < len(claims) else []
        named = [pool[number - 1] for number in numbers if 1 <= number <= len(pool)]
        edits.append(_with_provenance(edit, [*named, *equal.get(_key(edit), [])], pool))
    return Patch(tuple(edits), reply.value.reasoning)


def _with_provenance(edit: EditReply, parents: list[Edit], pool: list[Edit]) -> Edit:
    """Return the merged edit with the sources of the edits that it stands for, or of the pool where it names none."""
    sources = tuple(dict.fromkeys(source for each in parents or pool for source in each.sources))
    from_failure = any(each.from_failure for each in parents or pool)
    # An edit that stands for none of the pool cites nothing.
    cited = tuple(dict.fromkeys(source for each in parents for source in each.cited))
    return Edit(edit.op, edit.target, edit.content, edit.path, sources, from_failure, cited)


def _key(edit: Edit | EditReply) -> _Key:
    return (edit.op, edit.path, edit.target, edit.content)


def _from_failure(patch: Patch) -> bool:
    return any(edit.from_failure for edit in patch.edits)
