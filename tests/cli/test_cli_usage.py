from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from typing import get_args

import pytest
from console import TARGET

from skillopt_mcp import __version__
from skillopt_mcp.cli.main import commands, main, module_name
from skillopt_mcp.cli.parsing import parse
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.evidence import Metric
from skillopt_mcp.schedule import SCHEDULES

LEAST = {
    "replay": ["S"], "evaluate": ["c-1"], "tasks": ["list", "S"], "show": ["S"], "diff": ["S"], "history": ["S"],
    "calibrate": ["S"], "race": ["c-1"], "credit": ["c-1"], "promote": ["c-1"], "approve": ["c-1"],
    "rebase": ["c-1"], "check": ["S"],
    "rollback": ["S"],
    "install": ["codex"], "uninstall": ["codex"], "backup": ["F"], "restore": ["F"], "export": ["S", "F"],
    "import": ["F"], "erase": ["trajectory:1"],
}  # fmt: skip


def test_where_it_cannot_work_it_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert main(["skills"]) == 1
    assert capsys.readouterr().err.startswith("error: Windows is not supported")


def test_no_command_shows_the_help_as_wrong_usage(cli) -> None:
    done = cli()
    assert (done.returncode, done.stdout) == (2, "")
    assert all(name in done.stderr for name in commands())


@pytest.mark.parametrize(
    "arguments", [["frobnicate"], ["--bogus", "skills"], ["skills", "--bogus"], ["tasks"], ["replay"], ["skills", "x"]]
)
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: skillopt-mcp" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["show", "S", "--bogus", "--json"], "unrecognized arguments: --bogus"),
        (["--json", "replay"], "the following arguments are required: SKILL"),
        (["tasks", "list", "--json"], "the following arguments are required: SKILL"),
        (["shwo", "S", "--json"], 'there is no command "shwo": did you mean "show"? skillopt-mcp --help lists them'),
        (["qqqq", "--json"], 'there is no command "qqqq": skillopt-mcp --help lists them'),
    ],
)
def test_wrong_usage_is_told_to_a_program_as_an_object(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    assert (ended.value.code, json.loads(said.out)) == (2, {"error": told})
    assert said.err.endswith(f"error: {told}\n")


def test_a_json_of_another_programs_line_is_not_ours(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["judges", "add", "--", "check", "--json"])
    assert capsys.readouterr().out == ""


def test_a_command_that_is_near_to_a_mistyped_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["evalaute", "c-1"])
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == (
        'skillopt-mcp: error: there is no command "evalaute": did you mean "evaluate"? skillopt-mcp --help lists them'
    )
    assert len(told) == 2


def test_the_version_is_the_packages(cli) -> None:
    assert cli("--version").stdout == f"skillopt-mcp {__version__}\n"


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert f"skillopt-mcp {name}" in out[out.index("example:") :]
    assert "simulated:" not in out, "nobody's own tasks are solved by a simulation"


@pytest.mark.parametrize("name", commands())
def test_what_is_parsed_is_what_the_command_takes(name: str) -> None:
    command, values = parse([name, *LEAST.get(name, [])])
    options = import_module(module_name(command)).Options
    assert set(values) <= {field.name for field in fields(options)}
    options(**values)


@pytest.mark.parametrize("arguments", [["--store", "x", "show", "S"], ["show", "S", "--store", "x"]])
def test_the_store_may_be_named_before_or_after_the_command(arguments: list[str]) -> None:
    assert parse(arguments)[1]["store"] == "x"


def test_every_setting_of_a_run_is_a_flag() -> None:
    arguments = []
    for name, value in Config():
        flag = name.replace("_", "-")
        arguments += [f"--{'' if value else 'no-'}{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    assert Config.model_validate(parse(["replay", "S", *arguments])[1]["given"]) == Config()
    assert parse(["replay", "S"])[1]["given"] == {}
    assert parse(["replay", "S", "--no-use-gate", "--skill-aware"])[1]["given"] == {
        "use_gate": False,
        "skill_aware": True,
    }
    for name, choices in (("schedule", (*SCHEDULES, "autonomous")), ("metric", get_args(Metric))):
        assert [parse(["replay", "S", f"--{name}", choice])[1]["given"] == {name: choice} for choice in choices]


def test_serve_and_demo_load_no_vendor_and_serve_no_library_of_the_terminal(tmp_path) -> None:
    code = (
        "import sys; from skillopt_mcp.cli.main import main; main({});"
        "print([name for name in ('openai', 'anthropic', {}) if name in sys.modules])"
    )
    demo = code.format(["demo", "--json", "--dir", str(tmp_path / "demo")], "'mcp'")
    serve = "import skillopt_mcp.cli.commands.serve;" + code.format(
        ["--version"], "'rich', 'yaml', 're2', 'sqlite_utils'"
    )
    serve = serve.replace("main(['--version'])", "None")
    for text in (demo, serve):
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"


def test_a_simulation_of_other_tasks_than_these_is_told_as_the_next_step(
    make_place, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(make_place().store_path)]
    calibrate = [*store, "calibrate", "ledger-clerk", "--pairs", "2", "--gain", "1", "--max-pairs", "1", "--target"]
    assert main([*calibrate, "simulated:honest"]) == 0
    told = "Next: Name a real target, for instance --target claude-code:haiku: 'simulated:honest,seed=0' "
    assert told in capsys.readouterr().out
    assert main([*calibrate, TARGET]) == 0
    assert "Name a real target" not in capsys.readouterr().out
