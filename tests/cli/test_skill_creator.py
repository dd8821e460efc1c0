"""skill-creator's evals and trigger sets: hostile files, files that cases name, earlier results, and the way back."""

from __future__ import annotations

import json
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.tasks.formats.cases import Case, EvalOptions, Evals, read_evals
from skillopt_mcp.tasks.formats.skill_creator import POINTS, PROMPTS, TRIGGERS
from tests.cli.conftest import Cli

NAMES = (
    *PROMPTS[:3], *POINTS[:3], *TRIGGERS[:2], "id", "name", "text", "files", "expected_output", "evals", "queries",
    "should_not_trigger", "positive", "runs", "value", "command", "tags",
)  # fmt: skip
TEXTS = st.text(max_size=6) | st.sampled_from(["../x", "/etc/hostname", "SKILL.md", "\ud800", "\0", "a" * 5000, " "])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=25,
)


def put(folder: Path, path: str, value: object) -> Path:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return place


def read(path: Path) -> Evals:
    found = read_evals(path, EvalOptions())
    assert found
    return found


@settings(deadline=None, max_examples=300)
@given(VALUES)
def test_whatever_a_file_holds_its_cases_are_read_or_it_is_refused(value: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = put(Path(folder), "evals/evals.json", json.dumps(value))
        put(Path(folder), "evals/benchmark.json", json.dumps(value))
        found = read_evals(place, EvalOptions())
        for case in found.cases if found else ():
            assert case.id
            assert all(not file.path.startswith(("/", "..")) for file in case.files)
            with suppress(BadInput):
                case.make_task(partial=True)


def test_files_are_found_from_the_skill_the_cases_and_the_repository_and_nowhere_else(tmp_path: Path) -> None:
    skill = tmp_path / "repo" / "skills" / "changelog"
    put(skill, "SKILL.md", "---\nname: changelog\n---\n")
    put(skill, "templates/own.md", "of the skill's folder")
    put(skill, "scripts/run.sh", "part of the skill")
    put(skill, "evals/files/a.txt", "a")
    put(tmp_path / "repo", "shared/b.txt", "b")
    put(tmp_path / "repo", ".env", "KEY=1")
    put(tmp_path, "outside.txt", "no")
    (skill / "evals" / "link.txt").symlink_to(tmp_path / "outside.txt")
    named = {
        "evals/files/a.txt": "a", "files/a.txt": "a", "skills/changelog/evals/files/a.txt": "a", "shared/b.txt": "b",
        "templates/own.md": "of the skill's folder", "SKILL.md": None, "skills/changelog/SKILL.md": None,
        "references/gone.md": None, "scripts/run.sh": None,
        ".env": "lost", "../../../outside.txt": "lost", "evals/link.txt": "lost", str(tmp_path / "outside.txt"): "lost",
    }  # fmt: skip
    rows = [{"id": path, "prompt": "p", "files": [path], "assertions": ["x"]} for path in named]
    (tmp_path / "repo" / ".git").mkdir()
    cases = read(put(skill, "evals/evals.json", {"evals": rows}).parent.parent).cases
    found = {case.id: "lost" if case.lost else next((file.content for file in case.files), None) for case in cases}
    assert found == named


@pytest.mark.parametrize(
    ("row", "what", "why"),
    [
        ({"assert": [{"type": "contains", "value": "X"}]}, "assert", "cannot"),
        ({"validation": "exit 0"}, "validation", "runs code"),
        ({"forbidden": ["x"]}, "forbidden", "cannot"),
        ({"command": "pytest"}, "command", "runs code"),
        ({"expected_tool_calls": ["Bash"]}, "expected_tool_calls", "cannot"),
        ({"max_words": 0}, "max_words", "cannot"),
        ({"setup": "make"}, "setup", "runs code"),
        ({"turns": ["a", "b"]}, "turns", "cannot"),
        ({"input": "the text to work on"}, "input", "cannot"),
        ({"assertions": [{"text": "a", "type": "regex", "expected": "x+"}]}, "regex", "cannot"),
        ({"assertions": [{"text": "a", "type": "tool_called", "tool": "Bash"}]}, "tool_called", "cannot"),
        ({"assertions": [{"type": "content_contains", "value": "v", "check": ""}]}, "content_contains", "cannot"),
        ({"assertions": [{"text": "a", "type": "contains"}]}, "contains", "cannot"),
        ({"assertions": [{"text": "a", "expected": False}]}, "expected", "cannot"),
        ({"assertions": [{"command": "make lint"}]}, "command", "runs code"),
        ({"assertions": [{"description": "d", "check": "grep x out"}]}, "check", "cannot"),
    ],
)  # fmt: skip
def test_a_field_that_could_be_a_grader_is_lost_by_name(
    cli: Cli, tmp_path: Path, row: dict[str, Any], what: str, why: str
) -> None:
    put(tmp_path, "s/SKILL.md", "---\nname: s\ndescription: d\n---\nB\n")
    about = {"name": "n", "category": "c", "tags": ["t"], "priority": 1, "notes": "n", "skip": None, "context": ""}
    plain = {"id": 1, "prompt": "p", "expected_output": "o", **about}
    points = {"assertions": [{"id": "a", "text": "one", "type": "llm"}, {"name": "b", "description": "two"}]}
    rows = [plain | points | row, plain | points | {"id": 2}]
    place = put(tmp_path, "s/evals/evals.json", {"skill_name": "s", "evals": rows})
    first, second = json.loads(cli("tasks", "check", tmp_path / "s", place, "--json").stdout)["cases"]
    assert second["kept"]
    assert (second["rubric"], second["lost"]) == (["one", "two"], [])
    assert not first["kept"]
    assert [each["what"] for each in first["lost"]] == [what]
    assert first["lost"][0]["why"].startswith(why)


def test_graders_that_stand_for_all_cases_are_lost_in_each(tmp_path: Path) -> None:
    rows = [{"id": 1, "prompt": "p", "expectations": ["a"]}]
    [case] = read(put(tmp_path, "evals/evals.json", {"evals": rows, "expectations": ["b"], "notes": "n"})).cases
    assert [each.what for each in case.lost] == ["expectations"]


def test_earlier_results_are_counted_in_the_workspace_next_to_the_skill(tmp_path: Path) -> None:
    skill, workspace = tmp_path / "changelog", tmp_path / "changelog-workspace"
    put(skill, "evals/evals.json", {"evals": [{"id": n, "prompt": "p", "assertions": ["x"]} for n in (0, "own")]})
    graded = {"expectations": [], "summary": {"passed": 1, "failed": 0, "total": 1, "pass_rate": 1.0}}
    put(workspace, "iteration-1/eval-0/with_skill/grading.json", graded)
    put(workspace, "iteration-1/eval-0/without_skill/run-1/grading.json", {"summary": None})
    put(workspace, "iteration-1/eval-own/with_skill/run-1/grading.json", "{broken")
    assert read(skill).results == {"0": {"attempts": 2, "scored": 1, "not_scored": 1}}
    runs = [{"eval_id": "own", "configuration": "with_skill", "result": {"pass_rate": 0.5}}, {"eval_id": 7}]
    put(workspace, "iteration-2/benchmark.json", {"metadata": {}, "runs": runs})
    assert read(skill).results == {"own": {"attempts": 1, "scored": 1, "not_scored": 0}}


def test_ids_that_come_again_take_no_time(tmp_path: Path) -> None:
    ids = [each for n in range(2, 5001) for each in ("a", f"a-{n}")]
    begun = time.process_time()
    cases = read(put(tmp_path, "evals.json", {"evals": [{"id": id, "prompt": "p"} for id in ids]})).cases
    assert len({case.id for case in cases}) == len(ids)
    assert time.process_time() - begun < 3


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    return put(tmp_path, "skills/changelog/SKILL.md", "---\nname: changelog\ndescription: x\n---\nBe brief.\n").parent


ROWS: dict[str, list[dict[str, Any]]] = {
    "skill-creator": [
        {"id": 0, "prompt": "Zero", "expectations": ["Is first", "Is \"short\""], "files": ["evals/files/a b.txt"]},
        {"id": "007", "prompt": "Seven\nlines é", "assertions": [{"text": "t"}], "tags": ["x"]},
    ],
    "trigger": [
        {"id": 3, "query": "Cut a release", "should_trigger": True},
        {"query": "What is semver?", "should_trigger": False},
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", ROWS)
def test_what_is_exported_is_read_back_equal(cli: Cli, skill: Path, tmp_path: Path, form: str) -> None:
    name = "evals.json" if form == "skill-creator" else "trigger-eval.json"
    put(tmp_path, "theirs/evals/files/a b.txt", "feat: x\n")
    put(tmp_path, f"theirs/evals/{name}", ROWS[form])
    added = cli("tasks", "add", skill, tmp_path / "theirs", "--json")
    assert json.loads(added.stdout)["added"] == 2, added.stderr
    done = cli("tasks", "export", skill, tmp_path / "ours", "--format", form)
    assert done.returncode == 0, done.stderr

    def cases(folder: str) -> list[Case]:
        return sorted(read(tmp_path / folder).cases, key=lambda each: each.id)

    assert cases("ours") == cases("theirs")
    assert json.loads(cli("tasks", "add", skill, tmp_path / "ours", "--json").stdout)["added"] == 0


@pytest.mark.parametrize("form", ROWS)
def test_a_judge_that_the_format_has_no_words_for_is_named(cli: Cli, skill: Path, tmp_path: Path, form: str) -> None:
    rows = [
        {"id": "other", "prompt": "2 + 2?", "judge": {"kind": "exact", "expected": "4"}},
        {"id": "graded", "prompt": "Name it.", "judge": {"kind": "rubric", "points": ["x"], "votes": 5}},
        {"id": "asked", "prompt": "Cut it.", "judge": {"kind": "opens", "expected": True}},
    ]
    assert cli("tasks", "add", skill, put(tmp_path, "rows.json", rows)).returncode == 0
    done = cli("tasks", "export", skill, tmp_path / "ours", "--format", form)
    assert done.returncode == 1
    refused = ["other", "graded", "asked"] if form == "skill-creator" else ["other", "graded"]
    assert all(f'"{name}"' in done.stderr for name in refused)
    assert ('"asked"' in done.stderr) is (form == "skill-creator")
    assert not (tmp_path / "ours").exists()


def test_a_trigger_set_is_measured_and_tested_at_the_command_line(cli: Cli, make_place: Any, tmp_path: Path) -> None:
    place = make_place(n_tasks=0)
    asked = [(f"Cut release {n} of the {thing}", True) for n, thing in enumerate(["app", "site", "tool", "game"])]
    asked += [(f"Paint picture {n} of a {thing}", False) for n, thing in enumerate(["cat", "hill"])]
    put(tmp_path, "set.json", {"queries": [{"query": text, "should_trigger": wanted} for text, wanted in asked]})
    added = cli("tasks", "add", place.skill_path, tmp_path / "set.json", "--json", store=place.store_path)
    assert json.loads(added.stdout)["added"] == 6, added.stderr

    def answer(state: str) -> dict[str, Any]:
        return {"reply": "ok", "messages": [{"role": "skill", "content": state, "name": "ledger-clerk"}]}

    rules = [{"match": ["Keeps versions", "Cut release"], **answer("opened")}, {"match": "", **answer("not opened")}]
    script = put(tmp_path, "script.json", {"rollout": [{"match": "Paint picture 0", **answer("opened")}, *rules]})
    target = ("--target", f"scripted:{script}", "--json")
    found = json.loads(cli("evaluate", place.skill_path, "--baseline", 2, *target, store=place.store_path).stdout)
    assert found["triggering"] == {"attempts": 12, "precision": 0.0, "recall": 0.0}
    done = cli("evaluate", place.skill_path, "--baseline", 2, *target[:2], store=place.store_path)
    assert "Opened as the tasks ask: precision 0%, recall 0%." in done.stdout
    text = place.main.read_text().replace("description: ", "description: Keeps versions. ", 1)
    new = put(tmp_path, "new.md", text)
    tested = cli("evaluate", place.skill_path, "--file", new, *target, "--max-pairs", 4, store=place.store_path)
    test = json.loads(tested.stdout)["test"]
    assert set(test["triggering"]) == {"base", "candidate"}
    shown = json.loads(cli("show", test["test_id"], "--json", store=place.store_path).stdout)
    assert shown["test"]["report"]["triggering"] == test["triggering"]
    refused = cli("evaluate", place.skill_path, "--baseline", "--target", "simulated:honest", store=place.store_path)
    assert refused.returncode == 1
    assert "left out: 6 tasks on whether the skill opens, which 'simulated:honest" in refused.stderr
    row = {"prompt": "2 + 2?", "split": "test", "judge": {"kind": "exact", "expected": "4"}}
    cli("tasks", "add", place.skill_path, put(tmp_path, "row.json", [row]), store=place.store_path)
    mixed = cli(
        "evaluate", place.skill_path, "--file", new, *target[:2], "--dry-run", "--again", store=place.store_path
    )
    assert "tasks ask whether the skill opens, the others for an answer" in mixed.stderr
    assert "left out" not in mixed.stderr


def test_a_trigger_set_without_the_persons_other_skills_is_said_to_be(
    cli: Cli, make_place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "claude", "#!/bin/sh\necho 2.1.0\n").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    place = make_place(n_tasks=0)
    rows = [{"query": f"Cut release {n}", "should_trigger": n % 2 == 0} for n in range(12)]
    cli("tasks", "add", place.skill_path, put(tmp_path, "set.json", rows), store=place.store_path)
    new = put(tmp_path, "new.md", place.main.read_text().replace("description: ", "description: Cuts. ", 1))
    asked = ("evaluate", place.skill_path, "--file", new, "--target", "claude-code:haiku", "--dry-run")
    for options, is_said in (((), True), (("--among-my-skills",), False)):
        done = cli(*asked, *options, store=place.store_path)
        assert (done.returncode, "tested without your others" in done.stderr) == (0, is_said), done.stderr
