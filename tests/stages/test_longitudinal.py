"""Longitudinal: what the versions of two epochs make of the same tasks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_ask import BRIEF, SKILL, MemoryAsk, question

from skillopt_mcp.core.calls import Call, Reply, Rollout
from skillopt_mcp.core.evidence import PairPolicy
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.documents.edits import region_text
from skillopt_mcp.tasks.judges.kinds.text import Exact
from skillopt_mcp.training.stages.longitudinal import KEPT, VersionComparison, compare_versions, meta_skill, slow_update

OLD = SKILL
NEW = SKILL.replaced(SkillFile(MAIN_FILE, SKILL.main + b"- New.\n"))
CHANGES = ("regressed", "persistent_fail", "improved", "stable_success")
PASSES = {"regressed": "OLD", "persistent_fail": "", "improved": "NEW", "stable_success": "OLD NEW"}


def tasks(*changes: str) -> list[Task]:
    """Return one train task per change, each of which will come to just that."""
    return [
        Task(n, 1, f"t{n}", f"task <{n}> {change}", Exact(expected="yes"), "train", f"d{n}")
        for n, change in enumerate(changes)
    ]


def target(call: Call) -> str:
    """Answer as the task's own prompt has it."""
    assert isinstance(call.request, Rollout)
    version = "NEW" if call.request.files == NEW else "OLD"
    return "yes" if version in PASSES[call.request.task.prompt.rpartition(" ")[2]].split() else "no"


def compared(ask: MemoryAsk, given: list[Task], policy: PairPolicy = "mixed", n: int = 4) -> VersionComparison:
    return compare_versions(ask, (OLD, NEW), given, policy, n=n, draw="r/e2slow")


@given(st.lists(st.sampled_from(CHANGES), min_size=1, max_size=12), st.sampled_from(list(KEPT)), st.integers(1, 5))
def test_a_policy_keeps_its_kinds_and_only_changes_are_looked_for_further(
    changes: list[str], policy: PairPolicy, n: int
) -> None:
    ask = MemoryAsk(target)
    found = compared(ask, tasks(*changes), policy, n)
    assert {pair.change for pair in found.pairs} <= set(KEPT[policy])
    assert len(found.pairs) <= n
    n_tried = len({trial.task.id for trial in found.trials})
    assert len(found.trials) == 2 * n_tried
    if policy == "changed":
        n_changed = sum(change in KEPT["changed"] for change in changes)
        assert len(found.pairs) == min(n, n_changed)
    else:
        assert n_tried == min(n, len(changes))
        assert [len(calls) for calls in ask.rounds] == [2 * n_tried]


def test_the_draw_picks_the_tasks_and_both_versions_share_it() -> None:
    given = tasks(*CHANGES * 5)
    one, again = (compared(MemoryAsk(target), given) for _ in range(2))
    other = compare_versions(MemoryAsk(target), (OLD, NEW), given, "mixed", n=4, draw="r/e3slow")
    assert [trial.task for trial in one.trials] == [trial.task for trial in again.trials]
    assert [trial.task for trial in one.trials] != [trial.task for trial in other.trials]
    assert {trial.draw for trial in one.trials} == {"r/e2slow"}
    assert Counter(trial.task.id for trial in one.trials).most_common(1)[0][1] == 2


def test_a_task_with_a_missing_reply_gives_no_pair() -> None:
    ask = MemoryAsk(lambda call: Reply("", fault="server") if "<1>" in call.request.task.prompt else target(call))  # type: ignore[union-attr]
    assert {pair.before.task_id for pair in compared(ask, tasks(*CHANGES)).pairs} == {0, 2, 3}


def test_the_worst_comes_first_and_stable_successes_show_their_task_alone() -> None:
    found = compared(MemoryAsk(target), tasks(*CHANGES))
    ask = MemoryAsk(lambda call: '{"guidance": "- Mind it."}')
    made = slow_update(ask, found, BRIEF, 12_000)
    evidence = question(ask.sent[0]).evidence
    titles = ["## Regressed", "## Persistent failures", "## Improved", "## Stable"]
    assert [evidence.index(title) for title in titles] == sorted(evidence.index(title) for title in titles)
    assert evidence.count("### Trajectory") == 6
    assert "regressed 1, persistent_fail 1, improved 1, stable_success 1" in evidence
    assert "+- New." in evidence
    assert region_text(made.applied.files, "SLOW_UPDATE") == "- Mind it."
    [edit] = made.patch.edits
    assert set(edit.sources) == {each.id for pair in found.pairs for each in (pair.before, pair.after)}
    assert set(question(ask.sent[0]).refs) == set(edit.sources)


def test_without_a_pair_nothing_is_asked_and_the_skill_stays() -> None:
    ask = MemoryAsk(target)
    made = slow_update(ask, compared(ask, tasks("stable_success"), "changed"), BRIEF, 12_000)
    assert (made.applied.files, made.patch.edits) == (NEW, ())
    assert {call.role for call in ask.sent} == {"target"}


@pytest.mark.parametrize("reply", ["no", '{"guidance": 3}', '{"guidance": "<!-- APPENDIX_START -->"}'])
def test_unusable_guidance_is_asked_again_twice_and_then_said(reply: str) -> None:
    ask = MemoryAsk(lambda call: target(call) if call.role == "target" else reply)
    made = slow_update(ask, compared(ask, tasks(*CHANGES)), BRIEF, 12_000)
    assert made.applied.files == NEW
    assert made.unusable[0].startswith("slow update: ")
    assert sum(call.role == "optimizer" for call in ask.sent) == 3


def test_notes_are_written_with_and_without_a_comparison() -> None:
    ask = MemoryAsk(lambda call: target(call) if call.role == "target" else '{"notes": " - so "}')
    assert meta_skill(ask, NEW, compared(ask, tasks(*CHANGES)), BRIEF, 12_000) == ("- so", ())
    assert meta_skill(ask, NEW, None, BRIEF, 12_000) == ("- so", ())
    assert "were not compared" in question(ask.sent[-1]).evidence
