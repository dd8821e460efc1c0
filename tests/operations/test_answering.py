"""Who answers in a run is frozen with it: no run goes on with another model, or another state of one, unasked."""

from __future__ import annotations

import warnings

import pytest
from workshop import SEED, SIMULATION, Place, go_on_or_start, use

from skillopt_mcp import Caps, Rolled, train
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import describe_left_changed, find_alike, new_run, start_run, unfinished_run
from skillopt_mcp.backends.simulated import Simulated, open_simulated
from skillopt_mcp.core.calls import Call, Reply
from skillopt_mcp.core.errors import CapReached, NotFound, Refused
from skillopt_mcp.core.runs import Run
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import NewTask, Split, Task
from skillopt_mcp.reports.lookup import look_up
from skillopt_mcp.reports.run_report import list_runs
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.progress import Progress
from skillopt_mcp.workspace.runs import describe_changes
from skillopt_mcp.workspace.workspace import Workspace

CONFIG = Config(epochs=1, batch=10, slow_update=False, meta_skill=False)
BEFORE = open_simulated(f"honest,seed={SEED}").fingerprint


class Updated(Simulated):
    """The simulation as a newer version of a program would be: the same name, and another fingerprint."""

    def __init__(self) -> None:
        super().__init__(open_simulated(f"honest,seed={SEED}")._options)
        self.fingerprint = f"{BEFORE},version=2"
        self.heard: list[Call] = []

    async def complete(self, call: Call) -> Reply:
        self.heard.append(call)
        return await super().complete(call)


def stopped(workspace: Workspace) -> Run:
    """Return a run that was interrupted with one step finished."""

    def interrupt(progress: Progress) -> None:
        if progress.stage == "step":
            raise KeyboardInterrupt

    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    with pytest.raises(KeyboardInterrupt):
        replay(workspace.store, workspace.models, workspace.place, run, interrupt)
    assert len(workspace.store.runs.list_steps(run.id)) == 1
    return workspace.store.runs.get_run(run.id)


def test_a_run_does_not_go_on_with_another_state_of_its_model(workspace: Workspace) -> None:
    run = stopped(workspace)
    use(workspace, Updated())
    with pytest.raises(
        Refused, match=f"the target was '{BEFORE}' and is '{BEFORE},version=2' now: start a new run, or"
    ):
        replay(workspace.store, workspace.models, workspace.place, run)
    new = go_on_or_start(workspace, "ledger-clerk", CONFIG)
    assert new.id != run.id
    changed = f"the target was '{BEFORE}' and is '{BEFORE},version=2' now"
    found = describe_left_changed(workspace.store, workspace.models, new)
    assert found == f"run '{run.id}' began with another model, or another state of it: {changed}"
    assert go_on_or_start(workspace, "ledger-clerk", CONFIG).id == new.id
    assert go_on_or_start(workspace, "ledger-clerk", CONFIG, allow_changed=True).id == run.id, "it has come further"


def test_a_run_that_may_go_on_with_another_model_measures_again_and_says_so(workspace: Workspace) -> None:
    run, store, updated = stopped(workspace), workspace.store, Updated()
    [step] = store.runs.list_steps(run.id)
    use(workspace, updated)
    result = replay(workspace.store, workspace.models, workspace.place, run, allow_changed=True)

    change = f"after step 1, the target changed from '{BEFORE}' to '{BEFORE},version=2'"
    assert result.changes == describe_changes(store.runs.get_run(run.id)) == [change]
    assert [row.changes for row in list_runs(workspace.store, workspace.place).runs] == [[change]]
    assert f"\nchanged during the run: {change}\n" in look_up(workspace.store, workspace.place, run.id).text
    current = store.skills.get_files(run.skill_id, step.current_version)
    measured = [call for call in updated.heard if call.draw.startswith(f"{run.id}/val")][:30]
    assert {call.request.files for call in measured} == {current}  # type: ignore[union-attr]
    assert len({call.request.task.id for call in measured}) == 30  # type: ignore[union-attr]


def test_who_comes_and_goes_without_a_finished_step_is_no_change(workspace: Workspace) -> None:
    run, store, original = stopped(workspace), workspace.store, workspace.models.backend("target")
    workspace.models.caps = Caps(calls=store.budgets.get_spent(run.id).calls)
    for version in (2, 3):
        updated = Updated()
        updated.fingerprint = f"{BEFORE},version={version}"
        use(workspace, updated)
        with pytest.raises(CapReached):
            replay(workspace.store, workspace.models, workspace.place, run, allow_changed=True)
        assert updated.heard == []
    assert len(describe_changes(store.runs.get_run(run.id))) == 1, "only the last of the two that did nothing is listed"
    with pytest.raises(CapReached):
        replay(workspace.store, workspace.models, workspace.place, run)
    use(workspace, original)
    workspace.models.caps = Caps(calls=10_000)
    new = new_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    assert describe_left_changed(workspace.store, workspace.models, new) == ""
    assert find_alike(workspace.store, workspace.models, new) == store.runs.get_run(run.id)
    assert replay(workspace.store, workspace.models, workspace.place, run).changes == []
    assert len(store.runs.get_run(run.id).answering) == 1


def test_a_run_is_found_by_its_id_too(workspace: Workspace) -> None:
    run = stopped(workspace)
    start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    assert unfinished_run(workspace.store, workspace.place, run.id).id == run.id
    replay(workspace.store, workspace.models, workspace.place, run)
    with pytest.raises(NotFound, match=f"run '{run.id}' has finished"):
        unfinished_run(workspace.store, workspace.place, run.id)


class Attempted:
    """An environment whose version changes with what its attempts come to."""

    name, task_types = "attempted", ("all",)

    def __init__(self, version: str) -> None:
        self.version = version

    def tasks(self, split: Split) -> list[NewTask]:
        judge = parse_judge({"kind": "environment", "name": self.name})
        return [NewTask(f"{split} {n}", judge, f"{split}-{n}", split) for n in range(6)]

    def rollout(self, task: Task, files: SkillFiles, draw: str) -> Rolled:
        return Rolled("x", hard=False, soft=0.5)


def test_a_program_is_warned_of_a_run_by_another_version_and_may_go_on_with_it(place: Place) -> None:
    def go_on(version: str, calls: int, *, allow_changed: bool = False) -> list[str]:
        return train(
            place.skill, Attempted(version), config=CONFIG, optimizer=SIMULATION, store=place.store_path,
            caps=Caps(calls=calls), allow_changed=allow_changed,
        ).changes  # fmt: skip

    with pytest.raises(CapReached):
        go_on("1", 10)
    said = "the target was 'env:attempted@1' and is 'env:attempted@2'"
    with pytest.warns(UserWarning, match=said), pytest.raises(CapReached):
        go_on("2", 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        change = "before its first step, the target changed from 'env:attempted@1' to 'env:attempted@3'"
        with pytest.raises(CapReached):
            go_on("3", 14, allow_changed=True)
        assert go_on("2", 1000) == []
    runs = Place(place.folder).open().store.runs.list_runs(1)
    assert [describe_changes(run) for run in runs if run.answering[-1].fingerprints["target"].endswith("3")] == [
        [change]
    ]
