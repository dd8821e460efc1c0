"""Gating: what each search gate pays for besides the candidate's trials, and what it keeps of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from training_world import (
    PLAIN,
    SKILL,
    Killed,
    MemoryAsk,
    MemoryStore,
    Mortal,
    new_tasks,
    plan_of,
    right,
    rollout_of,
    simulated,
    stored,
)

from skillopt_mcp.core.calls import Call
from skillopt_mcp.core.evidence import SearchGate
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile
from skillopt_mcp.gates.recompute import recomputed, search_verdict
from skillopt_mcp.tasks.judges.kinds.text import Contains
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.gating import Looked, look, measured
from skillopt_mcp.training.loop import train
from skillopt_mcp.training.plan import State

BETTER = SKILL.replaced(SkillFile(MAIN_FILE, SKILL.main.replace(b"- Read", b"- First read")))
TASKS = stored(new_tasks(18))
VAL = [task.id for task in TASKS if task.split == "val"]


def looked(gate: SearchGate, answer: Callable[[Call], str]) -> tuple[Looked, MemoryAsk]:
    """Return what a gate made of a candidate at the third step, and what was asked for that."""
    plan, ask = plan_of(SKILL, TASKS, Config(gate=gate)), MemoryAsk(answer)
    evaluation = measured(plan, ask, SKILL, is_current=True)
    state = State(2, SKILL, evaluation, SKILL, evaluation)
    ask.sent.clear()
    found = look(plan, ask, state, BETTER)
    assert search_verdict(gate, found.inputs.model_dump_json()) == found.comparison.verdict
    return found, ask


def is_better(call: Call) -> bool:
    """Return whether the candidate is asked."""
    return rollout_of(call).files == BETTER


def test_the_strict_gate_asks_the_candidate_alone() -> None:
    found, ask = looked("strict", lambda call: right(call) if is_better(call) else "no")
    assert found.comparison.verdict == "accept_best"
    assert (len(ask.sent), found.trials) == (6, ())
    assert {call.draw for call in ask.sent} == {"r-test/val"}


def test_the_fresh_gate_measures_what_was_accepted_again() -> None:
    plan, ask = plan_of(SKILL, TASKS, Config(gate="fresh")), MemoryAsk(right)
    measured(plan, ask, BETTER, is_current=False)
    measured(plan, ask, BETTER, is_current=True)
    measured(plan, ask, BETTER, is_current=True)
    assert [call.draw for call in ask.sent] == ["r-test/val"] * 6 + ["r-test/val/current"] * 6


def test_the_paired_gate_asks_both_on_a_draw_of_the_step() -> None:
    found, ask = looked("paired_se", lambda call: right(call) if is_better(call) else "no")
    assert found.comparison.verdict == "accept_best"
    assert {call.draw for call in ask.sent} == {"r-test/val/3"}
    assert len(ask.sent) == 12
    assert len(found.trials) == 6


def test_a_task_that_fell_is_run_again_in_both_arms_before_it_vetoes() -> None:
    def falls(times: int) -> Callable[[Call], str]:
        def answer(call: Call) -> str:
            on_first = rollout_of(call).task.id == VAL[0]
            if is_better(call):
                fails = on_first and (times == 2 or "again" not in call.draw)
                return "no" if fails else right(call)
            return right(call) if on_first else "no"

        return answer

    once, ask = looked("no_regression", falls(1))
    again = [call for call in ask.sent if call.draw == "r-test/val/3/again"]
    assert once.comparison.verdict == "accept_best"
    assert {rollout_of(call).task.id for call in again} == {VAL[0]}
    assert len(again) == len(once.trials) == 2
    assert looked("no_regression", falls(2))[0].comparison.verdict == "reject"


def test_runs_under_every_gate_recompute_and_go_on_from_where_they_stopped(tmp_path: Path) -> None:
    for gate in get_args(SearchGate):
        (tmp_path / gate).mkdir()
        (tmp_path / f"{gate}-whole").mkdir()
        config = Config(gate=gate, epochs=2, batch=3, slow_update=False, meta_skill=False)
        bench, backend = simulated(tmp_path / gate, seed=1)
        with bench:
            with bench.ask(Mortal(backend, 35)) as ask, pytest.raises(Killed):
                train(bench.plan(config), bench.store, ask)
            with bench.ask(backend) as ask:
                state = train(bench.plan(config), bench.store, ask)
            decisions = bench.rows("select gate, verdict, inputs from decision order by id")
        whole, backend = simulated(tmp_path / f"{gate}-whole", seed=1)
        with whole, whole.ask(backend) as ask:
            assert train(whole.plan(config), whole.store, ask).current == state.current
            again = whole.rows("select gate, verdict, inputs from decision order by id")
            # Of a rejected candidate not all tasks need be asked.
            assert [each[: 2 if each[1] == "reject" else 3] for each in again] == [
                each[: 2 if each[1] == "reject" else 3] for each in decisions
            ]
        assert {gate for gate, _, _ in decisions} == {gate}
        assert all(recomputed(str(name), str(inputs)) == verdict for name, verdict, inputs in decisions)
        assert any(verdict != "reject" for _, verdict, _ in decisions)


@pytest.mark.parametrize("gate", get_args(SearchGate))
def test_every_gate_weighs_soft_as_the_run_says(gate: SearchGate) -> None:
    letters = Contains(expected=list("abcdefghij"))
    plan = plan_of(
        SKILL, [replace(task, judge=letters) for task in TASKS], Config(gate=gate, metric="mixed", mixed_weight=0.9)
    )
    ask = MemoryAsk(lambda call: "abcdefgh" if is_better(call) else "abcde")
    evaluation = measured(plan, ask, SKILL, is_current=True)
    found = look(plan, ask, State(2, SKILL, evaluation, SKILL, evaluation), BETTER)
    assert (evaluation.score, found.candidate.score) == (pytest.approx(0.45), pytest.approx(0.72))
    assert (found.comparison.candidate, found.inputs.mixed_weight) == (pytest.approx(0.72), 0.9)


@pytest.mark.parametrize("gate", get_args(SearchGate))
def test_a_run_whose_score_is_perfect_goes_on_under_the_gate_that_asks_again(gate: SearchGate) -> None:
    plan, store = plan_of(SKILL, TASKS, Config(gate=gate, epochs=1, batch=3, **PLAIN)), MemoryStore()
    ask = MemoryAsk(lambda call: right(call) if call.role == "target" else '{"edits": []}')
    train(plan, store, ask, stop_when_perfect=True)
    assert len(store.records) == (plan.n_steps if gate == "paired_se" else 0)
