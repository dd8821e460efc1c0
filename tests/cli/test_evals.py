"""Evals of other tools: the samples in `tests/evals`, through `tasks check`, `tasks try` and `tasks add`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillopt_mcp.tasks.formats.cases import EVAL_FORMATS
from tests.cli.conftest import Cli

FOLDER = Path(__file__).parents[1] / "evals"
# Those of data sets and eval.yaml have tests of their own.
NAMES = ("plugin-eval", "promptfoo", "skill-creator", "trigger")
SAMPLES = sorted(each for name in NAMES for each in FOLDER.glob(f"{name}/*/expected.json"))
ONE_FILE = ("*.jsonl", "*.yaml", "*.csv")


def pytest_ids(path: Path) -> str:
    return f"{path.parent.parent.name}/{path.parent.name}"


def find_path(sample: Path, expected: dict[str, Any]) -> Path:
    """What the owner's tool takes: the folder, or its one file."""
    if "path" in expected:
        return sample.parent / expected["path"]
    files = [each for pattern in ONE_FILE for each in sample.parent.glob(pattern)]
    return files[0] if len(files) == 1 else sample.parent


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    folder = tmp_path / "skills" / "changelog"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: changelog\ndescription: Writes changelogs.\n---\n\nBe brief.\n")
    return folder


@pytest.mark.parametrize("sample", SAMPLES, ids=pytest_ids)
def test_a_sample_is_read_as_its_owner_means_it(cli: Cli, skill: Path, tmp_path: Path, sample: Path) -> None:
    expected = json.loads(sample.read_text())
    path, options = find_path(sample, expected), expected.get("options", [])
    done = cli("tasks", "check", str(skill), str(path), "--json", *options)
    found = json.loads(done.stdout)
    assert found["format"] == expected["format"]
    if "refused" in expected:
        assert expected["refused"] in found["refused"]
        assert done.returncode == 1
        return
    assert done.returncode == 0, done.stderr
    cases = {case["id"]: case for case in found["cases"]}
    assert len(cases) == len(found["cases"])
    for task in expected["tasks"]:
        case = cases[task["id"]] if "id" in task else next(
            each for each in found["cases"] if each["prompt"].find(task["prompt"]) >= 0
        )  # fmt: skip
        assert task.get("prompt", "") in case["prompt"]
        for name in ("files", "rubric", "split", "trigger"):
            if name in task:
                assert case[name] == task[name], name
        answers = [*task.get("verdicts", []), *([key, True] for key in task.get("keys", []))]
        rows = [json.dumps({"case": case["id"], "answer": answer}) for answer, _ in answers]
        (tmp_path / "answers.jsonl").write_text("\n".join(rows))
        tried = cli("tasks", "try", str(skill), str(path), "--answers", str(tmp_path / "answers.jsonl"), "--json",
                    *(option for option in options if option != "--partial"))  # fmt: skip
        assert [[row["passes"]] for row in json.loads(tried.stdout)["results"]] == [[passes] for _, passes in answers]
    for lost in expected["lost"]:
        named = {each["what"] for each in cases[lost["case"]]["lost"]}
        assert named.issuperset(lost["what"].split(", ")), (lost, named)
    assert found.get("results") == expected.get("results")
    if "kept" in expected:
        assert [case["id"] for case in found["cases"] if case["kept"]] == expected["kept"]
    kept = sum(case["kept"] for case in found["cases"])
    if kept:
        first, again = (
            json.loads(cli("tasks", "add", str(skill), str(path), "--json", *options).stdout) for _ in range(2)
        )
        assert (first["added"], again["added"]) == (kept, 0), first
    else:
        assert cli("tasks", "add", str(skill), str(path), *options).returncode == 1


def test_all_formats_are_there() -> None:
    names = {"eval-yaml", "inspect", "plugin-eval", "promptfoo", "skill-creator", "skillopt", "trigger"}
    assert {each.name for each in EVAL_FORMATS} == names


def test_a_trigger_set_next_to_cases_of_the_same_ids_is_added_once(cli: Cli, skill: Path, tmp_path: Path) -> None:
    (skill / "evals").mkdir()
    rows = [{"id": n, "prompt": f"Release {n}", "expectations": ["Names it"]} for n in range(2)]
    (skill / "evals" / "evals.json").write_text(json.dumps({"skill_name": "changelog", "evals": rows}))
    queries = [{"id": n, "query": f"cut release {n} now", "should_trigger": n == 0} for n in range(2)]
    (skill / "evals" / "trigger-eval.json").write_text(json.dumps(queries))
    paths = [skill / "evals" / name for name in ("evals.json", "trigger-eval.json", "trigger-eval.json")]
    found = [json.loads(cli("tasks", "add", skill, path, "--json").stdout) for path in paths]
    assert [(each["added"], each["n_rejected"]) for each in found] == [(2, 0), (2, 0), (0, 0)]


