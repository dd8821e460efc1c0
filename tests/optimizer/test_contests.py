"""Contests: calibration, its draws, what it pays for, and what it leaves in the store."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_world import SKILL, MemoryAsk, new_tasks, right, rollout_of, stored

from skillopt_mcp.gates.recompute import recomputed
from skillopt_mcp.records.calls import Call, Reply
from skillopt_mcp.records.candidates import Decision
from skillopt_mcp.records.edits import Edit
from skillopt_mcp.records.evidence import Trial
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.training.calibration import Contest, drawn_laps, latest_calibration, run_calibration
from skillopt_mcp.training.loop import bisect, rescue

TASKS = stored(new_tasks(12))
HELPS, NOTHING, HARMS = "- It helps.", "- It does nothing.", "- It harms."
EDITS = [Edit("append", None, text) for text in (HELPS, NOTHING, HARMS)]


def version(n: int) -> SkillFiles:
    """Return the n-th version."""
    return SKILL.replaced(SkillFile(MAIN_FILE, SKILL.main + f"- Note {n}.\n".encode()))


@dataclass
class MemoryEvidence:
    """Evidence kept in memory: what contests need of a store."""

    kept: list[Decision] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)

    @property
    def decisions(self) -> MemoryEvidence:
        """Return itself."""
        return self

    def add_evidence(self, decision: Decision, trials: Sequence[Trial]) -> None:
        """Keep a verdict and its trials."""
        self.kept.append(decision)
        self.trials = list(trials)

    def latest(self, skill_id: int, gate: str, base_version: str, version_id: str) -> Decision | None:
        """Return the last verdict."""
        return self.kept[-1] if self.kept else None


def passing(rate: Callable[[Call], float]) -> MemoryAsk:
    """Return a target that passes with this probability, by a chance that draw and request decide."""

    def answer(call: Call) -> str:
        digest = hashlib.sha256(f"{call.draw} {call.request.digest}".encode()).digest()
        chance = int.from_bytes(digest[:8], "big") / (1 << 64)
        return right(call) if chance < rate(call) else "no"

    return MemoryAsk(answer)


def by_text(call: Call) -> float:
    """Return the pass rate of a version by the edits that it holds."""
    text = rollout_of(call).files.text
    return 0.5 + 0.35 * (HELPS in text) - 0.35 * (HARMS in text)


def test_every_lap_draws_one_task_for_all_arms_in_a_random_order_each_on_a_chance_of_its_own() -> None:
    ask = passing(lambda call: 0.5)
    contest = Contest("contest-1", 1, (SKILL, version(1), SKILL), TASKS)
    laps = drawn_laps(contest, ask, range(400))
    by_lap = [ask.sent[n : n + 3] for n in range(0, 1200, 3)]
    assert all(len({rollout_of(call).task.id for call in lap}) == 1 for lap in by_lap)
    assert len({call.draw for call in ask.sent}) == 1200
    firsts = Counter(lap[0].draw.rsplit("/", 1)[1] for lap in by_lap)
    assert all(90 < firsts[place] < 180 for place in "012")
    assert set(Counter(rollout_of(lap[0]).task.id for lap in by_lap)) == {task.id for task in TASKS}
    assert any(lap[0] != lap[2] for lap in laps.scores)


def test_a_lost_reply_is_tried_three_times_and_then_is_none() -> None:
    ask = MemoryAsk(lambda call: Reply("", fault="connection"))
    laps = drawn_laps(Contest("contest-1", 1, (SKILL,), TASKS), ask, range(2))
    assert laps.scores == ((None,), (None,))
    assert [call.draw for call in ask.sent if "/0/0" in call.draw] == [
        "contest-1/0/0", "contest-1/0/0/try1", "contest-1/0/0/try2",
    ]  # fmt: skip


def test_bisection_rescues_the_good_edit_of_a_rejected_bundle() -> None:
    found = Counter(
        rescue(passing(by_text), SKILL, [*EDITS, Edit("append", None, "- More.")], TASKS * 3, draw=f"rescue-{n}")
        for n in range(20)
    )
    assert sum(n for places, n in found.items() if 0 in places) >= 18
    assert sum(n for places, n in found.items() if 2 in places) <= 2


@given(st.sets(st.integers(0, 9)), st.integers(0, 10))
def test_bisection_rescues_what_gains_alone_and_asks_few_questions(good: set[int], n: int) -> None:
    asked: list[tuple[int, ...]] = []

    def gains(part: tuple[int, ...]) -> bool:
        asked.append(part)
        return set(part) <= good

    assert set(bisect(n, gains)) == ({place for place in good if place < n} if n >= 2 else set())
    assert len(asked) <= max(0, 2 * n - 2)
    assert len(set(asked)) == len(asked)


def test_calibration_measures_flips_and_failures_and_pays_only_for_further_pairs() -> None:
    ask, store = passing(lambda call: 0.75), MemoryEvidence()
    contest = Contest("calibrate-1", 1, (SKILL, SKILL), TASKS)
    first = run_calibration(contest, 10, store, ask)
    assert (first.n, len(ask.sent)) == (10, 20)
    more = run_calibration(contest, 300, store, ask)
    assert len(ask.sent) == 600
    assert more.flip_rate == pytest.approx(0.375, abs=0.07)
    assert more.failure_rate == pytest.approx(0.25, abs=0.05)
    assert latest_calibration(store, 1, SKILL.digest) == more
    assert recomputed("calibrate", store.kept[-1].inputs) == "measured"
