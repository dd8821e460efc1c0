"""Data sets and eval.yaml files of other tools, through the console script: what is read, and verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from console import Cli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Score, Unscored
from skillopt_mcp.tasks.formats.cases import EvalOptions, Evals, read_evals
from skillopt_mcp.tasks.judges.judging import score

SAMPLES = Path(__file__).parents[1] / "evals"
EXPECTED = sorted(
    path for name in ("inspect", "skillopt", "eval-yaml") for path in SAMPLES.glob(f"{name}/*/expected.json")
)


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: notes\ndescription: Takes notes.\n---\nTake notes.\n")
    return folder


def find_evals(folder: Path) -> Path:
    """The one file of a sample of rows, or its folder where it is read as a whole."""
    files = [path for path in folder.iterdir() if path.is_file() and path.name != "expected.json"]
    return files[0] if folder.parent.name == "inspect" else folder


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: f"{path.parts[-3]}/{path.parts[-2]}")
def test_a_sample_is_read_as_its_owner_reads_it(path: Path, cli: Cli, skill: Path, tmp_path: Path) -> None:
    expected = json.loads(path.read_text())
    evals, scorer = find_evals(path.parent), ["--scorer", expected["scorer"]] if "scorer" in expected else []
    store = tmp_path / "store.db"
    done = cli("tasks", "check", skill, evals, "--json", *scorer, store=store)
    read = json.loads(done.stdout)
    assert read["format"] == expected["format"]
    if "refused" in expected:
        assert done.returncode == 1
        assert all(each in read["refused"] for each in expected["refused"])
        return
    assert done.returncode == 0
    cases = {case["id"]: case for case in read["cases"]}
    lost = [(case["id"], each["what"]) for case in read["cases"] for each in case["lost"]]
    assert sorted(lost) == sorted((each["case"], each["what"]) for each in expected["lost"]) or "note" in expected
    verdicts = list[tuple[str, str, bool]]()
    for task in expected["tasks"]:
        case = cases[task["id"]] if "id" in task else next(c for c in read["cases"] if task["prompt"] in c["prompt"])
        assert case["kept"] or "scorer" not in expected
        for name in {"prompt", "split", "rubric"} & task.keys() - ({"prompt"} if "note" in expected else set()):
            assert case[name] == task[name]
        if "framed" in task:
            found = read_evals(evals, EvalOptions(expected.get("scorer", "")))
            assert found
            assert [each.prompt for each in found.cases if each.id == case["id"]] == [task["framed"]]
        if "files" in task:
            assert case["files"] == sorted(task["files"])
        verdicts += [(case["id"], *each) for each in task.get("verdicts", [])]
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps({"case": name, "answer": text}) + "\n" for name, text, _ in verdicts))
    if verdicts:
        tried = json.loads(cli("tasks", "try", skill, evals, "--answers", answers, "--json", *scorer).stdout)
        given = [(each["case"], each["passes"]) for each in tried["results"]]
        assert given == [(name, passes) for name, _, passes in verdicts]
    n_kept = sum(case["kept"] for case in read["cases"])
    for n in (n_kept, 0) if n_kept else ():
        added = cli("tasks", "add", skill, evals, "--json", *scorer, store=store)
        assert json.loads(added.stdout)["added"] == n


def write_evals(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content, "utf-8", "surrogatepass")
    return folder / name


def read(path: Path, scorer: str = "") -> Evals:
    found = read_evals(path, EvalOptions(scorer))
    assert found
    return found


def test_a_data_set_names_no_scorer_so_the_names_are_listed(cli: Cli, skill: Path, tmp_path: Path) -> None:
    path = SAMPLES / "inspect" / "jsonl" / "data.jsonl"
    found = json.loads(cli("tasks", "check", skill, path, "--json", store=tmp_path / "s.db").stdout)
    assert [case["kept"] for case in found["cases"]] == [False] * 3
    for name in ("match", "includes", "exact", "f1", "choice"):
        assert name in found["cases"][0]["lost"][0]["why"]
    # An id that is made of the content is the same whatever the scorer.
    with_scorer = json.loads(
        cli("tasks", "check", skill, path, "--json", "--scorer", "match", store=tmp_path / "s.db").stdout
    )
    assert [case["id"] for case in with_scorer["cases"]] == [case["id"] for case in found["cases"]]
    assert [case["kept"] for case in with_scorer["cases"]] == [True] * 3
    done = cli("tasks", "check", skill, path, "--json", "--scorer", "best", store=tmp_path / "s.db")
    assert done.returncode == 1
    assert "match" in json.loads(done.stdout)["refused"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", '{"input": "q", "target": "t"}\n{"target": "t"}\n', "row 2"),
        ("a.json", '[{"input": "q", "target": "t"}, 4]', "row 2"),
        ("a.csv", "input,target\nq,t\nq\n", "line 3"),
        ("a.jsonl", '{"id": 1, "input": "q", "target": "t"}\n{"id": "1", "input": "r", "target": "t"}\n', '"1"'),
    ],
)
def test_a_data_set_that_its_owner_refuses_is_refused_by_its_place(
    tmp_path: Path, name: str, content: str, words: str
) -> None:
    assert words in read(write_evals(tmp_path, name, content), "match").refused


def test_samples_are_written_back_as_they_were(cli: Cli, skill: Path, tmp_path: Path) -> None:
    for sample, scorer in (("choices", "choice"), ("jsonl", "match"), ("messages", "match"), ("table", "exact")):
        store = tmp_path / f"{sample}.db"
        evals = find_evals(SAMPLES / "inspect" / sample)
        before = json.loads(cli("tasks", "check", skill, evals, "--json", "--scorer", scorer, store=store).stdout)
        cli("tasks", "add", skill, evals, "--scorer", scorer, store=store)
        written = tmp_path / f"{sample}.jsonl"
        assert cli("tasks", "export", skill, written, "--format", "inspect", store=store).returncode == 0
        after = json.loads(cli("tasks", "check", skill, written, "--json", "--scorer", scorer, store=store).stdout)
        shown = [
            {name: case.get(name) for name in ("id", "prompt", "files")} for case in before["cases"] if case["kept"]
        ]
        assert [{name: case.get(name) for name in ("id", "prompt", "files")} for case in after["cases"]] == shown
        assert (
            json.loads(cli("tasks", "add", skill, written, "--json", "--scorer", scorer, store=store).stdout)["added"]
            == 0
        )


def test_splits_are_written_back_as_they_were(cli: Cli, skill: Path, tmp_path: Path) -> None:
    before = read(SAMPLES / "skillopt" / "environments")
    store, written = tmp_path / "s.db", tmp_path / "splits"
    cli("tasks", "add", skill, SAMPLES / "skillopt" / "environments", store=store)
    done = cli("tasks", "export", skill, written, "--format", "skillopt", store=store)
    assert done.returncode == 0, done.stderr
    assert list(read(written).cases) == [case for case in before.cases if not case.lost]


@pytest.mark.parametrize(
    ("content", "words"), [('{"data": []}', "must be a list"), ("[4]", "must be a list"), ("[", "cannot be decoded")]
)
def test_a_split_that_skillopt_cannot_load_is_refused_by_its_file(tmp_path: Path, content: str, words: str) -> None:
    for name in ("train", "val", "test"):
        (tmp_path / name).mkdir()
        write_evals(tmp_path / name, "items.json", '[{"question": "q?", "answers": ["a"]}]')
    write_evals(tmp_path / "val", "items.json", content)
    assert words in read(tmp_path).refused
    assert "val/items.json" in read(tmp_path).refused
    for name in ("val", "train"):
        (tmp_path / name / "items.json").unlink()
        assert name in read(tmp_path).refused


@pytest.mark.parametrize("header", ["a\rb,input,target", f"input,target,{'x' * 200_000}", "in\0put"])
def test_a_table_whose_header_cannot_be_read_is_no_data_set(tmp_path: Path, header: str) -> None:
    found = read_evals(write_evals(tmp_path, "a.csv", f"{header}\nq,t,z\n"), EvalOptions("match"))
    assert found
    assert "holds no case" in found.refused


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=6)
    | st.sampled_from(
        ["A", "text", "user", "data.jsonl", "output_matches", "output-contains", "exit_success", "prompt"]
    ),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "role",
                    "content",
                    "a.txt",
                    "../b",
                    "path",
                    "value",
                    "files",
                    "config",
                    "pattern",
                    "src",
                ]
            )
            | st.text(max_size=3),
            inside,
            max_size=3,
        )
    ),
    max_leaves=6,
)
FIELDS = {
    "eval.yaml": ("name", "prompt", "turns", "setup", "environment", "assertions", "graders", "rubric", "constraints"),
    "items.json": ("question", "answers", "answer", "choices", "correct_choice", "id", "context", "mcq", "task_type"),
    "data.jsonl": ("input", "target", "id", "choices", "files", "setup", "sandbox", "metadata"),
}


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), scorer=st.sampled_from(["", "match", "choice", "f1"]))
@pytest.mark.parametrize("name", FIELDS)
def test_whatever_a_file_holds_gives_cases_or_one_line(name: str, data: Any, scorer: str, tmp_path: Path) -> None:
    rows = data.draw(
        st.lists(st.dictionaries(st.sampled_from(FIELDS[name]), VALUES, max_size=6), min_size=1, max_size=3)
    )
    path = tmp_path
    for split in ("train", "val", "test") if name == "items.json" else ():
        (tmp_path / split).mkdir(exist_ok=True)
        write_evals(tmp_path / split, name, json.dumps(rows))
    if name == "eval.yaml":  # YAML holds JSON
        key = data.draw(st.sampled_from(["scenarios", "stimuli"]))
        named = [{"name": "a", "prompt": "p"} | row for row in rows]
        path = write_evals(tmp_path, name, json.dumps({key: named, "environment": rows[0].get("environment")}))
    if name == "data.jsonl":
        path = write_evals(tmp_path, name, "".join(json.dumps(row) + "\n" for row in rows))
    try:
        found = read_evals(path, EvalOptions(scorer))
    except BadInput:
        return
    for case in found.cases if found else ():
        try:
            task = case.make_task(partial=True)
        except BadInput:
            continue
        if task:
            assert isinstance(score(task.judge, "A"), Score | Unscored)
