"""`claude plugin eval`: its folders through the front door, and hostile ones through the reader."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillopt_mcp.core.calls import TOOL_CALL, Message
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Score, Unscored
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.tasks.formats.cases import Case, EvalOptions, read_evals
from skillopt_mcp.tasks.formats.plugin_eval import write_plugin_eval
from skillopt_mcp.tasks.judges.judging import parse_judge, score
from tests.cli.conftest import Cli

SAMPLES = Path(__file__).parents[1] / "evals" / "plugin-eval"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode("utf-8", "surrogatepass"))
    return root


def read(path: Path, *, events: bool = False) -> dict[str, Case]:
    evals = read_evals(path, EvalOptions(events=events))
    assert evals
    assert not evals.refused
    return {case.id: case for case in evals.cases}


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("", {"de/hello", "en/hello", "from-yaml", "scaffold"}),
        ("evals", {"de/hello", "en/hello", "from-yaml", "scaffold"}),
        ("evals/de", {"hello"}),
        ("evals/de/hello", {"hello"}),
        ("evals/mixed/case.yaml", {"from-yaml"}),
        ("evals/mixed/prompt.md", {"from-yaml"}),
    ],
)
def test_a_path_is_a_plugin_its_evals_a_group_or_a_case(path: str, names: set[str]) -> None:
    assert read(SAMPLES / "groups" / path).keys() == names


def test_results_that_lie_beside_are_counted_and_cases_in_no_evals_are_none(cli: Cli, tmp_path: Path) -> None:
    skill = write(tmp_path / "s", {"SKILL.md": "---\nname: s\ndescription: Says.\n---\n\nBe brief.\n"})
    for sample in SAMPLES.iterdir():
        expected = json.loads((sample / "expected.json").read_text())
        found = json.loads(cli("tasks", "check", str(skill), str(sample), "--json").stdout)
        assert (found.get("results") or {}) == expected.get("results", {})
        assert len(found["cases"]) == expected.get("n_cases", len(found["cases"]))


def test_results_of_two_cases_of_one_name_are_each_its_own(tmp_path: Path) -> None:
    """A case at the top has the last part of the other's path."""
    for folder in ("x", "z/x"):
        shutil.copytree(SAMPLES / "groups" / "evals" / "de" / "hello", tmp_path / "evals" / folder)
    runs = {"evals/z/x": [{"score": 1.0}, {"score": 0.0}], "evals/x": [{"error": "stopped", "score": 0.0}]}
    rows = [{"name": "x", "dir": folder, "arms": {"with": each, "without": []}} for folder, each in runs.items()]
    write(tmp_path / "evals" / "results" / "1", {"aggregate-result.json": json.dumps({"cases": rows})})
    evals = read_evals(tmp_path, EvalOptions())
    assert evals
    assert evals.results == {
        "z/x": {"attempts": 2, "scored": 2, "not_scored": 0}, "x": {"attempts": 1, "scored": 0, "not_scored": 1},
    }  # fmt: skip


def test_what_is_exported_is_read_again_as_it_was(cli: Cli, tmp_path: Path) -> None:
    skill = write(
        tmp_path / "skills" / "bump", {"SKILL.md": "---\nname: bump\ndescription: Bumps.\n---\n\nBe brief.\n"}
    )
    shutil.copytree(SAMPLES / "groups" / "evals", tmp_path / "plugin" / "evals")
    assert cli("tasks", "add", str(skill), str(tmp_path / "plugin"), "--json").returncode == 0
    out = tmp_path / "out"
    assert cli("tasks", "export", str(skill), str(out), "--format", "plugin-eval").returncode == 0
    before, after = read(tmp_path / "plugin"), read(out)
    assert {name: (each.prompt, each.judge, each.tags) for name, each in after.items()} == {
        name: (before[name].prompt, before[name].judge, before[name].tags) for name in before if name != "scaffold"
    }


def test_calls_of_tools_are_judged_where_they_are_recorded(tmp_path: Path) -> None:
    case = {"p/evals/c/prompt.md": "Go.", "p/evals/c/graders/text.md": "---\ntype: regex\n---\nok"}
    case["p/evals/c/graders/reads.md"] = (
        '---\ntype: tool_used\ntool: Read\nmax: 2\ninput_match: \'"file":"a\\.md"\'\n---\n'
    )
    case["p/evals/c/graders/order.md"] = (
        "---\ntype: tool_order\nbefore: Read\nafter: {tool: Edit, input_match: 'b$|b\"'}\n---\n"
    )
    write(tmp_path, case)
    assert [each.reason for each in read(tmp_path)["c"].lost] == ["needs events"] * 2
    found = read(tmp_path, events=True)["c"]
    assert not found.lost
    assert found.judge
    judge = parse_judge(json.loads(found.judge.model_dump_json()))

    def say(*calls: tuple[str, dict[str, Any]]) -> bool | None:
        messages = [Message(TOOL_CALL, json.dumps(given), name) for name, given in calls]
        outcome = score(judge, "ok", messages)
        return outcome.hard if isinstance(outcome, Score) else None

    reads, edits = ("Read", {"file": "a.md"}), ("Edit", {"file": "b"})
    assert say(reads, edits) is True
    assert say(edits, reads) is False
    assert say(reads, reads, reads, edits) is False
    assert say(("read", {"file": "a.md"}), edits) is False
    assert say() is None
    assert isinstance(score(judge, "no"), Score | Unscored)


