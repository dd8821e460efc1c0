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
