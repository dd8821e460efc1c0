from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from workshop import Place

from skillopt_mcp.errors import BadInput
from skillopt_mcp.operations.results import Rejected, SplitCounts, TasksAdded
from skillopt_mcp.operations.tasks.adding import add_data_set, add_tasks
from skillopt_mcp.operations.tasks.checking import check_stored
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.tasks import SPLITS
from skillopt_mcp.settings.splitting import split_plan

JUDGE = {"kind": "exact", "expected": "7"}


def tasks(n: int, prefix: str = "What is") -> list[dict[str, object]]:
    return [{"prompt": f"{prefix} {i}?", "judge": JUDGE} for i in range(n)]


@pytest.fixture
def empty(place: Place) -> Workspace:
    return place.open()


def test_tasks_are_balanced_over_the_splits(place: Place, empty: Workspace) -> None:
    assert add_tasks(empty, str(place.skill), tasks(90)) == TasksAdded(
        skill="ledger-clerk",
        added=90,
        duplicates=0,
        rejected=[],
        splits=SplitCounts(train=30, val=30, test=30),
        next_step="Enough to start: propose_edits with rollouts 8 (a host needs no key for that), or 'skillopt-mcp "
        "replay ledger-clerk --target BACKEND:MODEL --optimizer BACKEND:MODEL' in a terminal.",
    )


def test_adding_tells_of_tasks_that_a_check_would_call_errors(place: Place, empty: Workspace) -> None:
    skill = str(place.skill)
    asked = {"prompt": "Sum the rows of the first page", "judge": JUDGE, "split": "train"}
    assert add_tasks(empty, skill, [asked]).warnings == []
    leak = {**asked, "judge": {"kind": "contains", "expected": ["7"]}, "split": "test", "id": "leak"}
    slack = {"prompt": "Say yes", "judge": {"kind": "regex", "pattern": ".*"}, "id": "slack"}
    nowhere = {"prompt": "Who?", "judge": {"kind": "environment", "name": "nowhere"}, "id": "nowhere"}
    more = {"prompt": "Say no", "judge": {"kind": "contains", "expected": ["no"]}, "id": "more"}
    added = add_tasks(empty, skill, [leak, slack, nowhere, more])
    problems = check_stored(empty, skill).problems
    assert (added.added, added.warnings[:3]) == (4, problems[:3])
    assert len(problems) == 4
    assert added.warnings[3:] == [
        "1 more such problems: skillopt-mcp tasks check ledger-clerk; to take a task out of use, a person types: "
        "skillopt-mcp tasks retire ledger-clerk ID"
    ]
    again = add_tasks(empty, skill, [slack, {"prompt": "And now?", "judge": JUDGE}]).warnings
    assert again[0] == "task 'slack': an empty answer passes: the judge expects too little"
    assert again[1].startswith("such problems of all tasks: skillopt-mcp tasks check ledger-clerk; ")


def test_so_many_tasks_that_one_would_wait_are_left_to_the_check(
    place: Place, empty: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillopt_mcp.operations.tasks.misleading.CHECKED_AT_ONCE", 2)
    said = "so many tasks were not checked as they were added: skillopt-mcp tasks check ledger-clerk"
    assert add_tasks(empty, str(place.skill), tasks(3)).warnings == [said]
    assert add_tasks(empty, str(place.skill), tasks(2, "What else is")).warnings == []


def test_a_task_keeps_all_it_was_given(place: Place, empty: Workspace) -> None:
    given = {"prompt": "p", "judge": JUDGE, "id": "mine", "split": "test", "tags": ["a"], "files": {"x/y.txt": "text"}}
    add_tasks(empty, str(place.skill), [given])
    (task,) = empty.store.tasks.list_tasks(1)
    assert (task.prompt, task.name, task.split, task.tags) == ("p", "mine", "test", ("a",))
    assert [(file.path, file.content) for file in task.files] == [("x/y.txt", "text")]


def test_a_bad_task_is_rejected_with_its_place_and_reason_and_the_rest_is_added(place: Place, empty: Workspace) -> None:
    bad: list[object] = [
        {"prompt": " ", "judge": JUDGE},
        {"prompt": "p", "judge": {"kind": "vibes"}},
        {"prompt": "p"},
        {"prompt": "p", "judge": JUDGE, "answer": 1},
        {"prompt": "p", "judge": JUDGE, "split": "dev"},
        {"prompt": "p", "judge": JUDGE, "files": {"../x": "y"}},
        {"prompt": "p", "judge": JUDGE, "tags": "a"},
        {"prompt": "p", "judge": JUDGE, "id": ""},
        "p",
        {"prompt": "x" * 300_000, "judge": JUDGE},
        {"prompt": "p", "judge": JUDGE, "files": {"x": "y" * 2_000_000}},
    ]
    result = add_tasks(empty, str(place.skill), [*bad, *tasks(3)])
    assert result.added == 3
    assert [rejected.index for rejected in result.rejected] == list(range(len(bad)))
    reasons = "\n".join(rejected.reason for rejected in result.rejected)
    for part in ("prompt is empty", '"vibes"', '"answer"', '"dev"', '"../x"', "tags must be", "id must be",
                 "is an object", "300,000 characters", "1,048,576 characters"):  # fmt: skip
        assert part in reasons
    assert result.next_step.startswith("11 were rejected: correct them and add them again. ")


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [(19, "a number"), (False, "true or false"), (["a"], "a list"), ({}, "an object"), (0.5, "a number")],
)
def test_a_prompt_that_is_no_text_is_not_called_empty(
    place: Place, empty: Workspace, prompt: object, kind: str
) -> None:
    (rejected,) = add_tasks(empty, str(place.skill), [{"prompt": prompt, "judge": JUDGE}]).rejected
    assert rejected.reason == f"the prompt is {kind}, not a text: say what the agent is asked to do, in quotes"


