"""Check of a repository: its skills against the reference validator, its evals, and trees that mean harm."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from console import Cli

from benchmarks.bring_check import measure_check

FRONT = "name: desk\ndescription: Does it."


def write(folder: Path, front: str = "", body: str = "Do it.\n") -> Path:
    folder.mkdir(parents=True)
    front = front or f"name: {folder.name}\ndescription: Does it."
    (folder / "SKILL.md").write_bytes(f"---\n{front}\n---\n\n{body}".encode())
    return folder


@pytest.fixture
def here(cli: Cli, tmp_path: Path) -> Path:
    """The folder that `cli` runs in."""
    return tmp_path / "here"


def check(cli: Cli, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = cli("check", "--json", *arguments)
    return done.returncode, json.loads(done.stdout)


# What the reference validator takes for wrong and no host does, or the other way about, and why we say otherwise.
WRONG = {
    "unknown": "hosts have keys of their own, and pass over others",
    "flow": "it reads a subset of YAML without brackets",
    "dashes": "it ends the block at any ---",
    "metadata": "it does not look at what the specification calls a mapping",
    "lower": "hosts look for SKILL.md alone",
    "return": "Codex reads no carriage return without a line feed",
}


@pytest.mark.parametrize(
    ("front", "body", "wrong"),
    [
        (FRONT, "Do it.", ""),
        (FRONT + "\nlicense: MIT\ncompatibility: git\nallowed-tools: Read\nmetadata:\n  a: b", "", ""),
        ("description: d", "", ""), ("name: desk", "", ""), ("name: ''\ndescription: d", "", ""),
        ("name: Desk\ndescription: d", "", ""), ("name: desk-\ndescription: d", "", ""),
        ("name: other\ndescription: d", "", ""), ("name: [a]\ndescription: d", "", ""),
        (f"name: desk\ndescription: {'x' * 1024}", "", ""), (f"name: desk\ndescription: {'x' * 1025}", "", ""),
        ("name: desk\ndescription: Use it: always", "", ""), ("name: desk\ndescription: [beta] a", "", ""),
        ("name: desk\ndescription: d\nname: desk", "", ""), ("name: desk\ndescription: 'd", "", ""),
        ("name: desk\ndescription: *x", "", ""), ("name: desk\ndescription: >\n  a\n  b", "", ""),
        (f"{FRONT}\ncompatibility: {'x' * 501}", "", ""), (f"{FRONT}\ncompatibility:\n- a", "", ""),
        ("- name", "", ""), ("", "no front matter", ""),
        (FRONT, "See [a](../other/SKILL.md), [b](gone.md), [c]({baseDir}/a.md).\n", ""),
        (FRONT, "line\n" * 2_000, ""), (FRONT, "password: hunter2hunter2\n<<<<<<< HEAD\n", ""),
        (FRONT + "\nmodel: haiku\ndisable-model-invocation: true\npaths: src/**", "", "unknown"),
        (FRONT + "\nowner: ann", "", "unknown"), (FRONT + "\nallowed-tools: [Read, Grep]", "", "flow"),
        ("name: desk\ndescription: 'a --- b'", "", "dashes"), (FRONT + "\nmetadata: text", "", "metadata"),
        (FRONT, "", "lower"), (FRONT, "a\rb\n", "return"),
    ],
)  # fmt: skip
def test_an_error_is_one_of_the_reference_validator_too(
    cli: Cli, here: Path, front: str, body: str, wrong: str
) -> None:
    reference = pytest.importorskip("skills_ref")
    skill = write(here / "desk", front or "x", body)
    if not front:
        (skill / "SKILL.md").write_text(body)
    if wrong == "lower":
        (skill / "SKILL.md").rename(skill / "skill.md")
    _, found = check(cli, "desk")
    assert bool(found["errors"]) is bool(reference.validate(skill)) ^ bool(wrong), found


def test_keys_of_hosts_pass_and_others_are_advice(cli: Cli, here: Path) -> None:
    write(here / "desk", FRONT + "\nmodel: haiku\nallowed-tools: [Read]\nwhen_to_use: always\nowner: ann\nteam: b")
    code, found = check(cli, "desk")
    (finding,) = found["skills"][0]["findings"]
    assert (code, finding["severity"]) == (0, "advice")
    assert '"owner", "team"' in finding["text"]
    assert "model" not in finding["text"]


def test_what_this_tool_does_not_read_is_no_error(cli: Cli, here: Path) -> None:
    write(here / "s" / "big").joinpath("data.bin").write_bytes(b"\0" * (6 << 20))
    many = write(here / "s" / "many")
    for n in range(300):
        (many / f"{n}.txt").touch()
    write(here / "s" / "long", "name: long\ndescription: d\n" + "".join(f"k{n}: v\n" for n in range(80)))
    write(here / "s" / "wrong", "name: other\ndescription: d").joinpath("data.bin").write_bytes(b"\0" * (6 << 20))
    (write(here / "s" / "link") / "x").symlink_to("/proc/self/environ")
    code, found = check(cli, "s")
    assert (code, found["errors"], found["n_skills"]) == (1, 1, 5)
    assert found["skills"][0]["path"] == "s/wrong"


def test_the_benchmark_counts_what_nobody_else_calls_an_error(cli: Cli, here: Path) -> None:
    pytest.importorskip("skills_ref")
    write(here / "s" / "sound", body="[a](gone.md)\n")
    write(here / "s" / "cut", body="a\rb\n")
    write(here / "s" / "wrong", "name: other\ndescription: d")
    figures = measure_check(here / "s")
    assert figures.pop("cpu_ratio_skills_ref") > 0
    assert figures == {"skills": 3, "errors": 2, "errors_nobody_else_has": 0}


# Evals


def put(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def cases(n: int) -> dict[str, Any]:
    topics = ["tariffs", "glaciers", "violins", "bridges", "vaccines", "tides", "comets", "looms", "orchards", "canals"]
    return {"evals": [
        {"id": at, "prompt": f"Explain {topics[at % 10]} in {at + 3} steps.", "expectations": [f"Has {at + 3}", "x"]}
        for at in range(n)
    ]}  # fmt: skip


def test_what_the_evals_of_a_skill_can_show(cli: Cli, here: Path) -> None:
    plugin = here / "plugins" / "p"
    (plugin / ".claude-plugin").mkdir(parents=True)
    for name in ("few", "many", "apart", "broken", "none"):
        write(plugin / "skills" / name)
    put(plugin / "skills/few/evals/evals.json", cases(3))
    put(plugin / "skills/many/evals/evals.json", cases(10))
    put(plugin / "skills/many/evals/trigger-eval.json", [{"query": "Explain looms", "should_trigger": True}])
    put(here / "tests/p/apart/evals.json", cases(2))
    (here / ".git").mkdir()
    (plugin / "skills/broken/evals").mkdir()
    (plugin / "skills/broken/evals/evals.json").write_text("{")
    done = cli("check")
    assert done.returncode == 0
    assert (
        "plugins/p/skills/few: evals: 3 cases, 3 kept (6 by a model), 3 units, 2 held out: on these cases"
        in done.stdout
    )
    assert "plugins/p/skills/broken: evals: plugins/p/skills/broken/evals/evals.json is refused: " in done.stdout
    assert "1 skill has no evals: plugins/p/skills/none\n" in done.stdout
    _, found = check(cli)
    evals = {each["name"]: each["evals"] for each in found["skills"]}
    many = evals["many"]
    assert (many["cases"], many["kept"], many["graders"]) == (11, 11, {"model": 20, "machine": 1, "lost": {}})
    assert [each["format"] for each in many["files"]] == ["skill-creator", "trigger"]
    assert (evals["few"]["on_these_cases"], many["on_these_cases"]) == (True, many["held_out"] < 8)
    assert 0 < evals["few"]["smallest_change"] < 1
    assert 50 < many["runs"] < 200
    assert evals["apart"]["cases"] == 2
    assert evals["none"] == {"files": [], "cases": 0}


@pytest.mark.parametrize("marks", [(".git", "plugins/net/plugin.json"), (".claude-plugin",)])
def test_evals_are_found_where_the_tests_of_a_repository_repeat_its_plugins(
    cli: Cli, here: Path, marks: tuple[str, ...]
) -> None:
    scenario = "  - name: a\n    prompt: Fix it\n    rubric: [Names the cause]\n"
    for name in ("plugins/net/skills/pack", "plugins/net/skills/bare", "plugins/web/skills/pack", "eng/fixtures/own"):
        write(here / name)
    for inner, n in (("tests/net/pack", 1), ("tests/web/pack", 2), ("eng/fixtures/own/tests", 3)):
        (here / inner).mkdir(parents=True)
        (here / inner / "eval.yaml").write_text("scenarios:\n" + scenario * n)
    for mark in marks:
        put(here / mark, {"name": "net"})
    _, found = check(cli)
    assert {each["path"]: each["evals"]["kept"] for each in found["skills"] if each["evals"]["cases"]} == {
        "plugins/net/skills/pack": 1, "plugins/web/skills/pack": 2, "eng/fixtures/own": 3,
    }  # fmt: skip
    assert "1 skill has no evals: plugins/net/skills/bare\n" in cli("check").stdout


def test_a_file_that_is_no_skill_has_no_evals_to_miss(cli: Cli, here: Path) -> None:
    (here / "outside.txt").write_text("x")
    (here / "AGENTS.md").write_text("Be brief.\n")
    done = cli("check", "./outside.txt")
    assert (done.returncode, done.stdout.count("skill has no evals")) == (2, 0)
    assert "0 skills: 1 error" in done.stdout
    assert cli("check", "AGENTS.md").returncode == 0


def test_a_larger_suite_shows_a_smaller_change(cli: Cli, here: Path) -> None:
    for n in (20, 80):
        write(here / "s" / f"n{n}")
        put(here / "s" / f"n{n}" / "evals/evals.json", {"evals": [
            {"prompt": f"What is {at * 37 % 1009} in base {at % 7 + 2}?", "expectations": ["x"]} for at in range(n)
        ]})  # fmt: skip
    _, found = check(cli, "s")
    small, large = (
        each["evals"] for each in sorted(found["skills"], key=lambda each: each["name"], reverse=True)[::-1]
    )
    assert small["held_out"] < large["held_out"]
    assert small["smallest_change"] > large["smallest_change"]


def test_many_skills_take_a_line_each_and_the_worst_comes_first(cli: Cli, here: Path) -> None:
    for n in range(30):
        write(here / "skills" / f"s{n:02}")
    (here / "skills/s07/SKILL.md").write_text("---\nname: x\n---\n")
    (here / "skills/s09/SKILL.md").write_text((here / "skills/s09/SKILL.md").read_text() + "[a](b.md) [c](d.md)\n")
    done = cli("check")
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (1, 32)
    assert lines[0].startswith("skills/s07: error: the name ")
    assert lines[0].endswith("; 1 more")
    assert lines[1].startswith('skills/s09: advice: "SKILL.md" links to ')
    assert lines[2] == "skills/s00: no finding"
    assert lines[-1] == "30 skills: 2 errors, 2 advice."
    assert "skillopt-mcp check skills/s07" in done.stderr


def test_a_marketplace_names_skills_that_no_walk_finds(cli: Cli, here: Path) -> None:
    write(here / ".hidden" / "one")
    write(here / ".hidden" / "two")
    write(here.parent / "outside")
    named = ["./.hidden/one", "../outside", "/etc", "./gone", "\0", 3]
    put(here / ".claude-plugin/marketplace.json", {"plugins": [{"source": "./", "skills": named[:n]} for n in (4, 6)]})
    _, found = check(cli, ".")
    assert [each["name"] for each in found["skills"]] == ["one"]


# Trees that mean harm


def test_a_hostile_tree_ends_in_seconds(cli: Cli, here: Path) -> None:
    for n in range(100):
        for m in range(100):
            (here / f"d{n}" / f"e{m}").mkdir(parents=True)
    for n in range(5):
        (here / f"loop{n}").symlink_to(here)
    deep = here / Path(*["deep"] * 40)
    deep.mkdir(parents=True)
    write(here / "skills" / "huge", body="x" * (30 << 20))
    (write(here / "skills" / "self") / "again").symlink_to(".")
    pipe = write(here / "skills" / "pipe")
    (pipe / "SKILL.md").unlink()
    os.mkfifo(pipe / "SKILL.md")
    closed = write(here / "skills" / "closed")
    closed.chmod(0)
    evals = write(here / "skills" / "evals-pipe") / "evals"
    evals.mkdir()
    os.mkfifo(evals / "evals.json")
    (here / ".claude-plugin").mkdir()
    os.mkfifo(here / ".claude-plugin/marketplace.json")
    started = time.monotonic()
    try:
        done = cli("check")
    finally:
        closed.chmod(0o700)
    assert time.monotonic() - started < 20
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stderr
    assert "deep/deep" in done.stdout
    assert all(f"skills/{name}: " in done.stdout for name in ("huge", "pipe"))