@pytest.mark.parametrize(
    ("front", "why"),
    [
        ("max_turn: 3", "unknown key max_turn in evals/c/prompt.md"),
        ("max_turns: many", "max_turns"),
        ("tags: fast", "tags"),
        ("env: {N: 1}", "env"),
        ("runs: 51", "runs"),
        ("schema_version: '2.0'", "schema_version"),
        ("- a", "no object of YAML"),
        ("a: [", "not YAML"),
        ("tags: &a [*a]", "tags"),
        ("name: ''", "name"),
    ],
)
def test_what_its_owner_does_not_load_is_lost_by_name(tmp_path: Path, front: str, why: str) -> None:
    write(tmp_path, {"evals/c/prompt.md": f"---\n{front}\n---\nHi", "evals/c/graders/a.md": "---\ntype: regex\n---\na"})
    (lost,) = next(iter(read(tmp_path).values())).lost
    assert lost.what == "case"
    assert why in lost.why


def test_a_fault_of_a_grader_is_named_with_its_file(tmp_path: Path) -> None:
    write(tmp_path, {"evals/c/prompt.md": "Hi", "evals/c/graders/a.md": "---\ntype: regex\nwieght: 2\n---\na"})
    assert "unknown key wieght in evals/c/graders/a.md" in read(tmp_path)["c"].lost[0].why


@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
def test_a_link_out_of_the_plugin_is_not_followed(tmp_path: Path) -> None:
    write(
        tmp_path, {"secret.md": "the secret", "p/evals/a/graders/a.md": "---\ntype: regex\n---\na", "p/evals/b/x": ""}
    )
    (tmp_path / "p/evals/a/prompt.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "p/evals/b/prompt.md").write_text("Hi")
    (tmp_path / "p/evals/b/graders").symlink_to(tmp_path)
    (tmp_path / "p/evals/loop").symlink_to(tmp_path / "p/evals")
    for case in read(tmp_path / "p").values():
        assert "the secret" not in repr(case)
        assert "outside of" in case.lost[0].why


_KEYS = [
    "type", "name", "pattern", "match", "flags", "target", "weight", "arm", "tool", "min", "max", "before", "after",
    "criteria", "graders", "execution", "prompt", "context", "schema_version", "tags", "env", "runs", "cases", "arms",
]  # fmt: skip
_KINDS = st.sampled_from(["regex", "tool_used", "tool_order", "llm", "file_exists", "baseline"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | _KINDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=6),
    max_leaves=12,
)
_TEXTS = st.text(max_size=40) | st.sampled_from(
    ["---\na: &a [*a]\n---\n", "---\n", "---\nx: !!python/object:os.system a\n---", "%"]
)
_GRADERS = st.fixed_dictionaries({"type": _KINDS}, optional=dict.fromkeys(_KEYS[2:14], _VALUES))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(_VALUES, _TEXTS, _TEXTS, _GRADERS, _VALUES)
def test_no_folder_makes_the_reader_crash(
    tmp_path: Path, case: object, prompt: str, grader: str, row: dict[str, Any], result: object
) -> None:
    shutil.rmtree(tmp_path / "evals", ignore_errors=True)
    wrapped = {"schema_version": "1.1", "name": "w", "execution": {"prompt": "Hi"}, "graders": [{**row, "name": "g"}]}
    write(tmp_path, {
        "evals/a/case.yaml": json.dumps(case), "evals/b/prompt.md": prompt, "evals/b/graders/a.md": grader,
        "evals/c/case.yaml": json.dumps(wrapped), "evals/results/1/aggregate-result.json": json.dumps(result),
        "evals/d/case.yaml": prompt, "evals/e/prompt.md": f"---\n{prompt}\n---\n{grader}",
    })  # fmt: skip
    for events in (False, True):
        found = read(tmp_path, events=events)
        for each in found.values():
            if each.judge:
                score(each.judge, prompt)
                with_task = each.make_task(partial=True)
                assert with_task is None or with_task.prompt


def test_no_two_tasks_are_written_into_one_folder(tmp_path: Path) -> None:
    judge = parse_judge({"kind": "js_regex", "pattern": "a"})
    names = ["a-2", "a", "a!", "A", "results", "../a", ".", "a/b", "日本"]
    tasks = [Task(n, 1, name, name, judge, "train", str(n)) for n, name in enumerate(names)]
    for place, text in write_plugin_eval(tasks, tmp_path).items():
        write(tmp_path, {str(place.relative_to(tmp_path)): text})
    assert {case.id: case.prompt for case in read(tmp_path).values()} == {name: name for name in names}


def test_a_task_that_it_cannot_say_is_named(cli: Cli, tmp_path: Path) -> None:
    skill = write(tmp_path / "skills" / "s", {"SKILL.md": "---\nname: s\ndescription: Says.\n---\n\nBe brief.\n"})
    rows = write(tmp_path, {"rows.csv": "prompt,expected\nHi,hello\n"}) / "rows.csv"
    assert cli("tasks", "add", str(skill), str(rows)).returncode == 0
    done = cli("tasks", "export", str(skill), str(tmp_path / "out"), "--format", "plugin-eval")
    assert done.returncode != 0
    assert "judged by exact" in done.stderr


def test_a_pattern_of_the_judge_is_checked() -> None:
    for row in [{"pattern": "(a"}, {"pattern": "a(?=b)"}, {"pattern": ""}, {"pattern": "(a*)*", "match": "count:2"},
                {"pattern": "a", "match": "count:1000000"}]:  # fmt: skip
        with pytest.raises(BadInput):
            parse_judge({"kind": "js_regex", **row})
