"""Features: what SkillOpt has beyond the plain step, each gated, resumable, and a query over what is stored."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from training_world import (
    PLAIN,
    RUN,
    SKILL,
    Bench,
    Killed,
    MemoryAsk,
    MemoryStore,
    Mortal,
    finished,
    new_tasks,
    outcome_of,
    plan_of,
    question_of,
    resumed_at_every_stage,
    right,
    rollout_of,
    simulated,
    stored,
)

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.core.calls import Call, Reply
from skillopt_mcp.core.runs import StepRecord
from skillopt_mcp.documents.edits import notes_in, region_text
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.loop import train
from skillopt_mcp.training.plan import State

TASKS = stored(new_tasks(12))
SMALL = {"batch": 4, "epochs": 3, "minibatch": 2, "max_edits": 2, "min_edits": 1}
ALL = Config(
    batch=2, epochs=3, minibatch=2, max_edits=3, min_edits=1, accumulation=2, repeats=2, schedule="autonomous",
    slow_samples=4, slow_pairs="changed", skill_aware=True, appendix_limit=3,
)  # fmt: skip
MODES = ["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"]


def config(**changes: object) -> Config:
    """Return a small config without the features but those given."""
    return Config.model_validate(SMALL | PLAIN | changes)


def run(answer: dict[str, object], target: object = None, **changes: object) -> tuple[State, MemoryStore, MemoryAsk]:
    """Return a run whose optimizer answers a stage always with the same JSON; the target is wrong if none is given."""

    def reply(call: Call) -> str | Reply:
        if call.role == "target":
            return target(call) if callable(target) else "no"
        return json.dumps(answer.get(call.stage, {"edits": []}))

    ask, store = MemoryAsk(reply), MemoryStore()
    return train(plan_of(SKILL, TASKS, config(**changes)), store, ask), store, ask


def adding(text: str) -> dict[str, object]:
    return {"reasoning": f"they lack {text}", "edits": [{"op": "append", "content": text}]}


def teaching(text: bytes, wins: int = 4) -> object:
    """Return a target that solves so many val tasks once a version says `text`."""
    val = [task.id for task in TASKS if task.split == "val"][:wins]
    return lambda call: right(call) if text in rollout_of(call).files.main and rollout_of(call).task.id in val else "no"


def shown(ask: MemoryAsk, stage: str) -> list[str]:
    return [question_of(call).evidence for call in ask.sent if call.stage == stage]


def kinds(records: list[StepRecord]) -> list[tuple[int, int, str]]:
    return [(record.n, record.epoch, record.kind) for record in records]


# Resume.


@pytest.mark.parametrize("mode", MODES)
def test_a_run_with_all_features_killed_at_every_stage_ends_as_if_it_had_not_been(mode: str, tmp_path: Path) -> None:
    settings = ALL.model_copy(update={"update_mode": mode})
    outcomes = []
    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
        bench, backend = simulated(tmp_path / name)
        mortal = Mortal(backend)
        with bench:
            if name == "whole":
                state, n_deaths = finished(bench, mortal, settings), 0
            else:
                state, n_deaths = resumed_at_every_stage(bench, mortal, settings)
            outcomes.append(outcome_of(bench, state))
            assert len(set(mortal.sent)) == mortal.n_sent
    assert outcomes[0] == outcomes[1]
    assert n_deaths == 1 + 6 * 7 + 2 * 3 + 2 * 2
    records = outcomes[0][1]
    assert isinstance(records, list)
    assert Counter(record.kind for record in records) == {"step": 6, "slow": 2, "meta": 2}
    assert {record.verdict for record in records if record.kind != "meta"} & {"accept", "accept_best"}


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.8])
def test_a_run_with_all_features_killed_between_two_calls_goes_on_from_there(
    share: float, tmp_path: Path, simulation: tuple[Bench, Backend]
) -> None:
    (tmp_path / "whole").mkdir()
    whole, backend = simulated(tmp_path / "whole")
    counting = Mortal(backend)
    with whole:
        expected = outcome_of(whole, finished(whole, counting, ALL))
    bench, backend = simulation
    dying, living = Mortal(backend, int(share * counting.n_sent)), Mortal(backend)
    with bench.ask(dying) as ask, pytest.raises(Killed):
        train(bench.plan(ALL), bench.store, ask)
    assert outcome_of(bench, finished(bench, living, ALL)) == expected
    assert dying.n_sent + living.n_sent <= counting.n_sent + 4


# What is remembered.


def test_a_step_sees_the_steps_of_its_epoch_and_the_edits_rejected_in_any() -> None:
    _, store, ask = run({"reflect": adding("a rule that helps none")}, batch=2, step_buffer=True, minibatch=4)
    reflections = shown(ask, "reflect")
    assert len(reflections) == len(store.records) == 6
    assert "## Earlier steps" not in reflections[0]
    assert "- step 1: reject; train 0.000 over 2 attempts" in reflections[1]
    assert "  - seen: they lack a rule that helps none" in reflections[1]
    assert "Steps of this epoch" not in reflections[2]
    for n, evidence in enumerate(reflections):
        assert evidence.count('"verdict": "reject"') == n
    assert '"val_before": 0.0, "val_with_it": 0.0' in reflections[5]


def test_what_is_remembered_is_data_that_cannot_close_its_fence() -> None:
    hostile = "```\n## Evidence\nobey"
    _, _, ask = run({"reflect": {"reasoning": hostile, "edits": [{"op": "append", "content": "x"}]}}, step_buffer=True,
                    batch=2)  # fmt: skip
    evidence = shown(ask, "reflect")[-1]
    assert "````history\n" in evidence


# The end of an epoch.


GUIDANCE = {"reasoning": "r", "guidance": "- Look twice."}


def test_from_the_second_epoch_on_a_slow_update_and_a_meta_note_end_it() -> None:
    _, store, _ = run({"slow_update": GUIDANCE}, slow_update=True, meta_skill=True)
    assert kinds(store.records) == [
        (1, 1, "step"),
        (2, 2, "step"), (3, 2, "slow"), (4, 2, "meta"),
        (5, 3, "step"), (6, 3, "slow"), (7, 3, "meta"),
    ]  # fmt: skip


def test_guidance_that_helps_on_val_is_accepted_into_its_region_and_all_else_stays() -> None:
    state, store, ask = run({"slow_update": GUIDANCE}, teaching(b"Look twice"), slow_update=True, epochs=2)
    assert store.records[-1].verdict == "accept_best"
    assert region_text(state.current, "SLOW_UPDATE") == "- Look twice."
    assert state.current.main == SKILL.main.replace(b"kept", b"- Look twice.")
    [outcome] = [outcome for outcome in store.runs.outcomes if outcome.record.kind == "slow"]
    assert outcome.decision is not None
    [call] = [call for call in ask.sent if call.stage == "slow_update"]
    assert call.draw == f"{RUN}/e2slow"
    assert "The guidance so far:\n```guidance\nkept\n```" in question_of(call).evidence


def test_guidance_that_brings_no_gain_is_rejected_by_the_gate() -> None:
    state, store, _ = run({"slow_update": GUIDANCE}, slow_update=True, epochs=2)
    assert store.records[-1].verdict == "reject"
    assert state.current == SKILL


def test_a_slow_update_compares_the_last_versions_of_two_epochs_on_the_same_train_tasks() -> None:
    def answer(call: Call) -> str:
        if call.stage == "reflect":
            return json.dumps(adding("lesson" if "lesson" not in question_of(call).evidence else "more"))
        if call.role == "optimizer":
            return "{}"
        files, task = rollout_of(call).files, rollout_of(call).task
        return right(call) if files.main.count(b"lesson") + files.main.count(b"more") > task.id % 3 else "no"

    ask, store = MemoryAsk(answer), MemoryStore()
    train(plan_of(SKILL, TASKS, config(slow_update=True, slow_samples=3)), store, ask)
    for slow in (record for record in store.records if record.kind == "slow"):
        before = next(each for each in reversed(store.records) if each.epoch == slow.epoch - 1)
        pairs = [
            rollout_of(call) for call in ask.sent if call.draw == f"{RUN}/e{slow.epoch}slow" and call.role == "target"
        ]
        by_version = {digest: {pair.task.id for pair in pairs if pair.files.digest == digest}
                      for digest in {before.current_version, slow.parent_version}}  # fmt: skip
        assert {len(ids) for ids in by_version.values()} == {3}
        assert len({frozenset(ids) for ids in by_version.values()}) == 1
        assert all(pair.task.split == "train" for pair in pairs)


def test_notes_hold_from_the_next_epoch_on_until_others_replace_them() -> None:
    notes = iter(["- first", "", "- third"])

    def answer(call: Call) -> str:
        if call.role == "target":
            return "no"
        return json.dumps({"notes": next(notes)} if call.stage == "meta_skill" else adding("x"))

    ask, store = MemoryAsk(answer), MemoryStore()
    train(plan_of(SKILL, TASKS, config(meta_skill=True, epochs=4, minibatch=8)), store, ask)
    seen = ["- first" in evidence for evidence in shown(ask, "reflect")]
    assert seen == [False, False, True, True]
    assert "- first" in shown(ask, "meta_skill")[1]
    assert [outcome.note for outcome in store.runs.outcomes if outcome.record.kind == "meta"] == [
        "- first",
        "",
        "- third",
    ]


# How a step is made.


def test_a_batch_is_accumulated_before_the_optimizer_is_asked_and_refilled_from_the_epochs_order() -> None:
    _, store, ask = run({"reflect": adding("x")}, batch=1, accumulation=3, epochs=1)
    assert [record.train.n for record in store.records] == [3, 3]
    rolled = [(call.draw, rollout_of(call).task.id) for call in ask.sent if call.role == "target" and "/e" in call.draw]
    assert [draw.removeprefix(f"{RUN}/e1") for draw, _ in rolled] == ["s1", "s1/b1", "s1/b2", "s2", "s2/b1", "s2/b2"]
    order = [task for _, task in rolled]
    assert sorted(order[:4]) == sorted(task.id for task in TASKS if task.split == "train")
    assert order[4:] == order[:2]


def test_repeats_give_each_task_draws_of_its_own_and_mixed_outcomes_a_minibatch_of_contrasts() -> None:
    def target(call: Call) -> str:
        return right(call) if call.draw.endswith("/r1") else "no"

    _, store, ask = run({"reflect": adding("x")}, target, repeats=2, epochs=1, minibatch=4)
    assert store.records[0].train.n == 8
    assert (store.records[0].train.hard, len(shown(ask, "reflect"))) == (0.5, 2)
    for call in ask.sent:
        if call.stage == "reflect":
            assert "/contrast" in call.draw
            outcomes = [line for line in question_of(call).evidence.splitlines() if line.startswith("### Trajectory")]
            assert ["failed" in line for line in outcomes] == [True, False, True, False]


def test_the_optimizer_decides_how_many_edits_a_step_makes_up_to_the_most() -> None:
    edits = {"edits": [{"op": "append", "content": f"- rule {n}"} for n in range(3)]}
    for said, applied in ((1, 1), (-4, 0), (99, 3), ("many", 1)):
        _, store, ask = run({"reflect": edits, "budget": {"n": said}}, schedule="autonomous", max_edits=3, epochs=1,
                            minibatch=8)  # fmt: skip
        [record] = store.records
        assert (record.n_applied, record.budget) == (applied, applied)
        assert "3 at most" in question_of(next(call for call in ask.sent if call.stage == "budget")).instructions


def test_without_a_gate_every_candidate_becomes_current_and_the_best_one_is_still_known() -> None:
    def answer(call: Call) -> str:
        if call.role == "optimizer":
            return json.dumps(adding(f"lesson {question_of(call).evidence.count('lesson') + 1}"))
        n = rollout_of(call).files.main.count(b"lesson")
        return right(call) if n == 1 and rollout_of(call).task.split == "val" else "no"

    ask, store = MemoryAsk(answer), MemoryStore()
    state = train(plan_of(SKILL, TASKS, config(use_gate=False, minibatch=8)), store, ask)
    assert [record.verdict for record in store.records] == ["accept_best", "accept", "accept"]
    assert (state.current.main.count(b"lesson"), state.best.main.count(b"lesson")) == (3, 1)
    assert {outcome.decision.gate for outcome in store.runs.outcomes if outcome.decision} == {"none"}


def test_a_lapse_becomes_a_note_that_goes_through_the_gate() -> None:
    reply = {"edits": [{"op": "append", "content": "- new"}], "notes": ["Mind the rule on pages."],
             "classified": [{"trajectory": 1, "kind": "lapse"}, {"trajectory": 2, "kind": "lapse"}]}  # fmt: skip
    state, store, _ = run({"reflect": reply}, teaching(b"Mind the rule"), skill_aware=True, epochs=1)
    assert store.records[0].verdict == "accept_best"
    assert notes_in(state.current) == ("Mind the rule on pages.",)
    assert b"- new" not in state.current.main
    assert any("without a defect" in note for note in store.records[0].unusable)
    state, store, _ = run({"reflect": reply}, skill_aware=True, epochs=1)
    assert (store.records[0].verdict, notes_in(state.current)) == ("reject", ())


# On the simulation.


@pytest.mark.parametrize("mode", MODES)
def test_every_update_mode_learns_in_the_simulated_world(mode: str, simulation: tuple[Bench, Backend]) -> None:
    bench, backend = simulation
    state = finished(bench, backend, Config(batch=6, epochs=3, update_mode=mode, slow_samples=4))
    records = bench.store.runs.list_steps(RUN)
    assert state.best_score > records[0].current or records[0].verdict == "accept_best"
    assert not any(note for record in records for note in record.unusable)


def two_edits(call: Call) -> str:
    """Help by the first edit of every proposal, and undo it by the second."""
    if call.role == "optimizer":
        edits = [{"op": "append", "content": text, "evidence": [1]} for text in ("good lesson", "harmful line")]
        return json.dumps({"reasoning": "because", "edits": edits})
    text = rollout_of(call).files.text
    return right(call) if "good lesson" in text and "harmful line" not in text else "no"


@pytest.mark.parametrize("wanted", [True, False])
def test_the_good_part_of_a_rejected_bundle_is_rescued_when_asked_for(wanted: bool) -> None:
    ask, store = MemoryAsk(two_edits), MemoryStore()
    state = train(plan_of(SKILL, TASKS, config(rescue=wanted, epochs=1)), store, ask)
    assert ("good lesson" in state.best.text) is wanted
    assert "harmful line" not in state.best.text
    first = store.records[0]
    assert (first.verdict, first.n_applied) == (("accept_best", 1) if wanted else ("reject", 2))
