"""`claude plugin eval`: it takes the cases that we write, and its verdicts are ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from fake_anthropic import Messages
from real_hosts import claude_settings, folders, host_environment
from scripted_model import Json, serving

from skillopt_mcp.core.judging import Score, judge_json
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.tasks.formats.cases import EvalOptions, Evals, read_evals
from skillopt_mcp.tasks.formats.plugin_eval import write_plugin_eval
from skillopt_mcp.tasks.judges.judging import leaves, parse_judge, score

pytestmark = pytest.mark.hosts

ANSWER = "So:\r\n2.0.0 is next, K\u2028not 1.5.0 \U0001f600"
PATTERNS = [
    (r"^2\.0\.0", "m", "contains"),
    (r"^2\.0\.0", "", "contains"),
    (r"1\.5\.0", "", "not_contains"),
    (r"\bk\b", "i", "contains"),
    (r"\d+\.\d+\.\d+", "", "count:2"),
    (r"^.", "gm", "count:3"),
    ("^.{37}$", "s", "contains"),
    (r"\s$", "m", "count:0"),
    (r"\u{1F600}$", "u", "contains"),
    (r"next.*not", "", "contains"),
    ("x*", "", "count:40"),
]
SAMPLES = [path for path in (Path(__file__).parents[1] / "evals" / "plugin-eval").iterdir() if path.is_dir()]


def make_plugin(place: Path) -> Path:
    """Make an empty plugin in the project of a place."""
    plugin = folders(place)[1] / "bump"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin" / "plugin.json").write_text('{"name": "bump", "version": "1.0.0"}')
    return plugin


def run(place: Path, plugin: Path, answer: str) -> dict[str, Json]:
    """Run a plugin's evals once with a model that always gives one answer: {case: what was reported of it}."""
    binary = os.environ.get("CLAUDE")
    if not binary:
        pytest.skip("CLAUDE names no binary: see .ci/hosts")
    (home, project), report = folders(place), place / "out.json"
    command = [binary, "plugin", "eval", str(plugin), "--json", str(report), "--trust-plugin", "--runs", "1"]
    command += ["--no-publish", "--model", "claude-sonnet-4-5", "--concurrency", "4"]
    with serving(Messages, lambda results: [answer]) as model:
        done = subprocess.run(
            command, cwd=project, env=host_environment(home, claude_settings(home, model.port)), timeout=180,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert report.exists(), (done.stdout, done.stderr)
    return {each["name"]: each for each in json.loads(report.read_text())["cases"]}


def read(path: Path, *, events: bool = False) -> Evals:
    """Read the evals of a plugin."""
    evals = read_evals(path, EvalOptions(events=events))
    assert evals
    return evals


def test_its_verdicts_on_what_we_write_are_ours(tmp_path: Path) -> None:
    plugin = make_plugin(tmp_path)
    regexes = [{"kind": "js_regex", "pattern": a, "flags": b, "match": c} for a, b, c in PATTERNS]
    tools = [
        {"kind": "tool_called", "name": "Read", "max": 0, "min": 0},
        {"kind": "tool_called", "name": "Skill", "input_match": "bump"},
        {"kind": "tool_order", "before": {"tool": "Read"}, "after": {"tool": "Glob", "input_match": "^\\{"}},
    ]
    parts = [{"judge": each, "weight": n + 1} for n, each in enumerate([*regexes, *tools])]
    judge = parse_judge({"kind": "weighted", "judges": parts, "threshold": 1.0})
    rubric = parse_judge({"kind": "rubric", "points": ["names a version", "says: why"]})
    cases = [
        ("next: a/b", "---\nThe last tag is 1.4.2.\x85\u2028\n\n# Next?  ", judge),
        ("results", "Hi \U0001f600", rubric),
    ]
    tasks = [
        Task(n, 1, name, prompt, each, "train", f"digest-{n}", ("bump", "yes", "012"))
        for n, (name, prompt, each) in enumerate(cases)
    ]
    for place, text in write_plugin_eval(tasks, plugin).items():
        place.parent.mkdir(parents=True)
        place.write_text(text)
    by_name = {case.id: case for case in read(plugin, events=True).cases}
    for task in tasks:
        case = by_name[task.name]
        assert case.judge
        assert (case.prompt, case.tags, case.lost) == (task.prompt, task.tags, ())
        assert judge_json(case.judge) == judge_json(task.judge)

    found = run(tmp_path, plugin, ANSWER)
    assert found.keys() == by_name.keys()
    ran = found[tasks[0].name]["arms"]["with"][0]["graders"][: len(PATTERNS)]
    outcomes = [score(leaf, ANSWER) for leaf in leaves(judge)][: len(PATTERNS)]
    assert [each["passed"] for each in ran] == [each.hard for each in outcomes if isinstance(each, Score)]
    assert {each["passed"] for each in ran} == {True, False}
    assert read(plugin).results[tasks[0].name] == {"attempts": 1, "scored": 1, "not_scored": 0}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_its_verdicts_on_the_samples_are_ours(tmp_path: Path, sample: Path) -> None:
    plugin = make_plugin(tmp_path)
    shutil.copytree(sample / "evals", plugin / "evals")
    evals = read(plugin)
    expected = json.loads((sample / "expected.json").read_text())
    loaded = {case.id: case for case in evals.cases if not any(each.what == "case" for each in case.lost)}
    answers = {answer for task in expected["tasks"] for answer, _ in task.get("verdicts", ())} or {"x"}
    n_compared = 0
    for answer in sorted(answers):
        found = run(tmp_path, plugin, answer)
        assert found.keys() == {name.rpartition("/")[2] for name in loaded}
        for name, case in loaded.items():
            outcome = score(case.judge, answer) if case.judge and not any(each.decides for each in case.lost) else None
            if isinstance(outcome, Score) and "/" not in name:
                assert outcome.hard is found[name]["arms"]["with"][0]["passed"], (name, answer)
                n_compared += 1
    assert n_compared >= sum(len(task.get("verdicts", ())) for task in expected["tasks"]) // 3
