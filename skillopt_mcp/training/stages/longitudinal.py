"""Longitudinal: the same train tasks under the versions of two adjacent epochs, and what the optimizer makes of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.core.calls import Ask, Call
from skillopt_mcp.core.edits import Applied, Edit, EditReport, Patch
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Change, Longitudinal, PairPolicy, Trial
from skillopt_mcp.core.replies import MetaSkillReply, SlowUpdateReply
from skillopt_mcp.core.skills import MAIN_FILE, SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.documents.edits import region_text, with_region
from skillopt_mcp.prompts.history import render_longitudinal
from skillopt_mcp.prompts.rendering import Brief, ask_parsed, fence
from skillopt_mcp.training.stages.rollout import PlannedRollout, rollout, trajectories

GUIDED = "written into the block of guidance"
KEPT: dict[PairPolicy, tuple[Change, ...]] = {
    "mixed": ("regressed", "persistent_fail", "improved", "stable_success"),
    "changed": ("regressed", "improved"),
    "unchanged": ("persistent_fail", "stable_success"),
}


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """Two versions on the same tasks: the pairs that the policy keeps, and the trials of all that were tried."""

    previous: SkillFiles
    current: SkillFiles
    pairs: tuple[Longitudinal, ...]
    trials: tuple[Trial, ...]


@dataclass(frozen=True, slots=True)
class Guidance:
    """The files with new guidance, as an edit with its report; or why they are as they were."""

    applied: Applied
    patch: Patch
    unusable: tuple[str, ...] = ()


def compare_versions(
    ask: Ask, versions: tuple[SkillFiles, SkillFiles], tasks: Sequence[Task], policy: PairPolicy, *, n: int, draw: str
) -> VersionComparison:
    """Return pairs on `n` tasks that the draw picks, both versions asked together on one draw.

    With the policy "changed" further tasks are tried, `n` at a time, until there are `n` pairs or no task is left. A
    task without both scores gives no pair.
    """
    order = random.Random(f"{draw}/sample").sample(list(tasks), len(tasks))
    pairs: list[Longitudinal] = []
    trials: list[Trial] = []
    for start in range(0, len(order), n):
        chunk = order[start : start + n]
        found = rollout(ask, [PlannedRollout(files, task, draw) for task in chunk for files in versions])
        trials += found
        pairs += _pairs(found, policy)
        if policy != "changed" or len(pairs) >= n:
            break
    return VersionComparison(*versions, tuple(pairs[:n]), tuple(trials))


def slow_update(ask: Ask, compared: VersionComparison, brief: Brief, limit: int) -> Guidance:
    """Return the current version with new guidance in its region; each pair is shown in `limit` characters."""
    files, pairs = compared.current, compared.pairs
    unchanged = Guidance(Applied(files, ()), Patch(()))
    if not pairs:
        return unchanged
    question = brief.question(
        files, brief.instructions("slow_update"), _body(compared, limit), "slow_update", _sources(pairs)
    )
    [parsed] = ask_parsed(
        ask, [Call("optimizer", "slow_update", question, brief.draw)], SlowUpdateReply,
        lambda _, reply: _problem(files, reply.guidance),
    )  # fmt: skip
    if parsed.value is None:
        return Guidance(unchanged.applied, unchanged.patch, (f"slow update: {parsed.problem}",))
    guidance = parsed.value.guidance.strip()
    if not guidance or guidance == region_text(files, "SLOW_UPDATE"):
        return Guidance(unchanged.applied, Patch((), parsed.value.reasoning))
    edit = Edit("replace", None, guidance, MAIN_FILE, _sources(pairs), cited=_sources(pairs))
    report = EditReport(0, edit.op, edit.path, "applied", detail=GUIDED)
    after = with_region(files, "SLOW_UPDATE", guidance)
    return Guidance(Applied(after, (report,)), Patch((edit,), parsed.value.reasoning))


def meta_skill(
    ask: Ask, files: SkillFiles, compared: VersionComparison | None, brief: Brief, limit: int
) -> tuple[str, tuple[str, ...]]:
    """Return the optimizer's new notes (empty: those so far stay), and why there are none if a reply was unusable."""
    body = _body(compared, limit) if compared else "The versions before and after this epoch were not compared."
    question = brief.question(files, brief.instructions("meta_skill"), body, "meta_skill")
    [parsed] = ask_parsed(ask, [Call("optimizer", "meta_skill", question, brief.draw)], MetaSkillReply)
    if parsed.value is None:
        return "", (f"meta skill: {parsed.problem}",)
    return parsed.value.notes.strip(), ()


def _pairs(trials: Sequence[Trial], policy: PairPolicy) -> list[Longitudinal]:
    both = zip(trials[::2], trials[1::2], strict=True)
    scored = [trajectories(pair) for pair in both]
    pairs = [Longitudinal(*pair) for pair in scored if len(pair) == 2]
    return [pair for pair in pairs if pair.change in KEPT[policy]]


def _body(compared: VersionComparison, limit: int) -> str:
    diff = unified_diff(compared.previous, compared.current, "skill") or "nothing"
    guidance = region_text(compared.current, "SLOW_UPDATE") or "none"
    parts = [f"What the epoch changed:\n{fence(diff, 'diff')}", f"The guidance so far:\n{fence(guidance, 'guidance')}"]
    return "\n\n".join([*parts, render_longitudinal(compared.pairs, limit)])


def _problem(files: SkillFiles, guidance: str) -> str:
    try:
        with_region(files, "SLOW_UPDATE", guidance)
    except BadInput as error:
        return str(error)
    return ""


def _sources(pairs: Sequence[Longitudinal]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.id for pair in pairs for each in (pair.before, pair.after)))
