from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from workshop import SEED, Place, go_on_or_start, use

from skillopt_mcp.actions.runs import chosen_tasks, new_run
from skillopt_mcp.actions.tasks import add_environment, add_file, add_tasks, remove_tasks
from skillopt_mcp.backends.environment import Rolling
from skillopt_mcp.backends.world import make_tasks
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.results import Rejected
from skillopt_mcp.core.skills import SplitCounts
from skillopt_mcp.core.tasks import SPLITS, NewTask, Split, Task
from skillopt_mcp.tasks.environments.base import Rolled
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.tasks.splits import DEFAULT_SHARES
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.settings.reading import SplitPlan, split_plan
from skillopt_mcp.workspace.workspace import Workspace

KINDS = ("sum", "sum", "sum", "date")


class Maze:
    """An environment that attempts its tasks itself."""

    name = "maze"
    version = "1"
    task_types = ("maze",)

    def tasks(self, split: Split) -> list[NewTask]:
        judge = parse_judge({"kind": "environment", "name": self.name})
        return [NewTask(f"{split} maze {n}", judge, f"{split}-{n}", tags=("maze",)) for n in range(4)]

    def rollout(self, task: Task, files: object, draw: str) -> Rolled:
        return Rolled("out", True, 1.0)


@pytest.fixture
def tagged(place: Place) -> Workspace:
    """Return a workspace with 120 tasks of two kinds, three quarters of them sums."""
    workspace = place.open()
    tracked = workspace.place.skill(str(place.skill))
    new = [replace(task, tags=(KINDS[n % 4],)) for n, task in enumerate(make_tasks(120, SEED))]
    workspace.store.tasks.add_tasks(tracked.id, new, DEFAULT_SHARES)
    return workspace


def counted(workspace: Workspace, config: Config) -> dict[str, Counter[str]]:
    tasks = chosen_tasks(workspace.models, workspace.place.skill("ledger-clerk"), config)
    return {split: Counter(task.tags[0] for task in tasks if task.split == split) for split in ("train", "val", "test")}


def test_a_limit_keeps_every_kind_of_task_in_its_share(tagged: Workspace) -> None:
    whole = counted(tagged, Config())
    assert [each.total() for each in whole.values()] == [40, 0, 80]
    found = counted(tagged, Config(limit_train=8, limit_test=12))
    for split, n in (("train", 8), ("test", 12)):
        assert found[split].total() == n
        assert abs(found[split]["sum"] - n * whole[split]["sum"] / whole[split].total()) <= 1


def test_the_same_run_goes_on_and_another_begins_anew(tagged: Workspace) -> None:
    config = Config(epochs=1, limit_train=8)
    run = go_on_or_start(tagged, "ledger-clerk", config)
    assert go_on_or_start(tagged, "ledger-clerk", config).id == run.id
    assert go_on_or_start(tagged, "ledger-clerk", Config(epochs=2, limit_train=8)).id != run.id
    tagged.store.runs.set_status(run.id, "stopped")
    assert go_on_or_start(tagged, "ledger-clerk", config).id == run.id
    tagged.store.runs.set_status(run.id, "finished", "{}")
    assert go_on_or_start(tagged, "ledger-clerk", config).id != run.id


def test_an_environment_brings_its_tasks_and_attempts_no_others(tagged: Workspace) -> None:
    added = add_environment(tagged.store, tagged.place, "ledger-clerk", Maze())
    assert (added.added, added.splits.train) == (12, 44)
    assert add_environment(tagged.store, tagged.place, "ledger-clerk", Maze()).duplicates == 12
    assert [each.total() for each in counted(tagged, Config()).values()] == [40, 0, 80]
    use(tagged, Rolling(Maze()))
    assert [each["maze"] for each in counted(tagged, Config()).values()] == [4, 4, 4]
    assert [each.total() for each in counted(tagged, Config()).values()] == [4, 4, 4]


def test_what_a_person_retired_of_an_environment_is_left_out(tagged: Workspace) -> None:
    maze = Maze()
    add_environment(tagged.store, tagged.place, "ledger-clerk", maze)
    remove_tasks(tagged.store, tagged.place, "ledger-clerk", ["train-0", "test-3"], "wrong keys")
    use(tagged, Rolling(maze))
    again = add_environment(tagged.store, tagged.place, "ledger-clerk", maze)
    assert (again.n_removed, again.duplicates, len(again.digests)) == (2, 10, 10)
    run = new_run(tagged.store, tagged.models, tagged.place, "ledger-clerk", Config(), only=again.digests)
    assert len(run.tasks) == 10


