"""Adding and checking tasks: what comes in, what is rejected by its position, and that a check says the same before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from workshop import Place

from skillopt_mcp.actions.tasks import add_file, add_tasks, check_file, check_stored, remove_tasks
from skillopt_mcp.core.errors import BadInput, BadSkill, NotFound
from skillopt_mcp.core.tasks import SPLITS
from skillopt_mcp.training.settings.reading import split_plan
from skillopt_mcp.workspace.workspace import Workspace

JUDGE = {"kind": "exact", "expected": "7"}
Row = dict[str, object]


def row(prompt: object, **others: object) -> Row:
    return {"prompt": prompt, "judge": JUDGE, **others}


def tasks(n: int, prefix: str = "What is") -> list[Row]:
    return [row(f"{prefix} {i}?") for i in range(n)]


def write(place: Place, rows: object) -> Path:
    path = place.folder / "tasks.json"
    path.write_text(json.dumps(rows))
    return path


def coded(notes: object) -> dict[str, list[str]]:
    return {note.code: note.ids for note in notes}  # type: ignore[attr-defined]


@pytest.fixture
def empty(place: Place) -> Workspace:
    return place.open()


def test_a_task_keeps_all_it_was_given(place: Place, empty: Workspace) -> None:
    given = row("p \ud800", id="mine", split="test", group="g", tags=["a"], files={"x/y.txt": "text"})
    add_tasks(empty.store, empty.place, str(place.skill), [given])
    (task,) = empty.store.tasks.list_tasks(1)
    assert (task.prompt, task.name, task.split, task.group) == ("p \ufffd", "mine", "test", "g")
    assert task.tags == ("a",)
    assert [(file.path, file.content) for file in task.files] == [("x/y.txt", "text")]


def test_tasks_of_a_group_join_one_split_and_keep_their_group(place: Place, empty: Workspace) -> None:
    skill = str(place.skill)
    first = add_tasks(
        empty.store, empty.place, skill, [*tasks(8), row("a", group="g", split="train"), row("b", group="g")]
    )
    assert first.n_rejected == 0
    rows = [
        row("c", group="g"),
        row("d", group="g", split="test"),
        row("b", group="h"),
        row("b"),
        row("e", group="h", split="val"),
        row("f", group="h"),
        row("i", group=7),
        row("j", group="g" * 129),
    ]
    again = add_tasks(empty.store, empty.place, skill, rows)
    assert (again.added, again.duplicates) == (3, 1)
    assert [(each.index, each.reason) for each in again.rejected] == [
        (1, 'split must be train, where the group "g" is, got test'),
        (2, 'this task is stored with the group "g", which never changes'),
        *((n, "group must be a text of up to 128 characters") for n in (6, 7)),
    ]
    splits = {task.prompt: task.split for task in empty.store.tasks.list_tasks(1) if task.group}
    assert splits == {"a": "train", "b": "train", "c": "train", "e": "val", "f": "val"}


BAD: list[tuple[object, str]] = [
    (row(" "), "prompt must be a text"),
    (row(19), "prompt must be a text"),
    (row(["a"]), "prompt must be a text"),
    (row("x" * 300_000), "300,000 characters"),
    ({"prompt": "p", "judge": {"kind": "vibes"}}, '"vibes"'),
    ({"prompt": "p"}, "judge"),
    (row("p", answer=1), '"answer"'),
    (row("p", split="dev"), '"dev"'),
    (row("p", files={"../x": "y"}), '"../x"'),
    (row("p", files={"x": "y" * 2_000_000}), "1,048,576 characters"),
    (row("p", tags="a"), "tags must be"),
    (row("p", id=""), "id must be"),
    ("p", "is an object"),
    (row("Log in with password: hunter2hunter2"), "contains a secret"),
    (row("p", judge={"kind": "command", "name": "kqf"}), 'judge program "kqf" is not registered'),
    (row("Known?", split="val"), "split must be train, where the same prompt is, got val"),
    (row("Known?", split="val", judge={"kind": "exact", "expected": "8"}), "split must be train"),
    (row("New?", id="known"), 'id "known" is taken'),
    (row("Wrong?"), "this task was removed"),
    (row("Wrong?", split="val", judge={"kind": "exact", "expected": "8"}), "split must be test"),
]


@pytest.mark.parametrize("has_store", [True, False])
def test_a_bad_row_is_rejected_and_a_check_says_so_before(place: Place, has_store: bool) -> None:
    old = [row("Known?", id="known", split="train"), row("Wrong?", id="wrong", split="test")]
    workspace, bad, others = place.open(), BAD, tasks(3)
    if has_store:
        add_tasks(workspace.store, workspace.place, str(place.skill), old)
        remove_tasks(workspace.store, workspace.place, str(place.skill), ["wrong"])
    else:
        bad = BAD[: next(n for n, (each, _) in enumerate(BAD) if "Known?" in str(each))]
        workspace = place.open(store="none.db")
    path = write(place, [*(each for each, _ in bad), *others])
    checked = check_file(workspace.store, workspace.place, str(place.skill), path)
    assert workspace.store.path.exists() == has_store
    added = add_tasks(workspace.store, workspace.place, str(place.skill), file=str(path))
    assert (added.added, [each.index for each in added.rejected]) == (3, list(range(len(bad))))
    for (_, reason), rejected, problem in zip(bad, added.rejected, checked.problems, strict=True):
        assert reason in rejected.reason
        assert (problem.task, problem.reason) == (str(rejected.index + 1), rejected.reason)


def test_files_that_set_up_a_host_are_no_files_of_a_task(place: Place, empty: Workspace) -> None:
    paths = [".claude/settings.json", ".mcp.json", "a/.git/config", ".CODEX/config.toml", "docs/AGENTS.md",
             "claude.md", ".g\u200dit/config", ".agents/skills/x/SKILL.md"]  # fmt: skip
    rows = [*(row(path, files={path: "y"}) for path in paths), row("p", files={"agents.txt": "y", "git/claude": "y"})]
    added = add_tasks(empty.store, empty.place, str(place.skill), rows)
    assert (added.added, [each.index for each in added.rejected]) == (1, list(range(len(paths))))
    assert all("would set up the host; leave it out" in each.reason for each in added.rejected)


def test_what_weakens_tasks_is_noted_when_they_are_added_and_found_by_a_check(place: Place, empty: Workspace) -> None:
    rows = [
        row("Sum the rows of the first page", id="first", split="train"),
        row("sum the rows of the first  page", id="leak", split="test", judge={"kind": "exact", "expected": "8"}),
        row("Say yes", id="slack", judge={"kind": "regex", "pattern": ".*"}),
        row("Who?", id="nowhere", judge={"kind": "environment", "name": "nowhere:x"}),
        row("Say no", id="parrot", judge={"kind": "contains", "expected": ["no"]}),
        row("Be short", id="form", judge={"kind": "length", "min": 1, "max": 1}),
    ]
    weak = {
        "leak": ["leak"], "passes_empty": ["slack"], "unknown_environment": ["nowhere"], "passes_parrot": ["parrot"],
        "shape_only": ["form"],
    }  # fmt: skip
    before = check_file(empty.store, empty.place, str(place.skill), write(place, rows))
    added = add_tasks(empty.store, empty.place, str(place.skill), rows)
    assert added.added == 6
    assert {code: ids for code, ids in coded(added.notes).items() if code in weak} == weak
    stored = check_stored(empty.store, empty.place, str(place.skill))
    assert {(each.id, each.reason) for each in before.problems} == {(each.id, each.reason) for each in stored.problems}
    assert {name for name, *_ in weak.values()} <= {each.task for each in stored.problems}
    again = check_file(empty.store, empty.place, str(place.skill), write(place, rows))
    assert coded(again.notes) == {"duplicates": [], **coded(stored.notes)}
    assert again.problems == before.problems


LONG = "Sum the invoice lines of the supplier for March and state the total in euros with two decimals"


def test_nearly_the_same_prompt_with_another_answer_is_a_note(place: Place, empty: Workspace) -> None:
    april = row(LONG.replace("March", "April"), id="april", split="test", judge={"kind": "exact", "expected": "8"})
    rows = [row(LONG, id="march", split="train"), april]
    found = check_file(empty.store, empty.place, str(place.skill), write(place, rows))
    assert (found.problems, coded(found.notes)["alike"]) == ([], ["april"])
    assert coded(add_tasks(empty.store, empty.place, str(place.skill), rows).notes) == {"alike": ["april"]}
    found = check_file(
        empty.store, empty.place, str(place.skill), write(place, [row(f"{LONG}, please.", id="again", split="val")])
    )
    assert [(each.task, each.id) for each in found.problems] == [("1", "again")]


def test_thousands_of_rows_are_left_to_the_check_and_found_again_in_no_time(place: Place, empty: Workspace) -> None:
    rows = [row(f"What is {n} and {n * 7}?", split="train") for n in range(2_001)]
    assert coded(add_tasks(empty.store, empty.place, str(place.skill), rows).notes) == {"unchecked": []}
    found = check_file(empty.store, empty.place, str(place.skill), write(place, rows))
    assert [note.numbers["n"] for note in found.notes if note.code == "duplicates"] == [2_001]


def test_a_check_tracks_nothing_and_makes_no_store(place: Place, empty: Workspace) -> None:
    bare = place.open(store="none.db")
    path = write(place, [row("Fine?")])
    shutil.copytree(place.skill, Path.home() / ".claude" / "skills" / "ledger-clerk")
    for skill in (str(place.skill), "ledger-clerk"):
        assert check_file(bare.store, bare.place, skill, path).problems == []
    for skill, error in ((str(place.folder / "missing"), BadSkill), ("other", NotFound)):
        with pytest.raises(error):
            check_file(bare.store, bare.place, skill, path)
    assert not bare.store.path.exists()
    assert check_file(empty.store, empty.place, str(place.skill), path).problems == []
    assert empty.store.skills.list_skills() == []


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
    assert add_tasks(empty.store, empty.place, str(place.skill), file=str(path)).added == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"prompt": "p"}\n{"prompt": \n', "tasks.jsonl' line 2 is not JSON"),
        (b"[1, 2", "tasks.jsonl' is not JSON"),
        (b"\xff\xfe[\0]\0", "is not UTF-8 at byte 0: save it as UTF-8"),
        (b"[" * 1_500, "is not JSON"),
        (b"[1" + b"0" * 10_000 + b"]", "is not JSON"),
        (b"", "no task was given"),
        (json.dumps(["x"] * 10_001).encode(), "10,001 tasks at once"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_nothing_is_added(
    place: Place, empty: Workspace, content: bytes, message: str
) -> None:
    path = place.folder / "tasks.jsonl"
    path.write_bytes(content)
    for use in (lambda: add_tasks(empty.store, empty.place, str(place.skill), file=str(path)),
                lambda: check_file(empty.store, empty.place, str(place.skill), path)):  # fmt: skip
        with pytest.raises(BadInput) as error:
            use()
        assert message in str(error.value)
        assert len(str(error.value)) < 500
    assert empty.store.skills.list_skills() == []


@pytest.mark.parametrize("split", ["val", "dev", 5])
def test_a_row_that_contradicts_its_folder_of_splits_stops_all(place: Place, empty: Workspace, split: object) -> None:
    folder = place.folder / "splits"
    folder.mkdir()
    for each in SPLITS:
        (folder / f"{each}.json").write_text(json.dumps([{"question": f"{each}?", "answers": ["so"]}]))
    (folder / "train.json").write_text(json.dumps([5, {"question": "train!", "answers": ["so"], "split": split}]))
    with pytest.raises(BadInput, match=rf'row 2 in train has the split "{split}".*nothing was added'):
        add_file(empty.store, empty.place, str(place.skill), folder, split_plan("split_dir", None, None))
    assert empty.store.skills.list_skills() == []
