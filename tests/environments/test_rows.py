from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.tasks import SPLITS
from skillopt_mcp.tasks.environments.qa import open_qa
from skillopt_mcp.tasks.environments.registry import parse_options, plain_value
from skillopt_mcp.tasks.formats.json_rows import Repeated
from skillopt_mcp.tasks.formats.registry import read_rows
from skillopt_mcp.tasks.formats.skillopt import parse_question, read_splits
from skillopt_mcp.tasks.judges.kinds.final_answer import FinalAnswer


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def rows(n: int, prefix: str) -> str:
    return "".join(json.dumps({"question": f"{prefix} {i}?", "answers": [str(i)]}) + "\n" for i in range(n))


@pytest.fixture
def splits(tmp_path: Path) -> Path:
    """Return a folder of splits in all three formats."""
    put(tmp_path / "train" / "a.jsonl", rows(2, "train"))
    put(tmp_path / "train" / "b.json", json.dumps([{"question": "more?", "answer": "yes", "task_type": "yes/no"}]))
    put(tmp_path / "val.jsonl", rows(2, "val"))
    put(
        tmp_path / "test.csv",
        'id,question,answers,context\nq1,"Where, exactly?","[""here"", ""there""]",\nq2,Why?,so,"a\nb"\n',
    )
    put(tmp_path / "README.md", "about")
    put(tmp_path / ".hidden" / "x.json", "[]")
    return tmp_path


def test_a_folder_of_splits_is_read_whatever_its_formats(splits: Path) -> None:
    found = read_splits(splits)
    assert {split: len(found[split]) for split in SPLITS} == {"train": 3, "val": 2, "test": 2}
    assert found["test"] == [
        {"id": "q1", "question": "Where, exactly?", "answers": '["here", "there"]'},
        {"id": "q2", "question": "Why?", "answers": "so", "context": "a\nb"},
    ]


@pytest.mark.parametrize(("name", "near"), [("dev", "val"), ("Train", "train"), ("vall", "val"), ("testing", "test")])
def test_an_unknown_split_is_an_error_that_names_the_nearest(splits: Path, name: str, near: str) -> None:
    put(splits / name / "x.json", "[]")
    with pytest.raises(BadInput, match=f'unknown split "{name}": did you mean "{near}"'):
        read_splits(splits)


def test_a_split_that_is_missing_or_there_twice_is_an_error(splits: Path, tmp_path: Path) -> None:
    put(splits / "valid_seen.json", "[]")
    with pytest.raises(BadInput, match=r"has the split 'val' twice: 'val\.jsonl' and 'valid_seen\.json'|twice"):
        read_splits(splits)
    (splits / "valid_seen.json").unlink()
    (splits / "val.jsonl").unlink()
    with pytest.raises(BadInput, match="has no 'val': a folder of splits holds train, val and test"):
        read_splits(splits)
    (splits / "val").mkdir()
    with pytest.raises(BadInput, match="holds no rows"):
        read_splits(splits)
    with pytest.raises(BadInput, match="cannot be read"):
        read_splits(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "row 3 has not as many cells as the header"),
        ('a\n"x\n', "is not CSV"),
        ('prompt;judge\n"a";b\n', "separates its columns by semicolons: save it with commas"),
    ],
)
def test_a_table_that_cannot_be_read_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        read_rows(put(tmp_path / "t.csv", text))
    assert message in str(error.value)


def test_a_table_may_hold_tasks_with_their_judges_as_json(tmp_path: Path) -> None:
    judge = json.dumps({"kind": "exact", "expected": "4"}).replace('"', '""')
    path = put(tmp_path / "t.csv", f'prompt,judge,tags\n2+2?,"{judge}","[""sum""]"\n')
    assert read_rows(path) == [{"prompt": "2+2?", "judge": {"kind": "exact", "expected": "4"}, "tags": ["sum"]}]


