"""Retiring: tasks with a wrong answer key are taken out of use, on record, and corrected ones may take their place.

Whoever retires what a candidate has failed cheats its gate. So it is a person's alone, it stands for ever, what is
under way keeps its tasks, and every later verdict tells of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadInput, NotFound
from skillopt_mcp.operations.results import Result, SplitCounts
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import storable
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.records.tasks import Split, Task

REASON_CHARACTERS = 500


class RetiringRow(BaseModel):
    """A task to retire; `n_tests` promotion tests have drawn it."""

    id: str
    split: Split
    n_tests: int
    prompt: str


class Retiring(BaseModel):
    """What retiring these tasks would do; what is `under_way` (runs and promotion tests) goes on with them."""

    skill: str
    rows: list[RetiringRow]
    already: list[str]
    under_way: list[str]

    @property
    def n_held_out(self) -> int:
        """Return how many of them are val or test tasks."""
        return sum(row.split != "train" for row in self.rows)

    @property
    def n_drawn(self) -> int:
        """Return how many of them promotion tests have drawn."""
        return sum(row.n_tests > 0 for row in self.rows)


class Retired(Result):
    """The tasks that are drawn no more, by id; `already` were retired before. `splits` counts those left in use."""

    skill: str
    retired: list[str]
    already: list[str]
    under_way: list[str]
    splits: SplitCounts


def review_retirement(workspace: Workspace, skill: str, ids: Sequence[str]) -> Retiring:
    """Return what retiring these tasks would do; nothing is written. Raises NotFound for an id that is no task's."""
    tracked = workspace.kept(skill)
    found, already = _found(workspace, tracked, ids)
    looks = workspace.store.tasks.count_looks(task.id for task in found)
    return Retiring(
        skill=tracked.name,
        rows=[
            RetiringRow(id=each.name, split=each.split, n_tests=looks[each.id], prompt=each.prompt) for each in found
        ],
        already=already,
        under_way=_under_way(workspace, tracked, {task.id for task in found}),
    )


def retire_tasks(workspace: Workspace, skill: str, ids: Sequence[str], reason: str = "") -> Retired:
    """Take tasks out of use, all or none: nothing that begins later draws them, and their ids and prompts are free.

    Runs and promotion tests that are under way keep them. Raises NotFound when one is no task of the skill, BadInput
    when the reason is too long.
    """
    if len(reason) > REASON_CHARACTERS:
        raise BadInput(f"the reason has {len(reason):,} characters, {REASON_CHARACTERS:,} are allowed: shorten it")
    tracked = workspace.kept(skill)
    found, already = _found(workspace, tracked, ids)
    store = workspace.store
    told = workspace.redactor.text(storable(reason))
    retired = set(store.retirements.retire(tracked.id, [task.id for task in found], told))
    done = [task.name for task in found if task.id in retired]
    return Retired(
        skill=tracked.name,
        retired=done,
        already=[*already, *(task.name for task in found if task.id not in retired)],
        under_way=_under_way(workspace, tracked, retired),
        splits=SplitCounts(**store.tasks.count_tasks(tracked.id)),
        next_step="Add the corrected tasks: under the ids or with the prompts of these they join the same splits."
        if done
        else "Nothing changed.",
    )


def _found(workspace: Workspace, skill: Skill, ids: Sequence[str]) -> tuple[list[Task], list[str]]:
    """Return the tasks in use of these ids, and the ids that only retired tasks had."""
    store = workspace.store
    in_use = {task.name: task for task in store.tasks.list_in_use(skill.id)}
    gone = {each.name for each in store.retirements.list_retired(skill.id).values()}
    wanted = list(dict.fromkeys(ids))
    unknown = [each for each in wanted if each not in in_use and each not in gone]
    if unknown:
        raise NotFound(f"'{skill.name}' has no task {quoted(unknown[0])}: see them with 'skillopt-mcp tasks list'")
    return [in_use[each] for each in wanted if each in in_use], [each for each in wanted if each not in in_use]


def _under_way(workspace: Workspace, skill: Skill, task_ids: set[int]) -> list[str]:
    """Return the unfinished runs and undecided promotion tests that hold one of these tasks."""
    store = workspace.store
    runs = [
        f"run {run.id}"
        for run in store.runs.list_runs(skill.id)
        if run.status != "finished" and task_ids.intersection(run.tasks)
    ]
    tests = []
    for row in store.decisions.list_tests(skill.id):
        last = store.decisions.latest_in(row.id)
        if task_ids.intersection(row.tasks) and (last is None or last.verdict == "undecided"):
            tests.append(f"promotion test {row.id}")
    return runs + tests
