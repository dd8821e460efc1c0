"""A search ends at the best score there is; a callback may stop a run, whose best version can be tested."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from workshop import SIMULATION, Place

from skillopt_mcp import Config, Progress, Stopped, Trained, evaluate, train
from skillopt_mcp.api import Callback, StageName
from skillopt_mcp.training import loop as training

SURE = f"{SIMULATION},noise=0"
LONG = Config(epochs=9, batch=10, sessions=0, seed=1)
CONFIG = Config(epochs=3, batch=10, sessions=0)


def trained(
    place: Place, store: str, callbacks: Mapping[StageName, Callback] | None = None, config: Config = CONFIG,
    world: str = SIMULATION
) -> Trained:  # fmt: skip
    with place.open(store=store) as workspace:
        if not workspace.store.skills.list_skills():
            place.add_tasks(workspace, 75)
    return train(
        str(place.skill), config=config, target=world, optimizer=world, callbacks=callbacks,
        store=place.store_path.with_name(store),
    )  # fmt: skip


def test_a_callback_stops_a_run_whose_best_version_is_tested_and_which_goes_on(place: Place) -> None:
    def watch(progress: Progress) -> None:
        if progress.n_done == 2:
            raise Stopped("flat")

    with pytest.raises(Stopped, match="flat") as stopped:
        trained(place, "a.db", {"step": watch})
    run_id = stopped.value.run_id
    assert run_id
    workspace = place.open(store="a.db")
    assert (workspace.store.runs.get_run(run_id).status, len(workspace.store.runs.list_steps(run_id))) == ("stopped", 2)
    tested = evaluate(run_id, target=SIMULATION, store=place.store_path.with_name("a.db"))
    assert tested.accepted is not None
    made = workspace.store.candidates.get_candidate(tested.candidate_id)
    assert made.version_id == workspace.store.runs.list_steps(run_id)[-1].best_version
    assert trained(place, "a.db").run_id == run_id


def test_a_search_ends_at_the_best_score_there_is_as_what_is_left_could_change_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = trained(place, "a.db", config=LONG, world=SURE)
    assert result.steps[-1].current == 1.0
    assert all((step.current or 0.0) < 1.0 for step in result.steps[:-1])
    assert result.verdict == "better"
    monkeypatch.setattr(training, "is_topped", lambda *_: False)
    whole = trained(place, "b.db", config=LONG, world=SURE)
    assert len(whole.steps) > len(result.steps)
    assert (whole.candidate_id, whole.verdict, whole.best_skill) == (result.candidate_id, "better", result.best_skill)
    assert whole.usage.n_sent > result.usage.n_sent
