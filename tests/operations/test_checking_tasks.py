"""Checking: a file of tasks and the stored ones by the same rules, and what adding tells by itself."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from workshop import Place

from skillopt_mcp.errors import BadInput, BadSkill, NotFound
from skillopt_mcp.judges.command import register_command
from skillopt_mcp.operations.tasks.adding import add_data_set, add_tasks
from skillopt_mcp.operations.tasks.checking import check_file, check_stored
from skillopt_mcp.operations.tasks.registering import add_command
from skillopt_mcp.operations.tasks.retiring import retire_tasks
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.settings.splitting import split_plan

JUDGE = {"kind": "exact", "expected": "7"}
Row = dict[str, object]


def row(prompt: str, **others: object) -> Row:
    return {"prompt": prompt, "judge": JUDGE, **others}


@pytest.fixture
def file_of(tmp_path: Path) -> Callable[[Sequence[Row]], Path]:
    """Return what writes rows to a file of tasks."""

    def write(rows: Sequence[Row]) -> Path:
        path = tmp_path / "tasks.json"
        path.write_text(json.dumps(list(rows)))
        return path

    return write


@pytest.fixture
def bare(place: Place) -> Workspace:
    """Return a workspace whose store is not there."""
    return place.open(store="none.db")


MISLEADING = [
    row("What is the number?", id="a", split="train"),
    row("And another one?", id="a"),
    row("What is the  Number?", id="b", split="test", judge={"kind": "exact", "expected": "8"}),
    row("Who?", judge={"kind": "environment", "name": "nowhere:x"}),
    row("How many words?", judge={"kind": "length", "min": 1}),
    row("Same?"),
    row("Same?"),
    row(""),
    row("Parted?", split="train"),
    row("Parted?", split="val"),
    row("Same?", judge={"kind": "exact", "expected": "9"}),
]
BY_ROW = [
    "task 2 'a': the id \"a\" is taken by another task: choose another",
    "task 3 'b': the same prompt as 'a', which is in train: what was learned or chosen there is tested here again",
    'task 4: the environment "nowhere:x" is not known here, and nobody else can score the task: correct the name '
    "(known: qa, skillopt) or install the package that has it",
    "task 5: only the form of an answer is judged; such a judge cannot promote alone: add another kind",
    "task 5: the prompt itself passes as an answer: whoever repeats it is right",
    "task 7: it is the same as task 6: remove one",
    "task 8: the prompt is empty: say what the agent is asked to do",
    "task 10: it is the same as task 9, which is in train: it would be missing in val (a leak)",
]


def test_a_file_is_checked_without_a_store_and_none_is_made(
    place: Place, bare: Workspace, file_of: Callable[[Sequence[Row]], Path]
) -> None:
    found = check_file(bare, str(place.skill), file_of(MISLEADING))
    assert found.n_tasks == len(MISLEADING)
    assert found.problems[:-1] == BY_ROW
    assert found.problems[-1].startswith("task 11: ")
    assert "same prompt as 'task 6 (no id)'" in found.problems[-1]
    assert not bare.store_path.exists()
    with pytest.raises(BadSkill, match="does not exist"):
        check_file(bare, str(place.folder / "missing"), file_of(MISLEADING))


def test_a_file_that_adding_refuses_as_a_whole_is_refused(
    place: Place, bare: Workspace, file_of: Callable[[Sequence[Row]], Path]
) -> None:
    with pytest.raises(BadInput, match="no task was given"):
        check_file(bare, str(place.skill), file_of([]))
    with pytest.raises(BadInput, match="10,001 tasks at once"):
        check_file(bare, str(place.skill), file_of([row(str(n)) for n in range(10_001)]))


def test_a_path_that_is_not_tracked_stays_untracked(place: Place, file_of: Callable[[Sequence[Row]], Path]) -> None:
    workspace = place.open()
    assert check_file(workspace, str(place.skill), file_of([row("Fine?")])).problems == []
    assert workspace.store.skills.list_skills() == []


def test_what_a_file_and_the_store_say_of_the_same_tasks_is_the_same(
    place: Place, file_of: Callable[[Sequence[Row]], Path]
) -> None:
    workspace, path = place.open(), file_of(MISLEADING)
    before = check_file(workspace, str(place.skill), path)
    rejected = {f"task {each.index + 1}" for each in add_tasks(workspace, str(place.skill), file=str(path)).rejected}
    assert rejected == {"task 2", "task 8"}
    stored = check_stored(workspace, str(place.skill))
    left = [problem.split(":")[0] for problem in before.problems if "it is the same as" not in problem]
    assert len(stored.problems) == len(left) - len(rejected)
    again = check_file(workspace, str(place.skill), path)
    assert [each.split(":")[0] for each in again.problems] == [each.split(":")[0] for each in before.problems]
    assert again.remarks == ["7 tasks are there already: they would be left unchanged", *stored.remarks]


def test_a_file_is_checked_against_the_stored_tasks(place: Place, file_of: Callable[[Sequence[Row]], Path]) -> None:
    workspace = place.open()
    old = [row("Old question?", id="old", split="train"), row("Wrong key?", id="wrong", split="test")]
    add_tasks(workspace, str(place.skill), old)
    retire_tasks(workspace, str(place.skill), ["wrong"])
    rows = [
        row("New question?", id="old"),
        row("OLD question?", id="leak", split="test", judge={"kind": "exact", "expected": "8"}),
        row("Old question?", split="val"),
        row("Wrong key?"),
        row("Wrong key?", split="val", judge={"kind": "exact", "expected": "8"}),
        row("Wrong key?", id="right", judge={"kind": "exact", "expected": "9"}),
    ]
    found = check_file(workspace, str(place.skill), file_of(rows))
    assert [each.split(": ", 1)[0] for each in found.problems] == [
        "task 1 'old'", "task 2 'leak'", "task 3", "task 4", "task 5",
    ]  # fmt: skip
    told = "\n".join(found.problems)
    assert "the same prompt as 'old', which is in train" in told
    assert "it is the same as 'old', which is in train: it would be missing in val (a leak)" in told
    added = add_tasks(workspace, str(place.skill), rows)
    assert [each.index for each in added.rejected] == [0, 3, 4]
    assert all(f": {each.reason}" in told for each in added.rejected)
    assert added.added == 2


def test_a_stored_task_that_a_file_lacks_is_told_of(place: Place, file_of: Callable[[Sequence[Row]], Path]) -> None:
    workspace = place.open()
    rows = [row(f"What is {n}?", id=f"q{n}", split="val") for n in range(9)]
    add_tasks(workspace, str(place.skill), rows)
    (told,) = [each for each in check_file(workspace, "ledger-clerk", file_of(rows[1:])).remarks if "q0" in each]
    assert told.startswith("1 task in use is not among these: 'q0'; what was retired")


def test_a_name_makes_no_store_when_a_file_is_checked(
    bare: Workspace, place: Place, file_of: Callable[[Sequence[Row]], Path]
) -> None:
    home = Path.home() / ".claude" / "skills"
    shutil.copytree(place.skill, home / "ledger-clerk")
    assert check_file(bare, "ledger-clerk", file_of([row("Any?")])).problems == []
    with pytest.raises(NotFound, match="there is no store at"):
        check_file(bare, "other", file_of([row("Any?")]))
    assert not bare.store_path.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="the programs are those of Unix")
def test_the_commands_of_a_file_are_run_where_a_store_knows_them(
    place: Place, bare: Workspace, file_of: Callable[[Sequence[Row]], Path]
) -> None:
    path = file_of([
        row("Any?", judge={"kind": "command", "name": "anything"}),
        row("What?", judge={"kind": "command", "name": "unknown"}),
    ])  # fmt: skip
    assert check_file(bare, str(place.skill), path).problems == []
    assert (
        "the commands 'anything', 'unknown' were not tried: there is no store here in which a person registered them"
    ) in check_file(bare, str(place.skill), path).remarks
    workspace = place.open()
    add_command(workspace, register_command("anything", [shutil.which("true") or "true"]))
    empty, unknown = check_file(workspace, str(place.skill), path).problems
    assert empty == "task 1: an empty answer passes: the command expects too little"
    assert unknown.startswith("task 2: no command 'unknown' is registered")


LONG = "Sum the invoice lines of the supplier for March and state the total in euros with two decimals"


def test_nearly_the_same_prompt_with_another_answer_is_no_problem_but_a_remark(
    place: Place, file_of: Callable[[Sequence[Row]], Path]
) -> None:
    workspace = place.open()
    april = row(LONG.replace("March", "April"), id="april", split="test", judge={"kind": "exact", "expected": "8"})
    rows = [row(LONG, id="march", split="train"), april]
    told = (
        "1 task has nearly the prompt of another one: 'april' (like 'march'); that is right where it expects something "
        "else for a reason"
    )
    found = check_file(workspace, str(place.skill), file_of(rows))
    assert (found.problems, found.remarks[0]) == ([], told)
    assert add_tasks(workspace, str(place.skill), rows).warnings == [told]
    found = check_stored(workspace, str(place.skill))
    assert (found.problems, found.remarks[0]) == ([], told)
    same = row(f"{LONG}, please.", id="again", split="val")
    found = check_file(workspace, str(place.skill), file_of([same]))
    assert [each.split(",")[0] for each in found.problems] == ["task 1 'again': nearly the same prompt as 'march'"]
    assert not [each for each in found.remarks if "nearly" in each], "what is stored already is not told of again"


def test_thousands_of_rows_that_are_there_already_are_no_work(
    place: Place, file_of: Callable[[Sequence[Row]], Path]
) -> None:
    workspace = place.open()
    rows = [row(f"What is {n} and {n * 7}?", split="train") for n in range(2_000)]
    add_tasks(workspace, str(place.skill), rows)
    found = check_file(workspace, str(place.skill), file_of([*rows, *rows]))
    assert len(found.problems) == 2_000
    assert found.remarks[0] == "2,000 tasks are there already: they would be left unchanged"


def test_adding_tells_of_judges_of_form_alone_and_takes_them(place: Place) -> None:
    workspace = place.open()
    added = add_tasks(workspace, str(place.skill), [row("Q?", judge={"kind": "length", "max": 5}), row("R?")])
    assert added.added == 2
    assert added.warnings == [
        "1 task judges only the form of an answer (length, heading), which cannot promote alone: add a judge of "
        "another kind to it"
    ]
    more = [row(f"Q{n}?", judge={"kind": "length", "max": 5}) for n in range(2)]
    assert add_tasks(workspace, str(place.skill), more).warnings == [
        "2 tasks judge only the form of an answer (length, heading), which cannot promote alone: add a judge of "
        "another kind to them"
    ]


def test_held_out_tasks_that_train_has_already_are_told_as_a_leak(place: Place, tmp_path: Path) -> None:
    workspace = place.open()
    rows = [row(f"What is {n}?") for n in range(40)]
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, given in (("train", rows), ("val", rows[:20]), ("test", [*rows, row("Only here?")])):
        (folder / f"{name}.json").write_text(json.dumps(given))
    added = add_data_set(workspace, str(place.skill), folder, split_plan("split_dir"))
    assert (added.added, added.duplicates) == (41, 60)
    assert added.warnings == [
        "20 val and 40 test tasks were left out, because train has the same ones already (a leak: what is learned or "
        "chosen there would be tested again): give each split tasks of its own"
    ]
    assert add_tasks(workspace, str(place.skill), [rows[0], row("Only here?", split="test")]).warnings == []