def test_an_environment_that_cannot_be_used_adds_nothing(tagged: Workspace) -> None:
    class Changed(Maze):
        def tasks(self, split: Split) -> list[NewTask]:
            return [
                *super().tasks(split),
                replace(super().tasks(split)[0], prompt=f"another {split}", name=f"taken-{split}"),
            ]

    judge = {"kind": "exact", "expected": "1"}
    mine = [{"prompt": f"mine {split}", "judge": judge, "id": f"taken-{split}"} for split in SPLITS]
    add_tasks(tagged.store, tagged.place, "ledger-clerk", mine)
    before = tagged.store.tasks.list_tasks(1)
    with pytest.raises(BadInput, match=r"3 of 15 tasks of the environment 'maze' cannot be used, .* is taken"):
        add_environment(tagged.store, tagged.place, "ledger-clerk", Changed())
    assert tagged.store.tasks.list_tasks(1) == before


def greeted(who: Callable[[Split, int], str], named: Callable[[Split, int], str]) -> Maze:
    class Greeting(Maze):
        def tasks(self, split: Split) -> list[NewTask]:
            old = super().tasks(split)
            return [replace(task, prompt=who(split, n), name=named(split, n)) for n, task in enumerate(old)]

    return Greeting()


@pytest.mark.parametrize(
    ("who", "named", "reason"),
    [
        (
            lambda split, n: f"greet {n} of {split}",
            lambda split, n: f"g{n % 3}",
            r'the environment "maze" calls two train tasks "g0": give each a name of its own',
        ),
        (
            lambda split, n: f"greet {n} of {split}",
            lambda split, n: f"g{n}",
            r'calls a train task and a val task "g0": .* of its own, for instance "val-g0"',
        ),
    ],
)
def test_an_environment_whose_tasks_are_doubles_is_named_and_adds_nothing(
    tagged: Workspace, who: Callable[[Split, int], str], named: Callable[[Split, int], str], reason: str
) -> None:
    before = tagged.store.tasks.list_tasks(1)
    with pytest.raises(BadInput, match=reason):
        add_environment(tagged.store, tagged.place, "ledger-clerk", greeted(who, named))
    assert tagged.store.tasks.list_tasks(1) == before


def questions(path: Path, order: range) -> Path:
    lines = [f'{{"question": "What is {n}?", "answers": ["{n}"]}}\n' for n in order]
    path.write_text("".join(lines))
    return path


def splits_of(workspace: Workspace) -> dict[str, str]:
    return {task.prompt: task.split for task in workspace.store.tasks.list_tasks(1)}


def test_a_ratio_draws_the_splits_by_seed_whatever_the_order_of_the_file(place: Place) -> None:
    drawn = []
    for name, order, seed in (("a", range(100), 42), ("b", range(99, -1, -1), 42), ("c", range(100), 43)):
        workspace = place.open(store=f"{name}.db")
        path = questions(place.folder / f"{name}.jsonl", order)
        added = add_file(workspace.store, workspace.place, str(place.skill), path, SplitPlan(mode="ratio", seed=seed))
        assert (added.splits.train, added.splits.val, added.splits.test) == (20, 10, 70)
        drawn.append(splits_of(workspace))
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_a_folder_of_splits_is_taken_as_it_is(place: Place) -> None:
    workspace = place.open()
    folder = place.folder / "data"
    for split, n in (("train", 4), ("valid_seen", 3), ("test", 2)):
        (folder / split).mkdir(parents=True)
        questions(folder / split / "items.jsonl", range(n * 100, n * 100 + n))
    (folder / "test" / "more.jsonl").write_text('{"question": "bad"}\n')
    added = add_file(workspace.store, workspace.place, str(place.skill), folder, split_plan("split_dir"))
    assert added.splits == SplitCounts(train=4, val=3, test=2)
    assert added.rejected == [
        Rejected(index=9, reason="the question has no answers: give answers, a list of texts any one of which is right")
    ]
    (folder / "test" / "more.jsonl").write_text('{"question": "q", "answers": ["a"], "split": "train"}\n')
    with pytest.raises(BadInput, match='row 3 in test has the split "train"'):
        add_file(workspace.store, workspace.place, str(place.skill), folder, split_plan("split_dir"))
