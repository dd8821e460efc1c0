"""promptfoo: what its assertions say of answers, how its configurations are read, and that they are written back."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Score, Unscored, judge_json
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.tasks.formats.cases import EVAL_FORMATS, Case, EvalOptions, Evals, read_evals
from skillopt_mcp.tasks.judges.judging import score

STORED = json.loads((Path(__file__).parents[1] / "evals" / "promptfoo" / "verdicts.json").read_text())
WRITE = next(each.write for each in EVAL_FORMATS if each.name == "promptfoo")


def read(folder: Path, config: object, name: str = "promptfooconfig.json") -> Evals:
    (folder / name).write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
    found = read_evals(folder, EvalOptions())
    assert found is not None
    assert found.format == "promptfoo"
    return found


def read_tests(folder: Path, *tests: object, **config: object) -> list[Case]:
    found = read(folder, {"prompts": ["{{q}}"], "providers": ["echo"], "tests": list(tests), **config})
    assert not found.refused, found.refused
    return list(found.cases)


def test_verdicts_are_those_that_promptfoo_gave(tmp_path: Path) -> None:
    tests = [{"vars": {"q": "q"}, "options": {"disableVarExpansion": True}} | row[0] for row in STORED["rows"]]
    cases = read_tests(tmp_path, *({**test, "vars": {"q": "q", **test["vars"]}} for test in tests))
    counted = Counter[str]()
    differences = list[object]()
    for case, (test, n, verdicts) in zip(cases, STORED["rows"], strict=True):
        if case.lost:
            assert case.make_task() is None
            counted["lost"] += 1
            continue
        assert case.judge is not None
        for answer, verdict in zip(STORED["answers"][n], verdicts, strict=True):
            found = score(case.judge, answer)
            if isinstance(found, Unscored):
                assert "contains-json" in str(test)
                counted["unscored"] += 1
                continue
            counted["judged"] += 1
            if verdict == "e" or found.hard is not (verdict == "1"):
                differences.append((test, answer, verdict, found))
    assert not differences
    assert counted["judged"] > 8_000
    assert counted["lost"] < 220
    assert counted["unscored"] < 360


def test_points_are_asked_about_in_one_call_and_a_machine_decides_before_them(tmp_path: Path) -> None:
    asserts = [
        {"type": "llm-rubric", "value": "Names {{q}}."},
        {"type": "contains", "value": "a"},
        {"type": "model-graded-closedqa", "value": "Is short."},
    ]
    [all_of, mean] = read_tests(
        tmp_path,
        {"vars": {"q": "x"}, "assert": asserts},
        {"vars": {"q": "x"}, "assert": asserts, "threshold": 0.5},
    )
    assert all_of.judge is not None
    assert mean.judge is not None
    assert json.loads(judge_json(all_of.judge))["judges"][0] == {
        "judge": {"kind": "rubric", "points": ["Names x.", "Is short."]},
        "weight": 2.0,
    }
    assert isinstance(score(all_of.judge, "a"), Unscored)
    failed = score(all_of.judge, "b")
    assert isinstance(failed, Score)
    assert not failed.hard
    assert isinstance(score(mean.judge, "b"), Unscored)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("javascript", "runs code"), ("python", "runs code"), ("cost", "says nothing"), ("perplexity", "says nothing"),
        ("trajectory:tool-used", "needs events"), ("similar", "cannot be expressed"), ("g-eval", "cannot be expressed"),
        ("not-llm-rubric", "cannot be expressed"), ("is-xml", "cannot be expressed"), ("typo", "cannot be expressed"),
    ],
)  # fmt: skip
def test_what_is_lost_is_named_with_its_reason(tmp_path: Path, kind: str, reason: str) -> None:
    asserts = [{"type": "contains", "value": "a"}, {"type": kind, "value": "v"}]
    [case, mean, alone] = read_tests(
        tmp_path,
        {"vars": {"q": "x"}, "assert": asserts},
        {"vars": {"q": "x"}, "assert": [{"type": "assert-set", "assert": asserts}], "threshold": 0.5},
        {"vars": {"q": "x"}, "assert": [{"type": kind, "value": "v"}]},
    )
    assert [(lost.what, lost.reason) for lost in case.lost] == [(kind, reason)]
    assert (case.make_task() is not None) is (reason == "says nothing")
    assert case.make_task(partial=True) is not None
    assert mean.make_task() is None
    assert alone.make_task(partial=True) is None


@pytest.mark.parametrize(
    "template", ["{{q | upper}}", "{{q.x}}", "{% if q %}a{% endif %}", "{# c #}", "{{env.HOME}}", "{{{q}}}"]
)
def test_a_template_is_lost_by_name_in_prompts_and_asserts(tmp_path: Path, template: str) -> None:
    config = {
        "prompts": [f"Do {template}\n"],
        "tests": [{"vars": {"q": "x"}, "assert": [{"type": "equals", "value": "a"}]}],
    }
    [case] = read(tmp_path, config).cases
    assert case.prompt == ""
    assert template[:3] in case.lost[0].what
    assert case.make_task(partial=True) is None
    [case] = read_tests(tmp_path, {"vars": {"q": "x"}, "assert": [{"type": "contains", "value": template}]})
    assert case.judge is None
    assert template[:3] in case.lost[0].detail


def test_the_skill_is_cut_out_of_a_prompt(tmp_path: Path) -> None:
    skill = tmp_path / "brief"
    for name in ("SKILL.md", "references/style.md", "evals/prompt.txt", "evals/facts.txt"):
        (skill / name).parent.mkdir(parents=True, exist_ok=True)
        (skill / name).write_text(f"text of {name} {{{{task}}}}")
    (skill / "evals/chat.json").write_text(json.dumps([
        {"role": "system", "content": "{{skill}}\n\nBe kind."}, {"role": "user", "content": "{{task}} {{facts}}"},
    ]))  # fmt: skip
    check = [{"type": "contains", "value": "a"}]
    variables = {"skill": "file://../SKILL.md", "style": "file://../references/style.md", "facts": "file://facts.txt"}
    tests = [{"vars": {"task": "Sum up.", **variables}, "assert": [*check, {"type": "contains", "value": "{{style}}"}]}]
    prompts = [
        "{{skill}}\n\n{{style}}\nTask: {{task}}",
        "file://../SKILL.md",
        "file://chat.json",
        "file://prompt.txt",
        "{{facts}}",
    ]
    cases = read(skill / "evals", {"prompts": prompts, "tests": tests}).cases
    assert [case.prompt for case in cases] == [
        "Task: Sum up.", "", "Be kind.\n\nSum up. text of evals/facts.txt Sum up.", "text of evals/prompt.txt Sum up.",
        "text of evals/facts.txt Sum up.",
    ]  # fmt: skip
    assert [lost.what for lost in cases[0].lost] == ["contains"]
    assert [lost.what for lost in cases[1].lost] == ["contains", "prompt"]
    assert "nothing is left" in cases[1].lost[1].detail


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("prompts: [a]\nprompts: [b]\n", "line 2"),
        ("prompts: [a\n", "line 2"),
        ("prompts: ['Do a/b']\ntests: []\n", "Do a/b"),
        ("prompts: [a]\ntests: file://make.py\n", "make.py"),
        ("prompts: [a]\ntests: file://none.yaml\n", "none.yaml"),
        ("prompts: [a]\ntests: [{$ref: '#/none'}]\n", "#/none"),
        ("prompts: [a]\ntests: [{$ref: '#/tests/0'}]\n", "too deep"),
        ("- a\n", "no mapping"),
        ("prompts: [a]\ndefaultTest: file:///etc/hostname\n", "outside"),
        (f"prompts: ['{{{{x}}}}']\ntests: [{{vars: {{x: &x [{'a, ' * 99}b], y: *x, z: *x}}}}]\n", "1,000,000 cases"),
        ("prompts: &a0 [x]\n" + "".join(f"x{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 12)), "too large"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_taken_is_refused_in_one_line(tmp_path: Path, text: str, what: str) -> None:
    found = read(tmp_path, text, "promptfooconfig.yaml")
    assert what in found.refused
    assert "\n" not in found.refused
    assert not found.cases


def test_a_program_as_configuration_is_refused(tmp_path: Path) -> None:
    assert "is a program" in read(tmp_path, "module.exports = {}", "promptfooconfig.js").refused


def test_files_outside_of_the_evals_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    check = [{"type": "contains", "value": "a"}]
    for path in ("../../secret.txt", str(tmp_path / "secret.txt"), "link.txt", "../../*.txt"):
        [case] = read_tests(folder, {"vars": {"q": f"file://{path}"}, "assert": check})
        assert "secret" not in case.prompt
        assert case.lost[0].reason == "needs files"
        [case] = read_tests(folder, {"vars": {"q": "a"}, "assert": [{"type": "contains", "value": f"file://{path}"}]})
        assert case.judge is None


def make_task(case: Case, n: int) -> Task:
    made = case.make_task()
    assert made is not None
    return Task(n, 1, case.id, made.prompt, made.judge, "train", "", files=made.files)


@pytest.mark.parametrize("name", ["promptfooconfig.json", "out.yaml"])
def test_what_is_written_reads_back_equal(tmp_path: Path, name: str) -> None:
    rubric = [{"type": "llm-rubric", "value": f"Point {n}."} for n in range(3)]
    others = [
        {"description": "points", "vars": {"q": "a\u2028\x85\n\n"}, "assert": rubric},
        {
            "description": "weighed",
            "vars": {"q": "b"},
            "assert": [*rubric, {"type": "equals", "value": "x", "weight": 0}],
        },
    ]
    tests = [
        {"vars": {"q": f"q {n} \x7f {{{{none}}}}\n"}, **row[0]}
        for n, row in enumerate(STORED["rows"])
        if "vars" not in row[0]
    ]
    cases = [case for case in read_tests(tmp_path, *others, *tests) if case.make_task()]
    assert len(cases) > 400
    assert WRITE is not None
    written = WRITE([make_task(case, n) for n, case in enumerate(cases)], tmp_path / "new" / name)
    [(path, text)] = written.items()
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    again = read_evals(path, EvalOptions())
    assert again is not None
    assert [(case.id, case.prompt, case.judge) for case in again.cases] == [(c.id, c.prompt, c.judge) for c in cases]


def test_a_task_that_promptfoo_could_not_hold_is_not_written(tmp_path: Path) -> None:
    [case] = read_tests(tmp_path, {"vars": {"q": "x"}, "assert": [{"type": "contains", "value": "a"}]})
    task = make_task(case, 1)
    assert WRITE is not None
    for changed in ({"prompt": "{{prompt}}"}, {"prompt": "{% if x %}"}, {"prompt": "file://x"}):
        with pytest.raises(BadInput, match="cannot be written"):
            WRITE([Task(**{**{name: getattr(task, name) for name in Task.__slots__}, **changed})], tmp_path)


def test_a_reason_names_the_value_of_an_assertion_that_has_one(tmp_path: Path) -> None:
    kinds = [{"type": "is-json"}, {"type": "equals", "value": "null"}]
    for kind, reason in zip(kinds, ('is-json fails for "x"', 'equals "null" fails for "x"'), strict=True):
        [case] = read_tests(tmp_path, {"vars": {"q": "x"}, "assert": [kind]})
        assert case.judge
        assert score(case.judge, "x").reason.endswith(reason)


def test_yaml_is_read_up_to_a_limit_that_the_refusal_names(tmp_path: Path) -> None:
    start, config = time.monotonic(), tmp_path / "promptfooconfig.yaml"
    config.write_text("prompts: [x]\ntests:\n" + "  - vars: {q: question}\n" * 50_000)
    evals = read_evals(config, EvalOptions())
    assert evals
    assert "promptfooconfig.yaml' has 1,200,020 bytes, 1,048,576 are allowed for YAML: split it" in evals.refused
    config.unlink()
    (tmp_path / "v.yaml").write_text("a: " + "b" * 900_000)
    tests = [{"vars": {"q": "file://v.yaml"}}] * 5
    assert "too large" in read(tmp_path, {"prompts": ["x"], "tests": tests}).refused
    assert time.monotonic() - start < 20


def test_a_hostile_file_and_answer_take_no_time(tmp_path: Path) -> None:
    start = time.monotonic()
    (tmp_path / "p.txt").write_text("\n" * 900_000 + "x")
    (tmp_path / "loop").symlink_to(tmp_path)
    check = [
        {"type": "contains-any", "value": "a" + " " * 900_000 + "b"},
        {"type": "contains", "value": "file://**/*.txt"},
    ]
    prompts = ["file://p.txt", "{{q}}", "{{ " * 200_000, "loop/**/*.md?"]
    variables = {"q": "a" + " " * 900_000 + "b", **{f"v{n}": f"{{{{v{n + 1}}}}}{'z' * 500}" for n in range(2_000)}}
    assert not read(tmp_path, {"prompts": prompts, "tests": [{"vars": variables, "assert": check}]}).refused
    assert read(tmp_path, {"prompts": ["**/**/**/**/*.md?"], "tests": []}).refused
    schema = {"type": "object", "required": ["a"]}
    for kind in ("is-json", "contains-json"):
        [case] = read_tests(tmp_path, {"vars": {"q": "x"}, "assert": [{"type": kind, "value": schema}]})
        assert case.judge is not None
        for answer in ("{" * 1_000_000, "{}" * 500_000, "[" * 1_000_000, '{"b":1} ' * 100_000):
            score(case.judge, answer)
    assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    "prompt", ["What is 2**3?", "a**", "[", "?", "a\0*", "**/[!]", "[z-a]*", "x[[:alpha:]]*", "file://[a"]
)
def test_a_prompt_that_looks_like_a_pattern_of_paths_is_a_text(tmp_path: Path, prompt: str) -> None:
    check = [{"type": "contains", "value": "a"}]
    found = read(tmp_path, {"prompts": [prompt], "tests": [{"assert": check}]})
    assert found.refused or [case.prompt for case in found.cases] == [prompt]
    assert not (prompt.endswith("?") and found.refused)
    for test in (
        {"vars": {"q": f"file://{prompt}"}, "assert": check},
        {"assert": [{"type": "equals", "value": f"file://{prompt}"}]},
    ):
        [case] = read_tests(tmp_path, test)
        assert case.make_task() is None


def test_tests_defaults_and_scenarios_may_stand_in_files(tmp_path: Path) -> None:
    (tmp_path / "default.yaml").write_text("vars: {q: d}\nassert: [{type: contains, value: d}]\n")
    (tmp_path / "s.yaml").write_text(
        "- config: [{vars: {q: s}}, {}]\n  tests: [{description: in {{q}}}]\n".replace("in {{q}}", "in")
    )
    cases = read(
        tmp_path, {"prompts": ["{{q}}!"], "defaultTest": "file://default.yaml", "scenarios": ["file://s.yaml"]}
    ).cases
    assert [(case.id, case.prompt) for case in cases] == [("in", "s!"), ("in-2", "d!")]
    assert all(case.make_task() for case in cases)


names = st.sampled_from(
    ["q", "x", "type", "value", "assert", "vars", "options", "prompts", "tests", "$ref", "threshold", "weight"]
)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.text("*?[]/.{}a-!:~", max_size=8)
    | st.text("*?[]/.{}a-!", max_size=8).map("file://{}".format)
    | st.sampled_from(["{{q}}", "{{", "file://x.txt", "file://*", "is-json", "#/tests", "(", "a, \"b", "10"])
)  # fmt: skip
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
kinds = st.sampled_from(
    [
        "equals",
        "contains-any",
        "icontains",
        "regex",
        "is-json",
        "contains-json",
        "levenshtein",
        "word-count",
        "assert-set",
    ]
)
asserts = (
    st.lists(
        st.fixed_dictionaries(
            {"type": kinds | scalars},
            optional={"value": values, "weight": scalars, "threshold": scalars, "assert": values},
        ),
        max_size=3,
    )
    | values
)
tests = st.fixed_dictionaries(
    {"assert": asserts}, optional={"vars": values, "options": values, "description": values, "prompts": values}
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    config=st.fixed_dictionaries(
        {"prompts": values, "tests": st.lists(tests, max_size=3) | values},
        optional={"defaultTest": tests | values, "scenarios": values},
    ),
    answer=st.text(max_size=20) | st.sampled_from(['{"a": [1]}', "{a}", "[]", "{" * 3_000]),
)
def test_no_configuration_and_no_answer_crashes(tmp_path: Path, config: dict[str, Any], answer: str) -> None:
    try:
        found = read(tmp_path, config)
    except BadInput:
        return
    for case in found.cases:
        case.make_task(partial=True)
        if case.judge is not None:
            json.dumps(json.loads(judge_json(case.judge)))
            score(case.judge, answer)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet="prompts:tests[]{}&*!|>- \n\"'#a1,?%\t", max_size=80))
def test_no_text_crashes(tmp_path: Path, text: str) -> None:
    try:
        read(tmp_path, f"prompts: [a]\n{text}", "promptfooconfig.yaml")
    except BadInput:
        return
