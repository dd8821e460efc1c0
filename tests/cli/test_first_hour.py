"""The first hour: what somebody types who has read README alone, and what they are answered."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from changes import LESSONS, at_a_terminal, make_accepted
from console import TARGET, Cli, Place, parsed, run_script

from skillopt_mcp.core.judging import judge_of
from skillopt_mcp.workspace.workspace import Workspace

SKILL = "ledger-clerk"


@pytest.fixture
def place(make_place) -> Place:
    return make_place()


def edit(place: Place, text: str) -> str:
    """Change the file as a person does; what it was before."""
    before = place.main.read_text()
    place.main.write_text(f"{before}\n{text}\n")
    return before


def test_a_rollback_by_a_script_names_the_version_that_was_edited_since(place: Place) -> None:
    candidate = make_accepted(place)
    for command in (("promote", candidate, "--simulated"), ("rollback", SKILL)):
        assert at_a_terminal(place, *command, answer="y")[0] == 0
    edit(place, "Answer in French.")
    with Workspace(place.store_path) as workspace:
        base = workspace.store.candidates.get_candidate(candidate).base_version[:12]
    done = run_script(["--store", str(place.store_path), "rollback", SKILL], place.store_path.parent)
    assert (done.returncode, f"version {base} became live last, and its file was edited since" in done.stderr) == (
        1, True,
    ), done.stderr  # fmt: skip
    assert f"rollback {SKILL} {base} --over-edit" in done.stderr


def test_a_verdict_is_shown_and_explained_without_a_target(cli: Cli, place: Place) -> None:
    edit(place, LESSONS)
    tested = parsed(cli("evaluate", SKILL, "--target", TARGET, "--json", store=place.store_path))
    for subject in (SKILL, tested["candidate_id"]):
        again = parsed(cli("evaluate", subject, "--json", store=place.store_path))
        assert (again["status"], again["test"]["test_id"]) == ("verdict", tested["test"]["test_id"])
    plain, explained = (
        cli("evaluate", tested["candidate_id"], *more, store=place.store_path).stdout for more in ((), ("--explain",))
    )
    assert "BETTER (SIMULATION)" in plain
    assert len(explained.splitlines()) > len(plain.splitlines())
    assert cli("evaluate", SKILL, "--again", store=place.store_path).returncode == 1, "a new test needs a target"


def test_a_dry_run_of_what_was_tested_names_the_test_and_how_to_repeat_it(cli: Cli, place: Place) -> None:
    edit(place, LESSONS)
    tested = parsed(cli("evaluate", SKILL, "--target", TARGET, "--json", store=place.store_path))
    done = cli("evaluate", SKILL, "--target", TARGET, "--dry-run", store=place.store_path)
    assert (done.returncode, tested["test"]["test_id"] in done.stderr, "--again" in done.stderr) == (0, True, True)


def test_an_agents_shell_is_told_which_next_steps_are_a_persons(
    cli: Cli, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = make_accepted(place)
    assert "Next: skillopt-mcp promote" in cli("show", candidate, store=place.store_path).stderr
    monkeypatch.setenv("CLAUDECODE", "1")
    assert "Next, for a person at a terminal: skillopt-mcp promote" in (
        cli("show", candidate, store=place.store_path).stderr
    )
    listed = cli("skills", store=place.store_path)
    assert "next: for a person at a terminal: skillopt-mcp promote" in listed.stdout, listed.stdout


def test_an_id_where_a_skill_is_needed_is_named_with_the_command_that_shows_it(cli: Cli, place: Place) -> None:
    candidate = make_accepted(place)
    for command in (("diff", candidate), ("tasks", "list", candidate), ("rollback", candidate)):
        done = cli(*command, store=place.store_path)
        assert (done.returncode, f"skillopt-mcp show {candidate}" in done.stderr) == (1, True), done.stderr


def test_a_skill_that_no_command_named_before_is_found_by_evaluate(cli: Cli, place: Place) -> None:
    other = place.skill_path.with_name("tone")
    other.mkdir()
    (other / "SKILL.md").write_text("---\nname: tone\ndescription: How we answer.\n---\n\nBe polite.\n")
    done = cli("evaluate", "tone", "--target", TARGET, store=place.store_path)
    assert (done.returncode, '"tone" has no tasks: skillopt-mcp tasks add tone FILE' in done.stderr) == (1, True), (
        done.stderr
    )


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("haiku", "claude-code:haiku"),
        ("claude:haiku", "claude-code:haiku"),
        ("claude-sonnet-4-5", "claude-code:claude-sonnet-4-5"),
        ("gpt-5", "openai:gpt-5"),
        ("opnai:gpt-5", "openai:gpt-5"),
    ],
)
def test_a_model_that_is_typed_without_its_backend_is_answered_by_the_whole_name(
    cli: Cli, place: Place, typed: str, meant: str
) -> None:
    done = cli("replay", SKILL, "--target", typed, "--optimizer", TARGET, store=place.store_path)
    assert (done.returncode, f"did you mean {meant}?" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_a_prompt_with_what_is_expected_is_a_task(cli: Cli, place: Place, tmp_path: Path, name: str) -> None:
    rows = {"rows.jsonl": json.dumps({"prompt": "Who?", "expected": "Ada"}), "rows.csv": "prompt,expected\nWho?,Ada"}
    (tmp_path / name).write_text(rows[name])
    assert parsed(cli("tasks", "add", SKILL, tmp_path / name, "--json", store=place.store_path))["added"] == 1
    with Workspace(place.store_path) as workspace:
        [added] = [
            task for task in workspace.store.tasks.list_tasks(workspace.place.skill(SKILL).id) if task.prompt == "Who?"
        ]
    assert added.judge == judge_of({"kind": "exact", "expected": "Ada"})
    (tmp_path / name).write_text('{"prompt": "Who?", "expected": "Ada", "judge": {"kind": "exact", "expected": "Ada"}}')
    if name.endswith("l"):
        assert cli("tasks", "check", SKILL, tmp_path / name, store=place.store_path).returncode == 1


def test_what_failed_is_named_once_and_not_of_a_persons_text(cli: Cli, place: Place, tmp_path: Path) -> None:
    new = tmp_path / "NEW.md"
    new.write_text(f"{place.main.read_text()}\n{LESSONS}\n")
    mine = parsed(cli("evaluate", SKILL, "--file", new, "--target", TARGET, "--json", store=place.store_path))
    _, screen = at_a_terminal(place, "promote", mine["candidate_id"], "--simulated", answer="n")
    assert "What failed" not in screen


def test_the_promotion_that_is_named_after_a_simulation_can_be_copied(cli: Cli, place: Place, tmp_path: Path) -> None:
    (tmp_path / "NEW.md").write_text(f"{place.main.read_text()}\n{LESSONS}\n")
    test = ("evaluate", SKILL, "--file", tmp_path / "NEW.md", "--target", TARGET)
    for command in (test, ("evaluate", *test[1:4]), ("show", SKILL), ("skills",)):
        done = cli(*command, store=place.store_path)
        assert done.returncode == 0, done.stderr
        (named,) = re.findall("skillopt-mcp (promote .*?)(?:  |$)", done.stdout + done.stderr, re.MULTILINE)
        code, screen = at_a_terminal(place, *named.partition(" --store")[0].split(), answer="n")
        assert (code, "from a simulation and says nothing" in screen) == (1, False), screen
        assert "may it go live" in screen.lower() or "[y/N]" in screen, screen


def test_a_test_that_can_hardly_find_anything_says_so_before_it_is_paid(cli: Cli, make_place) -> None:
    place: Place = make_place(n_tasks=12)
    edit(place, "Answer in French.")
    is_warned = []
    for n in range(6):
        again = ("--again",) if n else ()
        said = cli("evaluate", SKILL, "--target", TARGET, *again, "--dry-run", store=place.store_path).stderr
        best = max(int(each) for each in re.findall(r"points in (\d+) %", said))
        is_warned.append("It can hardly find a gain: add tasks first." in said)
        assert is_warned[-1] == (best < 5), said
        assert cli("evaluate", SKILL, "--target", TARGET, *again, store=place.store_path).returncode == 0
    assert set(is_warned) == {False, True}
