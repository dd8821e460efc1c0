"""Tasks and judges: how tasks come in, stay in their splits and go, and what each kind of judge passes and fails."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.acceptance.doors import Workbench
from tests.acceptance.doors_care import LESSON, Desk, tasks_of

# Of each kind: a judge, answers that pass it and answers that fail it.
KINDS: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({"kind": "exact", "expected": ["2.0.0", "v2.0.0"]}, [" V2.0.0\n"], ["2.0.00", "is 2.0.0"]),
    ({"kind": "contains", "expected": ["BREAKING", "(#32)"]}, ["breaking: x (#32)"], ["BREAKING"]),
    ({"kind": "contains", "expected": ["a1", "b2"], "any": True}, ["only b2"], ["c3"]),
    ({"kind": "regex", "pattern": "feat/[a-z-]+", "full": True}, ["feat/new-x"], ["a feat/new-x", "feat/"]),
    ({"kind": "numeric", "expected": 42.5, "tolerance": 0.01}, ["first 7, then $42.505"], ["42.52", "none"]),
    ({"kind": "choice", "options": ["patch", "minor", "major"], "expected": "major"}, ["It is major"], ["minor"]),
    ({"kind": "f1", "expected": "the red house", "threshold": 0.8}, ["red house"], ["a blue boat"]),
    ({"kind": "anls", "expected": "kestrel"}, ["kestrell"], ["pigeon"]),
    ({"kind": "json", "fields": {"a.0.b": 1}}, ['{"a": [{"b": 1}]}'], ['{"a": [{"b": 2}]}', "no JSON"]),
    ({"kind": "command", "name": "own"}, ["42"], ["41"]),
    ({"kind": "rubric", "rubric": "Names the bird."}, ["a heron"], ["a stone"]),
    (
        {"kind": "all", "judges": [{"kind": "contains", "expected": "x9"}, {"kind": "length", "max": 3}]},
        ["x9 is it"],
        ["x9 is it, you see", "no"],
    ),
    (
        {"kind": "all", "judges": [{"kind": "contains", "expected": "x8"}, {"kind": "heading", "expected": "Top"}]},
        ["# Top\nx8"],
        ["Top\nx8"],
    ),
    (
        {
            "kind": "weighted",
            "judges": [
                {"judge": {"kind": "contains", "expected": "k1"}, "weight": 3},
                {"judge": {"kind": "contains", "expected": "k2"}, "weight": 1},
            ],
            "threshold": 0.7,
        },
        ["k1"],
        ["k2"],
    ),
]
MARK = "Answer well."


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Return a folder that every user can reach: run by root, a judge is run as another user."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def split_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {row["id"]: row["split"] for row in rows}


def test_every_kind_of_judge_passes_what_is_right_and_fails_what_is_wrong(
    bench: Workbench, scratch: Path, tmp_path: Path
) -> None:
    program = scratch / "judge.sh"
    program.write_text('#!/bin/sh\n[ "$(cat)" = 42 ]\n')
    program.chmod(0o755)
    judges_add(bench, program)
    words = iter(tasks_of(200, seed=11))
    tasks, rules = list[dict[str, Any]](), list[dict[str, Any]]()
    for judge, right, wrong in KINDS:
        for n in range(max(len(right), len(wrong))):
            prompt = next(words)["prompt"] + "."
            tasks.append({"prompt": prompt, "judge": judge, "split": "val"})
            rules.append({"match": [MARK, prompt], "reply": right[n % len(right)]})
            rules.append({"match": prompt, "reply": wrong[n % len(wrong)]})
    called = next(words)["prompt"] + "."
    tasks.append({"prompt": called, "judge": {"kind": "tool_called", "name": "Bash", "max": 1}, "split": "val"})
    call, other = ([{"role": "tool_call", "name": name, "content": "{}"}] for name in ("Bash", "Read"))
    rules.append({"match": [MARK, called], "reply": "done", "messages": call})
    rules.append({"match": called, "reply": "Bash was called", "messages": other})
    train = [{**row, "split": "train"} for row in tasks_of(6, seed=12)]
    held_out = {**next(words), "split": "test"}
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(map(json.dumps, [*tasks, *train, held_out])))
    added = bench.facts("tasks add", bench.skill_path, file)
    assert (added["added"], added["rejected"]) == (len(tasks) + 7, [])
    edit = {"op": "append", "content": MARK, "evidence": [1]}
    replies = {
        "rollout": [*rules, "nothing"],
        "judge": [{"match": "a heron", "reply": '{"reason": "r", "grade": "all"}'}, '{"reason": "r", "grade": "none"}'],
        "reflect": [json.dumps({"reasoning": "r", "edits": [edit]})],
        "merge": [json.dumps({"reasoning": "r", "edits": [edit], "merged_from": [[1]]})],
    }
    (tmp_path / "replies.json").write_text(json.dumps(replies))
    spec = f"scripted:{tmp_path / 'replies.json'}"
    done = bench.replay(target=spec, optimizer=spec, judge=spec, epochs=1, batch=6, out=tmp_path / "out")
    assert done["run_id"]
    history = json.loads((tmp_path / "out" / "history.json").read_text())
    assert (done["baseline_hard"], history[0]["candidate"]) == (0, 1)


def judges_add(bench: Workbench, program: Path, **limits: object) -> None:
    """Register a program as the judge `own`, unconfined where bubblewrap cannot run."""
    line = (*(f"--{n}={v}" for n, v in limits.items()), "--yes", "--", program)
    done = bench.run("tasks judges add", "own", *line)
    if "needs bubblewrap" in done.err:
        done = bench.run("tasks judges add", "own", "--unconfined", *line)
    assert done.exit_code == 0, done


def test_files_lines_and_cells_bring_the_same_tasks_and_none_twice(bench: Workbench, tmp_path: Path) -> None:
    more = {"tags": ["a", "b"], "files": {"x/y.txt": "é\n"}}
    rows = [{**row, "group": f"g {row['split']}", **more} for row in tasks_of(6)]
    cells = io.StringIO()
    table = csv.DictWriter(cells, list(rows[0]))
    table.writeheader()
    table.writerows({k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items()} for row in rows)
    texts = {"t.json": json.dumps(rows), "t.jsonl": "\n".join(map(json.dumps, rows)), "t.csv": cells.getvalue()}
    lists = []
    for name, text in texts.items():
        skill = bench.make_skill(name.replace(".", "-"))
        (tmp_path / name).write_text(text)
        assert bench.facts("tasks add", skill, tmp_path / name)["added"] == 6
        again = bench.facts("tasks add", skill, tmp_path / name)
        assert (again["added"], again["duplicates"]) == (0, 6)
        lists.append(bench.facts("tasks list", skill)["tasks"])
    assert lists[0] == lists[1] == lists[2]
    assert [row["prompt"] for row in lists[0]] == [row["prompt"] for row in rows]
    for name, content in [("u.jsonl", b'{"prompt": 1\n'), ("u.json", b"\xff\xfe"), ("u.csv", b"id,prompt\n1\n")]:
        (tmp_path / name).write_bytes(content)
        assert bench.run("tasks add", bench.skill_path, tmp_path / name, json=True).exit_code == 1
    assert bench.facts("skills")["skills"]


def test_a_bad_row_is_named_by_its_position_and_the_others_come_in(bench: Workbench, tmp_path: Path) -> None:
    good = tasks_of(12)
    bad = {
        2: {**good[0], "id": "k", "judge": {"kind": "exakt", "expected": "1"}},
        4: {**good[2], "prompt": "another matter altogether", "id": good[1]["id"]},
        5: {"prompt": "no judge"},
        7: {**good[3], "id": "s", "split": "trian"},
        8: {**good[4], "id": "z", "expected": "1"},
        10: {**good[5], "id": "c", "judge": {"kind": "command", "name": "nope"}},
    }
    rest = iter(good)
    rows = [bad[n] if n in bad else next(rest) for n in range(12)]
    rows = [*rows, {**good[0], "split": "val", "id": "leak"}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    checked = bench.facts("tasks check", bench.skill_path, tmp_path / "t.jsonl", exit_code=1)
    assert len(checked["problems"]) >= len(bad) - 1
    added = bench.facts("tasks add", bench.skill_path, tmp_path / "t.jsonl", exit_code=1)
    assert set(bad) <= {row["index"] for row in added["rejected"]}
    assert {row["index"] for row in added["rejected"]} <= {*bad, 12}
    assert added["added"] == 6
    listed = bench.facts("tasks list", bench.skill_path)["tasks"]
    assert split_of(listed) == split_of(good[:6])


def test_a_split_is_frozen_whatever_comes_later(bench: Workbench, tmp_path: Path) -> None:
    def add(rows: list[dict[str, Any]], exit_code: int = 0) -> dict[str, str]:
        (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
        bench.run("tasks add", bench.skill_path, tmp_path / "t.jsonl", json=True)
        return split_of(bench.facts("tasks list", bench.skill_path)["tasks"])

    rows = [{name: value for name, value in row.items() if name != "split"} for row in tasks_of(30)]
    first = add(rows[:12])
    assert sorted(first.values()) == ["test"] * 8 + ["train"] * 4
    other = {"train": "test", "test": "train"}
    for changed in ({}, {"judge": {"kind": "exact", "expected": "another"}}):
        moved = [{**row, **changed, "id": f"m{n}", "split": other[first[row["id"]]]} for n, row in enumerate(rows[:12])]
        assert add(moved) == first
    later = add(rows)
    assert {name: later[name] for name in first} == first
    assert sorted(later.values()) == ["test"] * 20 + ["train"] * 10


def test_a_removed_task_is_used_no_more_and_verdicts_stay(desk: Desk, tmp_path: Path) -> None:
    before = {row["id"]: row["verdict"] for row in desk.facts("show", desk.skill_path)["skill.candidates"]}
    rows = tasks_of()
    gone = [row for row in rows if row["split"] == "test"]
    ids = [row["id"] for row in gone]
    refused = desk.run("tasks remove", desk.skill_path, *ids, reason="wrong", yes=True)
    assert (refused.exit_code, "only a person at a terminal" in refused.err) == (1, True), "a person looked at them"
    assert desk.at_terminal("tasks remove", desk.skill_path, *ids, reason="wrong").exit_code == 0
    left = desk.facts("tasks list", desk.skill_path)["tasks"]
    assert split_of(left) == split_of([row for row in rows if row not in gone])
    kept = desk.facts("tasks list", desk.skill_path, all=True)["tasks"]
    assert split_of(kept) == split_of(rows)
    after = {row["id"]: row["verdict"] for row in desk.facts("show", desk.skill_path)["skill.candidates"]}
    assert (after, desk.verify()) == (before, 0)
    corrected = {**gone[0], "judge": {"kind": "exact", "expected": "vale"}}
    corrected.pop("split")
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, [corrected, gone[1]])))
    added = desk.at_terminal("tasks add", desk.skill_path, tmp_path / "t.jsonl")
    assert "1 added" in added.out, "the same task does not come back"
    now = desk.facts("tasks list", desk.skill_path)["tasks"]
    assert split_of(now)[gone[0]["id"]] == "test"
    assert desk.promote("good")["status"] == "promoted"
    assert LESSON.encode() in desk.skill_file.read_bytes()


def test_what_a_check_finds_in_a_file(bench: Workbench, tmp_path: Path) -> None:
    fine = tasks_of(33)
    (tmp_path / "fine.jsonl").write_text("\n".join(map(json.dumps, fine)))
    assert bench.facts("tasks check", bench.skill_path, tmp_path / "fine.jsonl")["problems"] == []
    for n, judge in enumerate(
        [
            {"kind": "regex", "pattern": ".*"},
            {"kind": "length", "max": 9},
            {"kind": "contains", "expected": "greet"},
            {"kind": "regex", "pattern": "("},
        ]
    ):
        (tmp_path / "bad.jsonl").write_text(json.dumps({**fine[3], "judge": judge}))
        found = bench.facts("tasks check", bench.skill_path, tmp_path / "bad.jsonl", exit_code=1)
        assert found["problems"], n


def test_a_program_that_judges_is_registered_by_a_person_and_stops_where_it_changed(
    desk: Desk, scratch: Path, tmp_path: Path
) -> None:
    program, seen = scratch / "judge.sh", tmp_path / "replies.json"
    program.write_text('#!/bin/sh\nread answer\n[ "$answer" = salve ]\n')
    program.chmod(0o755)
    judges = [{"kind": "command", "name": "own"}] * 2 + [{"kind": "exact", "expected": "salve"}] * 10
    rows = [{**row, "judge": judge} for row, judge in zip(tasks_of(12, seed=5), judges, strict=True)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    skill = desk.make_skill("other")
    assert desk.run("tasks add", skill, tmp_path / "t.jsonl", json=True).facts["added"] == 10
    assert desk.run("tasks judges add", "own", "--", program).exit_code == 1, "it needs a yes"
    judges_add(desk, program)
    assert desk.facts("tasks add", skill, tmp_path / "t.jsonl")["added"] == 2
    replies = {"rollout": [{"match": LESSON, "reply": "salve"}, {"match": "slow", "reply": "wait"}, "hm"]}
    seen.write_text(json.dumps(replies))
    with desk.serve(target=f"scripted:{seen}") as server:
        first, second = (desk.propose(server, LESSON + text, skill=skill) for text in ("", " Again."))
        tested = server.tool("evaluate_candidate", candidate_id=first)
        while tested["status"] == "running":
            tested = server.tool("evaluate_candidate", candidate_id=first)
        assert (tested.verdict, desk.tested(first).solved) == ("better", (0.0, 1.0))
    program.write_text("#!/bin/sh\nexit 0\n")
    assert desk.run("evaluate", second, target=f"scripted:{seen}", yes=True).exit_code == 1
    assert desk.facts("show", second)["candidate.verdict"] is None
