"""Retiring: a wrong task makes room for the corrected one, and no verdict is gained by it."""

from __future__ import annotations

import pytest
from workshop import Place

from skillopt_mcp.actions.opening_tests import tasks_to_test
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import chosen_tasks, start_run
from skillopt_mcp.actions.tasks import REASON_CHARACTERS, add_tasks, check_stored, remove_tasks, review_removal
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.core.budgets import Caps
from skillopt_mcp.core.errors import BadInput, Busy, CapReached, NotFound
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.reports.history import history
from skillopt_mcp.reports.lookup import inspect
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.runs import make_plan
from skillopt_mcp.workspace.workspace import Workspace

SKILL = "ledger-clerk"
RIGHT = {"kind": "exact", "expected": "right"}


def of_split(workspace: Workspace, split: str) -> list[Task]:
    return [task for task in workspace.store.tasks.list_in_use(workspace.place.skill(SKILL).id) if task.split == split]


def test_a_corrected_task_takes_the_place_of_the_removed_one(workspace: Workspace) -> None:
    wrong = of_split(workspace, "test")[3]
    found = remove_tasks(workspace.store, workspace.place, SKILL, [wrong.name], "the key was wrong")
    assert (found.removed, found.already, found.splits.test) == ([wrong.name], [], 29)
    same = {"id": "other", "prompt": wrong.prompt, "judge": wrong.judge.model_dump()}
    moved = {"prompt": f" {wrong.prompt}\n", "judge": RIGHT, "split": "val"}
    corrected = {"id": wrong.name, "prompt": wrong.prompt, "judge": RIGHT}
    added = add_tasks(workspace.store, workspace.place, SKILL, [same, moved, corrected])
    assert (added.added, [each.index for each in added.rejected], added.splits.test) == (1, [0, 1], 30)
    both = [task for task in workspace.store.tasks.list_tasks(1) if task.name == wrong.name]
    assert [task.split for task in both] == ["test", "test"]
    assert both[0] == wrong, "a removed task is kept as it was"
    assert verify_store(workspace.store.path).problems == []


def test_nothing_that_begins_later_draws_a_retired_task(workspace: Workspace) -> None:
    gone = {split: of_split(workspace, split)[0] for split in ("train", "val", "test")}
    remove_tasks(workspace.store, workspace.place, SKILL, [task.name for task in gone.values()])
    skill = workspace.place.skill(SKILL)
    assert not {task.id for task in gone.values()} & {
        *(task.id for task in chosen_tasks(workspace.models, skill, Config())),
        *(task.id for task in tasks_to_test(workspace.store, workspace.models, skill.id)),
    }
    assert check_stored(workspace.store, workspace.place, SKILL).n_tasks == 87
    assert "train 29, val 29, test 29; 3 removed" in inspect(workspace.store, workspace.place, SKILL).text


def test_a_test_that_is_under_way_keeps_its_tasks_and_its_verdict_recomputes(
    place: Place, workspace: Workspace
) -> None:
    candidate = place.propose(workspace)
    workspace.models.caps = Caps(calls=8)
    with pytest.raises(CapReached):
        evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate)
    [row] = workspace.store.tests.list_of_skill(1)
    ids = [task.name for task in of_split(workspace, "test")]
    review = review_removal(workspace.store, workspace.place, SKILL, ids)
    assert review.under_way == [f"promotion test {row.id}"]
    assert [each.n_tests for each in review.rows] == [1] * 30
    remove_tasks(workspace.store, workspace.place, SKILL, ids)
    workspace.models.caps = Caps()
    with pytest.raises(BadInput, match="no held-out task"):
        evaluate_candidate(workspace.store, workspace.models, workspace.place, place.propose(workspace, "- Note."))
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate).accepted
    assert workspace.store.tests.list_of_skill(1) == [row]
    assert verify_store(workspace.store.path).problems == []


def test_a_run_that_is_under_way_trains_on_its_tasks_and_tests_on_those_in_use(workspace: Workspace) -> None:
    run = start_run(workspace.store, workspace.models, workspace.place, SKILL, Config(epochs=1, batch=10))
    gone = [of_split(workspace, split)[0] for split in ("train", "val", "test")]
    found = remove_tasks(workspace.store, workspace.place, SKILL, [task.name for task in gone])
    assert found.under_way == [f"run {run.id}"]
    plan = make_plan(workspace.store, workspace.place.secrets, run)
    assert (len(plan.train), len(plan.val)) == (30, 30)
    assert replay(workspace.store, workspace.models, workspace.place, run).verdict is not None
    [row] = workspace.store.tests.list_of_skill(1)
    assert len(row.tasks) == 29
    assert gone[2].id not in row.tasks


def test_a_run_whose_held_out_tasks_are_all_retired_ends_without_a_test(workspace: Workspace) -> None:
    run = start_run(workspace.store, workspace.models, workspace.place, SKILL, Config(epochs=1, batch=10))
    remove_tasks(workspace.store, workspace.place, SKILL, [task.name for task in of_split(workspace, "test")])
    done = replay(workspace.store, workspace.models, workspace.place, run)
    assert (done.status, done.verdict, "no held-out task" in done.reason) == ("finished", None, True)


def test_a_test_that_a_retirement_overtakes_is_not_opened(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = place.propose(workspace)
    wrong = of_split(workspace, "test")[0]
    opened = workspace.store.tests.open

    def overtaken(*given: object) -> object:
        fresh_one = place.open()
        remove_tasks(fresh_one.store, fresh_one.place, SKILL, [wrong.name])
        return opened(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(workspace.store.tests, "open", overtaken)
    with pytest.raises(Busy, match="tasks were removed just when"):
        evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate)
    assert workspace.store.tests.list_of_skill(1) == []


def test_retiring_is_in_the_history_with_its_reason(place: Place, workspace: Workspace) -> None:
    wrong = of_split(workspace, "test")[0]
    remove_tasks(workspace.store, workspace.place, SKILL, [wrong.name], "the key was 41")
    [line] = history(workspace.store, workspace.place, SKILL).retired
    assert line.endswith(f" task '{wrong.name}' (test): the key was 41")


def test_an_unknown_id_retires_none_of_those_named_next_to_it(workspace: Workspace) -> None:
    wrong = of_split(workspace, "test")[0]
    with pytest.raises(NotFound, match="'ledger-clerk' has no task \"nope\": see them with"):
        remove_tasks(workspace.store, workspace.place, SKILL, [wrong.name, "nope"])
    with pytest.raises(BadInput, match="501 characters, at most 500"):
        remove_tasks(workspace.store, workspace.place, SKILL, [wrong.name], "x" * (REASON_CHARACTERS + 1))
    assert workspace.store.retirements.list_retired(1) == {}


def test_a_reason_holds_no_secret(workspace: Workspace) -> None:
    wrong = of_split(workspace, "test")[0]
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    remove_tasks(workspace.store, workspace.place, SKILL, [wrong.name], f"it held {secret}")
    assert secret not in workspace.store.retirements.list_retired(1)[wrong.id].reason
