"""A search that a callback ends is over for good: the same end comes about again, and is told wherever the run is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from test_transferring import rows_of, write
from test_verifying import change
from workshop import SIMULATION, Place

from skillopt_mcp import CapReached, Caps, Config, Enough, Progress, StageName, Trained, train
from skillopt_mcp.errors import StoreError
from skillopt_mcp.operations.looks.inspecting import inspect
from skillopt_mcp.operations.programs.hearing import Callback
from skillopt_mcp.operations.runs import replaying
from skillopt_mcp.operations.spending.listing_runs import list_runs
from skillopt_mcp.operations.stores.taking_in import import_history
from skillopt_mcp.operations.stores.transferring import export_history
from skillopt_mcp.operations.stores.verifying import verify_store
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.runs import Conclusion, StepOutcome

SURE = f"{SIMULATION},noise=0"
LONG = Config(epochs=9, batch=10, sessions=0, max_pairs=60)
CONFIG = Config(epochs=3, batch=10, sessions=0, max_pairs=60)


def ended(stage: StageName, after: int = 0, why: str = "flat") -> dict[StageName, Callback]:
    """Return a callback that has had enough at a stage, once so many steps are finished."""

    def hear(progress: Progress) -> None:
        if progress.n_done >= after:
            raise Enough(why)

    return {stage: hear}


def trained(
    place: Place, store: str, callbacks: Mapping[StageName, Callback] | None = None, caps: Caps | None = None,
    *, reuse: bool = False, config: Config = CONFIG, world: str = SIMULATION,
) -> Trained:  # fmt: skip
    with place.open(store=store) as workspace:
        if not workspace.store.skills.list_skills():
            place.add_tasks(workspace, 60)
    return train(
        str(place.skill), None, config, target=world, optimizer=world, callbacks=callbacks,
        store=place.store_path.with_name(store), caps=caps or Caps(), reuse=reuse,
    )  # fmt: skip


def found(result: Trained) -> dict[str, object]:
    """Return what a training has found, without how long it took, and where."""
    return result.model_dump(exclude={"seconds", "used", "store_path", "next_step"})


def the_run(place: Place, store: str = "a.db") -> tuple[Workspace, str]:
    workspace = place.open(store=store)
    [run] = workspace.store.runs.list_runs(workspace.skill(str(place.skill)).id)
    return workspace, run.id


@pytest.mark.parametrize("stage", ["step", "reflect"])
def test_a_search_that_is_ended_after_a_step_ends_alike_in_a_fresh_store(place: Place, stage: StageName) -> None:
    one, other = trained(place, "a.db", ended(stage, 2)), trained(place, "b.db", ended(stage, 2))
    assert found(one) == found(other)
    assert (one.status, one.concluded_after, len(one.steps)) == ("finished", 2, 2)
    assert one.verdict is not None
    workspace, run_id = the_run(place)
    run, [*_, last] = workspace.store.runs.get_run(run_id), workspace.store.runs.list_steps(run_id)
    assert run.conclusion == Conclusion(2, one.n_planned or 0, "by a callback: flat")
    assert one.candidate_id
    assert workspace.store.candidates.get_candidate(one.candidate_id).version_id == last.best_version
    assert verify_store(workspace.store.path).problems == []


def test_a_run_that_has_searched_to_its_end_has_no_search_to_end(place: Place) -> None:
    whole = trained(place, "a.db")
    n_rows = len(whole.steps)
    assert found(trained(place, "b.db", ended("step", n_rows))) == found(whole)
    assert whole.concluded_after is None


def test_a_run_that_stopped_at_a_cap_is_ended_before_it_searches_on(place: Place) -> None:
    with pytest.raises(CapReached):
        trained(place, "a.db", caps=Caps(calls=100))
    result = trained(place, "a.db", ended("baseline"), caps=Caps(calls=900))
    assert (result.concluded_after, result.verdict is None) == (len(result.steps), False)
    assert result.n_sent <= 100 + 2 * result.n_pairs + 16


def test_a_search_that_is_ended_before_its_first_step_spends_nothing(place: Place) -> None:
    result = trained(place, "a.db", ended("baseline"))
    assert (result.concluded_after, result.n_sent, result.verdict, result.candidate_id) == (0, 0, None, None)
    assert result.reason.startswith("its search was ended before the first step of ")
    assert result.best_skill == place.main.read_text()


def test_a_search_ends_at_the_best_score_there_is_as_what_is_left_could_change_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = trained(place, "a.db", config=LONG, world=SURE)
    assert result.steps[-1].current == 1.0
    assert all((step.current or 0.0) < 1.0 for step in result.steps[:-1])
    assert (result.concluded_after, result.verdict) == (len(result.steps), "accept")
    assert len(result.steps) < (result.n_planned or 0)
    workspace, run_id = the_run(place)
    assert str(workspace.store.runs.get_run(run_id).conclusion).endswith(f"of {result.n_planned}")
    monkeypatch.setattr(replaying, "is_topped", lambda *_: False)
    whole = trained(place, "b.db", config=LONG, world=SURE)
    assert len(whole.steps) == result.n_planned
    assert (whole.candidate_id, whole.verdict, whole.best_skill) == (result.candidate_id, "accept", result.best_skill)
    assert whole.n_sent > result.n_sent


def test_a_search_on_val_tasks_that_all_pass_asks_for_nothing_but_that(place: Place) -> None:
    first = trained(place, "a.db", config=LONG, world=SURE)
    place.main.write_text(first.best_skill)
    again = trained(place, "a.db", world=SURE)
    assert (again.concluded_after, again.verdict, again.candidate_id) == (0, None, None)
    assert again.reason.endswith(
        "as the current version scores 1.00 on the val tasks, after which its gate accepts no candidate"
    )
    assert again.n_sent == again.n_tasks.val
    assert (again.baseline, again.baseline_hard, again.baseline_soft) == (1.0, 1.0, 1.0)
    workspace = place.open(store="a.db")
    row = next(row for row in list_runs(workspace).runs if row.id == again.run_id)
    assert row.best == 1.0
    assert "the base version had hard 1.000, soft 1.000" in str(inspect(workspace, again.run_id).text)


def test_a_search_that_ends_before_its_first_step_tells_what_was_measured_and_asks_nothing_for_that(
    place: Place,
) -> None:
    measured = trained(place, "a.db", ended("rollout"))
    assert (measured.concluded_after, measured.steps, measured.n_sent) == (0, [], measured.n_tasks.val)
    whole = trained(place, "b.db")
    told = [(each.baseline, each.baseline_hard, each.baseline_soft) for each in (measured, whole)]
    assert told[0] == told[1]
    assert 0.0 < (measured.baseline or 0.0) < 1.0
    unmeasured = trained(place, "c.db", ended("baseline"))
    assert (unmeasured.n_sent, unmeasured.baseline, unmeasured.baseline_hard) == (0, None, None)


def test_a_gate_that_rolls_out_both_anew_searches_on(place: Place) -> None:
    config = LONG.model_copy(update={"gate": "paired_se"})
    result = trained(place, "a.db", config=config, world=SURE)
    assert (result.concluded_after, result.steps[-1].current) == (None, 1.0)


def test_an_ended_search_never_goes_on(place: Place) -> None:
    in_the_test: dict[StageName, Callback] = {**ended("step", 2), **ended("confirm")}
    with pytest.raises(Enough):
        trained(place, "a.db", in_the_test)
    done = trained(place, "a.db")
    assert (done.status, done.concluded_after, len(done.steps)) == ("finished", 2, 2)
    assert trained(place, "a.db", reuse=True).run_id == done.run_id
    workspace, run_id = the_run(place)
    [*_, last] = workspace.store.runs.list_steps(run_id)
    with pytest.raises(StoreError, match="takes no step more"):
        workspace.store.runs.add_step(run_id, StepOutcome(last.model_copy(update={"n": 3}), ()))


def test_why_a_search_was_ended_is_kept_without_secrets(place: Place) -> None:
    key = "sk-ant-api03-" + "Zm9vYmFyYmF6cXV4Y29ycmVjdGhvcnNlYmF0dGVyeXN0YXBsZQ-abcdefghij"
    trained(place, "a.db", ended("step", 1, f"{key} {'x' * 900}"))
    workspace, run_id = the_run(place)
    conclusion = workspace.store.runs.get_run(run_id).conclusion
    assert conclusion
    assert key not in conclusion.why
    assert len(conclusion.why) < 400


def test_what_ended_a_search_goes_with_the_history_of_its_skill(place: Place, tmp_path: Path) -> None:
    result = trained(place, "a.db", ended("step", 2))
    workspace, _ = the_run(place)
    history = Path(export_history(workspace, str(place.skill), tmp_path / "clerk.history").file)
    [told] = [cast(dict[str, str], row["content"]) for row in rows_of(history) if row.get("what") == "run"]
    assert json.loads(told["conclusion"])[:3] == [2, result.n_planned, "by a callback: flat"]
    other = place.open(store="c.db")
    other.store.permissions.add_root(str(place.root))
    assert import_history(other, history).status == "imported"
    assert import_history(other, history).status == "nothing_new"
    assert import_history(workspace, history).status == "nothing_new"
    assert verify_store(other.store.path).problems == []


def test_a_forged_end_of_a_search_is_seen(place: Place) -> None:
    trained(place, "a.db", ended("step", 2))
    workspace, run_id = the_run(place)
    with pytest.raises(StoreError, match="never rewritten"):
        change(workspace.store.path, "update conclusion set after = 1")
    change(workspace.store.path, "drop trigger conclusion_stands", "update conclusion set after = 1")
    problems = verify_store(workspace.store.path).problems
    assert any(each.startswith(f"table conclusion: {run_id} is not what event ") for each in problems)


def test_a_history_of_an_earlier_release_which_told_of_no_ended_search_brings_nothing(
    place: Place, tmp_path: Path
) -> None:
    trained(place, "a.db", ended("step", 2))
    workspace, _ = the_run(place)
    history = Path(export_history(workspace, str(place.skill), tmp_path / "clerk.history").file)
    rows = rows_of(history)
    for row in rows:
        if row.get("what") == "run":
            for later in ("conclusion", "served"):
                cast(dict[str, object], row["content"]).pop(later, None)
    assert import_history(workspace, write(history, rows)).status == "nothing_new"
