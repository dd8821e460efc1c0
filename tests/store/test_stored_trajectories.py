"""Trajectories at rest: stored once, counted on, and none of a held-out task where it would be learned from."""

from dataclasses import replace

from children import SKILL, attempt
from children import record as record_attempts
from filling import JUDGE, add, record

from skillopt_mcp.core.skills import Skill
from skillopt_mcp.core.tasks import NewTask
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.trajectories import NewTrajectory
from tests.processes import Spawn, together


def test_eight_processes_recording_the_same_hundred_attempts_leave_a_hundred_rows(
    store: Store, skill: Skill, spawn: Spawn
) -> None:
    said = together([spawn(record_attempts, store.path, "s1", 100) for _ in range(8)])
    reported = [each for child in said for each in child]
    assert len(reported) == 800
    assert len({(position, trajectory_id) for _, position, trajectory_id, _ in reported}) == 100
    assert sum(added for *_, added in reported) == 100
    assert store.trajectories.count_trajectories(skill.id) == (100, 100)


def test_what_came_since_the_last_proposal_is_new(store: Store, skill: Skill) -> None:
    other = store.skills.track("t", "/t", SKILL)
    store.trajectories.mark_seen(skill.id)
    assert store.trajectories.count_trajectories(skill.id) == (0, 0)
    for position in range(3):
        record(store, skill, attempt("s1", position))
    record(store, other, attempt("s1", 0))
    store.trajectories.mark_seen(skill.id)
    assert store.trajectories.count_trajectories(skill.id) == (3, 0)
    assert record(store, skill, attempt("s1", 3))[2] == 1
    assert store.trajectories.count_trajectories(skill.id) == (4, 1)
    assert store.trajectories.count_trajectories(other.id) == (1, 1)


def test_what_is_new_is_counted_on_when_others_recorded_or_proposed_meanwhile(store: Store, skill: Skill) -> None:
    new = NewTrajectory("p", "a", True, 1.0, "", "[]", "session")
    with Store(store.path) as other:
        counts = [record(who, skill, new)[2] for who in (store, store, other, store, other)]
        other.trajectories.mark_seen(skill.id)
        counts += [record(who, skill, new)[2] for who in (store, other, other, store)]
    assert counts == [1, 2, 3, 4, 5, 1, 2, 3, 4]


def test_reflection_sees_the_newest_scored_attempts_but_none_of_a_held_out_task(store: Store, skill: Skill) -> None:
    splits = ("train", "val", "test")
    add(store, skill, *(NewTask(f"{split} prompt", JUDGE, split=split) for split in splits))
    prompts = ["free", *(f"{split} prompt" for split in splits), " \tval prompt\r\n", "unscored", "test prompt, more"]
    ids = {}
    for position, prompt in enumerate(prompts):
        hard = None if prompt == "unscored" else True
        ids[prompt] = record(store, skill, replace(attempt("s1", position), prompt=prompt, hard=hard, soft=None))[0]
    seen = [ids[prompt] for prompt in ("free", "train prompt", "test prompt, more")]
    assert store.trajectories.recent_trajectories(skill.id, 10) == seen
    assert store.trajectories.recent_trajectories(skill.id, 2) == seen[1:]
    assert [prompt for prompt in prompts if store.trajectories.is_held_out(skill.id, ids[prompt])] == [
        "val prompt", "test prompt", " \tval prompt\r\n",
    ]  # fmt: skip
    other = store.skills.track("t", "/t", SKILL)
    assert store.trajectories.recent_trajectories(other.id, 10) == []
    assert not store.trajectories.is_held_out(other.id, ids["val prompt"])