def test_a_question_becomes_a_task_that_never_shows_its_answers() -> None:
    item = {
        "id": 7,
        "question": "Which city?",
        "answers": ["Zurich", "Zürich"],
        "context": "A lake.",
        "task_type": "geo",
    }
    task = parse_question(item, "val")
    assert task.prompt.startswith("Context:\nA lake.\n\nQuestion: Which city?")
    assert "rich" not in task.prompt.replace("Which", "")
    assert (task.name, task.split, task.tags) == ("7", "val", ("geo",))
    assert task.judge == FinalAnswer(expected=["Zurich", "Zürich"])
    assert parse_question({"question": "q?", "answer": 4}).judge == FinalAnswer(expected="4")
    assert parse_question({"question": "q?", "ground_truth": '["a", "b"]'}).judge == FinalAnswer(expected=["a", "b"])


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"question": "q?"}, "has no answers"),
        ({"question": "q?", "answers": [{"a": 1}]}, "has no answers"),
        ({"question": " ", "answers": ["a"]}, "the question is empty"),
        ({"question": "q?", "answers": ["a"], "anwser": "b"}, 'unknown field "anwser"'),
        ({"question": "q?", "answers": [""]}, "final_answer judge"),
    ],
)
def test_what_is_not_a_question_is_named(item: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_question(item)
    assert message in str(error.value)


def test_the_reference_environment_is_a_folder_of_questions(splits: Path) -> None:
    environment = open_qa(str(splits))
    assert environment.name == f"qa:{splits}"
    assert environment.task_types == ["qa", "yes/no"]
    assert [task.prompt.splitlines()[0] for task in environment.tasks("val")] == [
        "Question: val 0?",
        "Question: val 1?",
    ]
    assert all(task.split == split for split in SPLITS for task in environment.tasks(split))
    same = open_qa(str(splits)).version
    put(splits / "val.jsonl", rows(3, "val"))
    assert same == environment.version != open_qa(str(splits)).version


def test_a_row_that_is_no_question_is_named_with_its_place(splits: Path) -> None:
    put(splits / "val.jsonl", rows(1, "val") + '{"question": "q?"}\n')
    with pytest.raises(BadInput, match=r"val row 2 .*has no answers"):
        open_qa(str(splits)).tasks("train")
    put(splits / "val.jsonl", "[1]")
    with pytest.raises(BadInput, match="val row 1 is not a question"):
        open_qa(str(splits)).tasks("train")
    with pytest.raises(BadInput, match="needs a folder: write 'qa:FOLDER'"):
        open_qa("")


def test_a_place_that_is_no_file_never_hangs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for name in ("pipe.csv", "missing.csv", "a\0b.csv", "x" * 5_000):
        with pytest.raises(BadInput) as error:
            read_rows(tmp_path / name)
        assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("-2", -2), ("0.5", 0.5), (".5", 0.5), ("1e3", 1000.0), ("yes", True), ("Off", False), ("~", None),
     ("2:1:7", "2:1:7"), ("9" * 5_000, "9" * 5_000), ("1_000", "1_000"), ("nan", "nan"), ("inf", "inf"), ("٣", "٣")],
)  # fmt: skip
def test_a_plain_word_is_a_number_a_truth_value_or_a_text(text: str, value: object) -> None:
    assert plain_value(text) == value
    assert type(plain_value(text)) is type(value)


def test_options_are_given_once_each() -> None:
    assert parse_options("a=1, b = x ,ratio=2:1:7") == {"a": 1, "b": "x", "ratio": "2:1:7"}
    assert parse_options("") == {}
    for text in ("a", "a=1,a=2", "=1"):
        with pytest.raises(BadInput, match="write each setting once, as name=value"):
            parse_options(text)


def test_each_line_that_is_not_json_is_named_up_to_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"a": 1}\n{"a": \n\nnope\n{"b": 2}\n{\n')
    with pytest.raises(BadInput, match=r"line 2 is not JSON \(Expecting value.*\), nor line 4, 6: a file is one list"):
        read_rows(path)
    path.write_text("{\n" * 1_000)
    with pytest.raises(BadInput, match=", 19, 20 and more: a file"):
        read_rows(path)


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ('{"prompt": "a", "prompt": "b", "judge": {"kind": "exact", "expected": "1"}}', "prompt"),
        ('{"prompt": "a", "\\u0070rompt": "b"}', "prompt"),
        ('{"prompt": "a", "judge": {"kind": "exact", "expected": "1", "expected": "2"}}', "expected"),
        ('{"prompt": "a", "judge": {"kind": "all", "of": [{"kind": "exact", "kind": "regex"}]}}', "kind"),
        ('{"prompt": "a", "judge": {"kind": "json", "schema": {"x": [[{"y": 1, "y": 2}]]}}}', "y"),
    ],
)
def test_a_key_that_comes_twice_anywhere_in_a_row_makes_it_none(tmp_path: Path, row: str, key: str) -> None:
    sound = '{"prompt": "c", "judge": {"kind": "exact", "expected": "1"}}'
    for text in (f"{sound}\n{row}\n{sound}\n", f"[{sound}, {row}, {sound}]"):
        (tmp_path / "tasks.json").write_text(text)
        first, found, last = read_rows(tmp_path / "tasks.json")
        assert found == Repeated(key)
        assert first == last == json.loads(sound)
