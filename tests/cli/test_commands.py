"""The command line as such: what is found, documented, refused, and loaded; one more file is one more command."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from console import SCRIPT, Cli, Place

import skillopt_mcp
from skillopt_mcp import __version__
from skillopt_mcp.cli.command import describe_commands, parse
from skillopt_mcp.cli.main import main
from skillopt_mcp.core.evidence import Metric
from skillopt_mcp.training.config import SCHEDULES, Config

DROPPED = '''"""Greet: say hello."""

from typing import Annotated

from skillopt_mcp.cli.command import Arg, Command, Flag, command
from skillopt_mcp.cli.terminal import Terminal


@command("greet", example="greet Ada")
class Greet(Command):
    """Greet somebody by name."""

    who: Annotated[str, Arg("their name")]
    times: Annotated[int, Flag("how often")] = 1

    def run(self, terminal: Terminal) -> dict[str, str]:
        return {"greeting": " ".join([f"Hello {self.who}!"] * self.times)}

    def show(self, result: dict[str, str], terminal: Terminal) -> None:
        terminal.say(result["greeting"])
'''
WRONG = [
    (["frobnicate"], "unknown command"),
    (["taks", "list", "S"], "did you mean 'tasks'?"),
    (["tasks", "lst", "S"], "did you mean 'tasks list'?"),
    (["show", "S", "--bogus"], "unknown argument '--bogus'"),
    (["replay", "S", "--max-cal", "3"], "did you mean '--max-calls'?"),
    (["--bogus", "skills"], "--bogus"),
    (["tasks"], "tasks needs an action: "),
    (["skills", "--store"], "--store needs a PATH"),
    (["replay"], "SKILL"),
    (["skills", "x"], "'skills x'"),
    (["check", "x", "--changed", "main"], "PATH"),
    (["install", "cursed"], "cursed"),
    (["install", "codex", "--user", "--project"], "--user and --project"),
    (["replay", "S", "--allow-changed"], "--resume"),
    (["replay", "S", "--concurrency", "0"], "--concurrency must be 1 or more, got 0"),
    (["tasks", "add", "S", "F", "--seed", "1"], "--split-mode ratio"),
]


@pytest.mark.parametrize(("arguments", "names"), WRONG)
def test_wrong_usage_is_one_line_and_ends_with_2(
    arguments: list[str], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    reported = capsys.readouterr()
    assert (reported.out, reported.err.count("\n"), names in reported.err) == ("", 1, True), reported.err
    assert main([*arguments, "--json"]) == 2
    assert names in json.loads(capsys.readouterr().out)["error"]


@pytest.mark.parametrize("name", describe_commands(actions=True))
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*name.split(), "--help"])
    out = capsys.readouterr().out
    group = name.removesuffix(" list")
    assert (ended.value.code, f"skillopt-mcp {group}" in out[out.index("example:") :]) == (0, True)
    assert "simulated:" not in out, "a simulation solves the tasks of its own world alone"


def test_help_and_version_are_on_stdout(cli: Cli) -> None:
    assert cli("--version").stdout == f"skillopt-mcp {__version__}\n"
    assert [name for name in describe_commands() if name not in cli().stdout] == []
    assert cli("tasks", "--help").stdout.count("\n  tasks ") == 11


def test_a_dropped_file_is_a_command(tmp_path: Path) -> None:
    shutil.copytree(Path(skillopt_mcp.__file__).parent, tmp_path / "skillopt_mcp", symlinks=True)
    (tmp_path / "skillopt_mcp/cli/commands/greet.py").write_text(DROPPED)

    def run(*arguments: str) -> str:
        code = "import sys; from skillopt_mcp.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert "greet by name" in re.sub(r"greet +greet somebody", "greet", run("--help"))
    assert all(each in run("greet", "--help") for each in ("Greet somebody by name.", "their name", "(default: 1)"))
    assert run("greet", "Ada", "--times", "2") == "Hello Ada! Hello Ada!\n"
    assert json.loads(run("greet", "Ada", "--json")) == {"greeting": "Hello Ada!"}


def test_replay_names_an_environment_that_cannot_be_used_before_missing_backends(cli: Cli) -> None:
    for env, why in (("qa:gone", "needs a folder that exists"), ("gone", "unknown environment")):
        assert why in cli("replay", "sk", "--env", env).stderr


def test_replay_names_all_backends_that_are_missing(cli: Cli, make_place) -> None:
    place: Place = make_place()
    done = cli("replay", place.skill_path, store=place.store_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert all(word in done.stderr for word in ("--target", "--optimizer", "claude-code:haiku", "no API key"))


@pytest.mark.parametrize("arguments", ["--store x tasks list S", "tasks --store x list S", "tasks list --store=x S"])
def test_the_store_may_be_named_anywhere(arguments: str) -> None:
    assert (parse(arguments.split()).store, parse(arguments.split()).command.name) == ("x", "tasks list")


def test_what_follows_two_dashes_belongs_to_another_program(capsys: pytest.CaptureFixture[str]) -> None:
    parsed = parse(["tasks", "judges", "add", "x", "--", "/bin/prog", "--json", "-x"])
    assert (vars(parsed.command)["line"], parsed.json) == (("/bin/prog", "--json", "-x"), False)


def test_every_setting_of_a_run_is_a_flag() -> None:
    def given(*arguments: str) -> dict[str, object]:
        found = vars(parse(["replay", "S", *arguments]).command)["given"]
        assert isinstance(found, dict)
        return found

    arguments = []
    for name, value in Config():
        flag = "search-gate" if name == "gate" else name.replace("_", "-")
        arguments += [f"--{'' if value else 'no-'}{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    assert Config.model_validate(given(*arguments)) == Config()
    assert given("--no-use-gate", "--skill-aware") == {"use_gate": False, "skill_aware": True}
    assert given() == {}
    for name, choices in (("schedule", (*SCHEDULES, "autonomous")), ("metric", get_args(Metric))):
        assert [given(f"--{name}", choice) for choice in choices] == [{name: choice} for choice in choices]


def test_windows_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert main(["skills"]) == 1
    assert capsys.readouterr().err.startswith("error: Windows is not supported")


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["demo", "--json"], ("openai", "anthropic", "mcp", "rich.console")),
        (
            ["--version"],
            ("openai", "anthropic", "mcp", "rich.console", "yaml", "skillopt_mcp.workspace.workspace", "difflib"),
        ),
    ],
)
def test_nothing_is_loaded_that_a_command_does_not_need(
    tmp_path: Path, arguments: list[str], unwanted: tuple[str, ...]
) -> None:
    code = (
        "import atexit, sys; from skillopt_mcp.cli.main import main;"
        f"atexit.register(lambda: print([name for name in {unwanted!r} if name in sys.modules], file=sys.stderr));"
        f"main({arguments!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_serve_loads_no_library_of_the_terminal_and_no_action_before_its_tool_is_called() -> None:
    unwanted = ("rich.console", "re2", "skillopt_mcp.workspace.workspace")
    actions = tuple(
        f"skillopt_mcp.{name}" for name in ("gates.guard", "training.loop", "backends.asking", "actions.tasks")
    )
    code = (
        f"import skillopt_mcp.cli.commands.serve, sys; print([n for n in {unwanted} if n in sys.modules]);"
        f"import skillopt_mcp.server.services; print([n for n in {actions} if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"


def test_a_reader_that_goes_away_is_no_error(make_place) -> None:
    place: Place = make_place()
    process = subprocess.Popen([*place.command, "tasks", "export", "ledger-clerk"], stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.close()
    assert process.wait(60) in (0, 1)
    assert process.args[0] == SCRIPT  # type: ignore[index]