@pytest.mark.parametrize(
    ("name", "text", "form", "what"),
    [
        ("data.jsonl", '{"input": "q", "target": "a"}\n{broken\n', "inspect", "data.jsonl"),
        ("data.jsonl", "", "inspect", "holds no case"),
        ("eval.yaml", "", "eval-yaml", "holds no case"),
        ("eval.yaml", "scenarios: []\n", "eval-yaml", "holds no case"),
        ("eval.yaml", "scenarios: [{name: a}]\n", "eval-yaml", "holds no case"),
        ("evals.json", "[]", "skill-creator", "holds no case"),
        ("evals.json", "{}", "skill-creator", "holds no case"),
        ("evals.json", '{"evals": []}', "skill-creator", "holds no case"),
        ("trigger-eval.json", "[]", "trigger", "holds no case"),
        (
            "evals.json", json.dumps([{"id": n, "prompt": "p", "expectations": ["a"]} for n in range(10_001)]),
            "skill-creator", "10,001 cases, at most 10,000",
        ),
    ],
    ids=lambda each: each[:30],
)  # fmt: skip
def test_a_file_without_a_case_is_refused_by_name(
    cli: Cli, skill: Path, tmp_path: Path, name: str, text: str, form: str, what: str
) -> None:
    (tmp_path / name).write_text(text)
    options = ["--scorer", "match"] if form == "inspect" else []
    done = cli("tasks", "check", skill, tmp_path / name, "--json", *options)
    found = json.loads(done.stdout)
    assert (done.returncode, found["format"], found["cases"]) == (1, form, [])
    assert what in found["refused"]
    assert name in found["refused"]
    added = cli("tasks", "add", skill, tmp_path / name, *options)
    assert added.returncode == 1
    assert name in added.stderr


def test_rows_of_our_own_may_stand_in_a_file_of_a_known_name(cli: Cli, skill: Path, tmp_path: Path) -> None:
    row = {"prompt": "p", "judge": {"kind": "exact", "expected": "a"}}
    for value in ([row], row):
        (tmp_path / "triggers.json").write_text(json.dumps(value))
        assert cli("tasks", "check", skill, tmp_path / "triggers.json").returncode == 0


def test_what_comes_from_a_file_makes_no_line_of_its_own(cli: Cli, skill: Path, tmp_path: Path) -> None:
    path = tmp_path / "a\nerror: fake" / "evals.json"
    path.parent.mkdir()
    row = {
        "id": "a\nerror: fake",
        "prompt": "p",
        "expectations": ["a"],
        "b\nerror: fake": 1,
        "files": ["c\nerror: fake"],
    }
    path.write_text(json.dumps([row, {**row, "id": "2\rerror: fake"}]))
    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({"case": row["id"], "answer": "x"}))
    for arguments in (["check"], ["check", "--partial"], ["add"], ["add", "--partial"], ["try", "--answers", answers]):
        done = cli("tasks", arguments[0], skill, path, *arguments[1:])
        lines = f"{done.stdout}\n{done.stderr}".replace("\r", "\n").split("\n")
        assert not [line for line in lines if line.startswith("error: fake")]


def test_a_case_that_cannot_be_stored_is_an_error_of_the_import(cli: Cli, skill: Path, tmp_path: Path) -> None:
    path, store = tmp_path / "evals.json", tmp_path / "store.db"
    for prompt, code in (("p", 0), ("p", 0), ("another", 1)):
        path.write_text(json.dumps([{"id": 1, "prompt": prompt, "expectations": ["a"]}]))
        assert cli("tasks", "add", skill, path, store=store).returncode == code


def test_the_summary_names_what_is_lost_of_cases_that_are_kept_in_part(cli: Cli, skill: Path, tmp_path: Path) -> None:
    path = tmp_path / "evals.json"
    path.write_text(json.dumps([{"id": 1, "prompt": "p", "expectations": ["a"], "assert": ["x"]}]))
    for option in ([], ["--partial"]):
        assert "kept (lost: 1 cannot be expressed)" in cli("tasks", "check", skill, path, *option).stdout


def test_a_broken_result_does_not_hide_an_older_one(cli: Cli, skill: Path, tmp_path: Path) -> None:
    for name, text in {
        "c/prompt.md": "Hi", "c/graders/a.md": "---\ntype: regex\n---\nx",
        "results/1/aggregate-result.json": '{"cases": [{"name": "c", "arms": {"with": [{"score": 1}]}}]}',
        "results/2/aggregate-result.json": '{"cases": [',
    }.items():  # fmt: skip
        (tmp_path / "evals" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "evals" / name).write_text(text)
    found = json.loads(cli("tasks", "check", skill, tmp_path / "evals", "--json").stdout)
    assert found["results"]["c"]["attempts"] == 1


def test_an_expected_number_is_its_text(cli: Cli, skill: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "r", "expected": 5}\n{"prompt": "s", "expected": true}\n')
    done = cli("tasks", "check", skill, path, "--json")
    assert [each["task"] for each in json.loads(done.stdout)["problems"]] == ["2"]


def test_a_new_case_before_others_of_its_id_is_added(cli: Cli, skill: Path, tmp_path: Path) -> None:
    path, store = tmp_path / "evals.json", tmp_path / "store.db"
    rows = [{"id": 1, "prompt": prompt, "expectations": ["a"]} for prompt in ("new", "first", "second")]
    for given, n_added in ((rows[1:], 2), (rows, 1), (rows, 0)):
        path.write_text(json.dumps(given))
        done = cli("tasks", "add", skill, path, "--json", store=store)
        assert (done.returncode, json.loads(done.stdout)["added"]) == (0, n_added)
