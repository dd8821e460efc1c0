"""Silence: a step of which nothing came is not stored, and is asked again when the run resumes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from training_world import PLAIN, RUN, SKILL, Bench, new_tasks, outcome_of, right, rollout_of, without_ids

from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.base import Backend, BackendFault
from skillopt_mcp.backends.scripted import Answer, Scripted
from skillopt_mcp.core.calls import Call, Fault, Role
from skillopt_mcp.core.errors import Outage
from skillopt_mcp.core.tasks import Split
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.loop import train
from skillopt_mcp.training.plan import State

CONFIG = Config(batch=2, epochs=1, minibatch=2, max_edits=1, min_edits=1, **PLAIN)


pytestmark = pytest.mark.usefixtures("impatient")


def answering(call: Call) -> Answer:
    return "nothing to add" if call.role == "optimizer" else right(call)


def failing_on(split: Split, fault: Fault) -> Scripted:
    def answer(call: Call) -> Answer:
        if call.role == "target" and rollout_of(call).task.split == split:
            return BackendFault(fault, "503 down")
        return answering(call)

    return Scripted(answer)


def run(bench: Bench, backend: Scripted, config: Config = CONFIG) -> State:
    with bench.ask(backend) as ask:
        return train(bench.plan(config), bench.store, ask)


@pytest.mark.parametrize(
    ("split", "fault"), [("train", "server"), ("val", "server"), ("val", "timeout"), ("val", "refusal")]
)
def test_a_run_stops_where_nothing_came_and_goes_on_as_if_that_had_not_been(
    tmp_path: Path, split: Split, fault: Fault
) -> None:
    with (
        Bench(tmp_path / "a", SKILL, new_tasks(12)) as bench,
        Bench(tmp_path / "b", SKILL, new_tasks(12)) as untroubled,
    ):
        down = failing_on(split, fault)
        for _ in range(2):
            with pytest.raises(Outage, match=rf"none of the \d attempts at the {split} tasks .*503 down"):
                run(bench, down)
            assert bench.store.runs.list_steps(RUN) == []
        n_sent = down.n_calls
        with pytest.raises(Outage):
            run(bench, down)
        assert down.n_calls > n_sent
        mended = Scripted(answering)
        state = run(bench, mended)
        as_ever = run(untroubled, Scripted(answering))
        assert outcome_of(bench, without_ids(state)) == outcome_of(untroubled, without_ids(as_ever))
        assert [(step.train.hard, step.n_missing) for step in bench.store.runs.list_steps(RUN)] == [(1.0, 0)] * 2
        n_answered = 4 if split == "train" else 0
        assert bench.store.calls.failures([RUN]).n == down.n_calls - n_answered


def test_a_run_whose_judge_is_down_stops_and_asks_the_judge_alone_again(tmp_path: Path) -> None:
    rubric = parse_judge({"kind": "rubric", "rubric": "Be right."})
    tasks = [replace(task, judge=rubric) if task.split == "train" else task for task in new_tasks(6)]
    target, down = Scripted(answering), Scripted(lambda _: BackendFault("server", "judge down"))
    with Bench(tmp_path, SKILL, tasks) as bench:
        for judge in (down, Scripted(lambda _: json.dumps({"reason": "it is", "grade": "all"}))):
            backends: dict[Role, Backend] = {"target": target, "optimizer": target, "judge": judge}
            with Asker(bench.store, backends, RUN) as ask:
                if judge is down:
                    with pytest.raises(Outage, match="judge down"):
                        train(bench.plan(CONFIG), bench.store, ask)
                else:
                    train(bench.plan(CONFIG), bench.store, ask)
        assert [(step.train.n, step.n_missing) for step in bench.store.runs.list_steps(RUN)] == [(2, 0)]
    assert sum(call.role == "target" for call in target.calls) == 4


@pytest.mark.parametrize("fault", ["refusal", "truncated", "timeout", "context_too_long"])
def test_a_candidate_that_keeps_the_model_from_answering_is_rejected_and_holds_nothing_up(
    tmp_path: Path, fault: Fault
) -> None:
    harm = {"reasoning": "r", "edits": [{"op": "append", "content": "- Say nothing."}]}

    def answer(call: Call) -> Answer:
        if call.role == "optimizer":
            return json.dumps(harm)
        silenced = "Say nothing." in rollout_of(call).files.text
        return BackendFault(fault, "nothing came") if silenced else "wrong"

    with Bench(tmp_path, SKILL, new_tasks(12)) as bench:
        state = run(bench, Scripted(answer))
        assert [(step.verdict, step.candidate_id is None) for step in bench.store.runs.list_steps(RUN)] == [
            ("reject", False)
        ] * 2
        assert state.best == SKILL


def test_a_candidate_whose_evaluation_was_lost_on_the_way_is_asked_for_again(tmp_path: Path) -> None:
    edit = {"reasoning": "r", "edits": [{"op": "append", "content": "- Count twice."}]}

    def answering_with(taught: Answer) -> Scripted:
        def answer(call: Call) -> Answer:
            if call.role == "optimizer":
                return json.dumps(edit)
            if "Count twice." not in rollout_of(call).files.text:
                return "wrong"
            return right(call) if taught == "" else taught

        return Scripted(answer)

    with Bench(tmp_path, SKILL, new_tasks(12)) as bench:
        with pytest.raises(Outage, match="the val tasks"):
            run(bench, answering_with(BackendFault("server", "503 down")))
        assert run(bench, answering_with("")).best != SKILL


def test_an_outage_while_an_accepted_candidate_is_measured_again_stops_the_run(tmp_path: Path) -> None:
    edit = {"reasoning": "r", "edits": [{"op": "append", "content": "- Count twice."}]}

    def answering(again: BackendFault | None) -> Scripted:
        def answer(call: Call) -> Answer:
            if call.role == "optimizer":
                return json.dumps(edit)
            if "Count twice." not in rollout_of(call).files.text:
                return "wrong"
            return again if again and call.draw.endswith("/val/current") else right(call)

        return Scripted(answer)

    fresh = CONFIG.model_copy(update={"gate": "fresh"})
    with Bench(tmp_path, SKILL, new_tasks(12)) as bench:
        with pytest.raises(Outage, match="the val tasks"):
            run(bench, answering(BackendFault("server", "503 down")), fresh)
        state = run(bench, answering(None), fresh)
        assert (state.best != SKILL, state.best_score) == (True, 1.0)