def test_a_duplicate_is_counted_and_a_taken_id_is_named(place: Place, empty: Workspace) -> None:
    mine = {"prompt": "p", "judge": JUDGE, "id": "mine"}
    add_tasks(empty, str(place.skill), [mine])
    result = add_tasks(empty, str(place.skill), [mine, mine, {**mine, "prompt": "q"}, {**mine, "id": "other"}])
    assert (result.added, result.duplicates) == (0, 3)
    reason = (
        'the id "mine" is taken by another task: if this one corrects it, a person retires that first (skillopt-mcp '
        "tasks retire ledger-clerk mine); if not, choose another id"
    )
    assert result.rejected == [Rejected(index=2, reason=reason)]


def test_adding_the_same_tasks_again_changes_nothing(place: Place, empty: Workspace) -> None:
    first = add_tasks(empty, str(place.skill), tasks(10))
    again = add_tasks(empty, str(place.skill), tasks(10))
    assert (again.added, again.duplicates, again.splits) == (0, 10, first.splits)


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(tasks(2)).encode(),
        json.dumps(tasks(2), indent=2).encode(),
        b"\xef\xbb\xbf" + json.dumps(tasks(2)).encode(),
        "\n\n".join(map(json.dumps, tasks(2))).encode(),
        b"\xef\xbb\xbf" + "\r\n".join(map(json.dumps, tasks(2))).encode(),
        "\n".join(json.dumps(task, ensure_ascii=False) for task in tasks(2, "line\u2028separator\x85")).encode(),
    ],
    ids=["list", "indented", "list-bom", "lines", "lines-crlf-bom", "odd-separators"],
)
def test_a_file_is_a_list_or_lines(place: Place, empty: Workspace, content: bytes) -> None:
    path = place.folder / "tasks.json"
    path.write_bytes(content)
    assert add_tasks(empty, str(place.skill), file=str(path)).added == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"prompt": "p"}\n{"prompt": \n', "tasks.jsonl' line 2 is not JSON"),
        (b"[1, 2", "tasks.jsonl' is not JSON"),
        (b"\xff\xfe[\0]\0", "is not UTF-8 at byte 0: save it as UTF-8"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1" + b"0" * 10_000 + b"]", "is not JSON"),
        (b"", "no task was given"),
        (b"[]", "no task was given"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_nothing_is_added(
    place: Place, empty: Workspace, content: bytes, message: str
) -> None:
    path = place.folder / "tasks.jsonl"
    path.write_bytes(content)
    with pytest.raises(BadInput) as error:
        add_tasks(empty, str(place.skill), file=str(path))
    assert message in str(error.value)
    assert len(str(error.value)) < 500
    assert empty.store.skills.list_skills() == []


@pytest.mark.parametrize("split", ["val", "dev", 5])
def test_a_row_that_contradicts_its_folder_of_splits_is_named_and_nothing_is_added(
    place: Place, empty: Workspace, split: object
) -> None:
    folder = place.folder / "splits"
    folder.mkdir()
    for each in SPLITS:
        (folder / f"{each}.json").write_text(json.dumps([{"question": f"{each}?", "answers": ["so"]}]))
    (folder / "train.json").write_text(json.dumps([5, {"question": "train!", "answers": ["so"], "split": split}]))
    with pytest.raises(
        BadInput, match=rf'a row in train says that its split is "{split}" \(row 2\).*nothing was added'
    ):
        add_data_set(empty, str(place.skill), folder, split_plan("split_dir", None, None))
    assert empty.store.skills.list_skills() == []


def test_a_place_that_is_no_file_never_hangs(place: Place, empty: Workspace) -> None:
    os.mkfifo(place.folder / "pipe")
    (place.folder / "loop").symlink_to("loop")
    for name, message in (
        ("pipe", "is not a regular file"),
        ("", "is not a regular file"),
        ("missing.json", "cannot be read (No such file or directory): check the path"),
        ("a\0b", "cannot be read (no file can be called so)"),
        ("loop", "cannot be read"),
        ("x" * 5000, "cannot be read (File name too long)"),
        ("~nobody-here/x", "cannot be read"),
    ):
        with pytest.raises(BadInput) as error:
            add_tasks(empty, str(place.skill), file=str(place.folder / name))
        assert message in str(error.value)
        assert len(str(error.value)) < 600


def test_either_tasks_or_a_file_is_given(place: Place, empty: Workspace) -> None:
    for given in ({}, {"tasks": [], "file": "x"}):
        with pytest.raises(BadInput, match="give either tasks or file"):
            add_tasks(empty, str(place.skill), **given)
    with pytest.raises(BadInput, match="no task was given"):
        add_tasks(empty, str(place.skill), [])
    with pytest.raises(BadInput, match="10,001 tasks at once"):
        add_tasks(empty, str(place.skill), ["x"] * 10_001)


def test_few_held_out_tasks_are_called_few(place: Place, empty: Workspace, tmp_path: Path) -> None:
    assert "train tasks to learn from" in add_tasks(empty, str(place.skill), tasks(1)).next_step
    assert add_tasks(empty, str(place.skill), tasks(9)).next_step.startswith("6 held-out tasks can prove a large gain")


def test_lone_surrogates_in_a_task_become_replacement_characters(place: Place, empty: Workspace) -> None:
    task = {"prompt": "p \ud800", "judge": JUDGE, "id": "i\ud800", "tags": ["t\ud800"], "files": {"f\ud800": "\ud800"}}
    assert add_tasks(empty, str(place.skill), [task]).added == 1
    assert empty.store.tasks.list_tasks(1)[0].prompt == "p \ufffd"


def test_an_id_that_two_new_tasks_have_is_told_without_a_retirement(place: Place, empty: Workspace) -> None:
    result = add_tasks(empty, str(place.skill), [{"prompt": each, "judge": JUDGE, "id": "mine"} for each in "pq"])
    assert result.rejected == [Rejected(index=1, reason='the id "mine" is taken by another task: choose another')]


def test_a_task_that_an_export_lacks_is_named_with_the_way_to_retire_it(place: Place, empty: Workspace) -> None:
    export = [{"id": f"q{n}", "prompt": f"What is {n}?", "judge": JUDGE, "split": "val"} for n in range(9)]
    assert add_tasks(empty, str(place.skill), export).warnings == []
    told = (
        "1 task in use is not among these: 'q8'; what was retired where these come from, a person retires here, too: "
        "skillopt-mcp tasks retire ledger-clerk ID"
    )
    assert told in add_tasks(empty, str(place.skill), export[:-1]).warnings
    corrected = {**export[8], "prompt": "What was 8?"}
    assert told not in add_tasks(empty, str(place.skill), [*export[:-1], corrected]).warnings, "it is told as rejected"


@pytest.mark.parametrize("rows", [range(2), range(8, 9)])
def test_a_few_tasks_are_no_export_that_lacks_the_others(place: Place, empty: Workspace, rows: range) -> None:
    export = [{"id": f"q{n}", "prompt": f"What is {n}?", "judge": JUDGE, "split": "val"} for n in range(9)]
    add_tasks(empty, str(place.skill), export)
    assert add_tasks(empty, str(place.skill), [export[n] for n in rows]).warnings == []
    without = [{name: value for name, value in row.items() if name != "split"} for row in export[:-1]]
    assert add_tasks(empty, str(place.skill), without).warnings == []


def test_a_row_with_a_key_that_comes_twice_is_rejected_and_the_others_are_added(
    place: Place, empty: Workspace, tmp_path: Path
) -> None:
    file = tmp_path / "tasks.jsonl"
    twice = '{"prompt": "Which?", "judge": {"kind": "exact", "expected": "1", "expected": "2"}}'
    file.write_text("\n".join([json.dumps(tasks(1)[0]), twice]))
    added = add_tasks(empty, str(place.skill), file=str(file))
    reason = 'the key "expected" comes twice in one object, and JSON would keep the last: leave one out'
    assert (added.added, added.rejected) == (1, [Rejected(index=1, reason=reason)])
