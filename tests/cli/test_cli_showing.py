"""What a program reads of the command line: fields beside the text, next steps that are commands, and an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from changes import make_accepted, make_candidate
from console import TARGET, Cli, Place, parsed

from skillopt_mcp.cli.main import main
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.looks.inspecting import inspect
from skillopt_mcp.operations.runs.replaying import start_run
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config


@pytest.fixture
def place(make_place) -> Place:
    return make_place()


def told(place: Place, capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Return what a command that ends well prints as JSON."""
    assert main(["--store", str(place.store_path), *arguments, "--json"]) == 0
    value = json.loads(capfd.readouterr().out)
    assert isinstance(value, dict)
    return value


def test_each_kind_of_thing_is_shown_in_fields_beside_its_text(
    cli: Cli, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    candidate = make_accepted(place)
    with Workspace(place.store_path) as workspace:
        attempt = record_trajectory(workspace, "ledger-clerk", Recording("Due?", hard=True, reason="right"))
        text = inspect(workspace, candidate).text
    shown = parsed(cli("show", candidate, "--json", store=place.store_path))
    made = shown["candidate"]
    assert isinstance(made, dict)
    assert (shown["text"], made["skill"], made["verdict"]) == (text, "ledger-clerk", "accept")
    assert "n_left_out" not in made
    assert [edit["status"] for edit in made["edits"]] == ["applied"]
    [test_id] = made["tests"]
    test = told(place, capfd, "show", test_id)["test"]
    assert (test["verdict"], test["simulated"], test["evidence"]) == ("accept", True, "")
    skill = told(place, capfd, "show", "ledger-clerk")["skill"]
    assert (skill["splits"], skill["permission"], skill["n_new"]) == ({"train": 20, "val": 20, "test": 20}, None, 1)
    assert [(row["id"], row["standing"], row["base"]) for row in skill["candidates"]] == [
        (candidate, "open", skill["live_version"])
    ]
    trajectory = told(place, capfd, "show", attempt.trajectory_id)["trajectory"]
    assert (trajectory["task"], trajectory["hard"], trajectory["reason"]) == ("Due?", True, "right")
    version = told(place, capfd, "show", f"ledger-clerk@{made['version']}")["version"]
    assert (version["parent"], version["origin"]) == (made["base"], "edited")
    assert {file["path"]: file["n_bytes"] for file in version["files"]}["SKILL.md"] > place.main.stat().st_size


def test_the_next_step_is_a_command_wherever_json_tells_it(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    def steps() -> list[str]:
        [row] = told(place, capfd, "skills")["skills"]
        return [row["next_step"], told(place, capfd, "show", "ledger-clerk")["next_step"]]

    either = f"{place.program} replay ledger-clerk --target BACKEND:MODEL --optimizer BACKEND:MODEL"
    assert steps() == [f"propose_edits with rollouts 8 by your agent (no key needed), or {either}"] * 2
    candidate = make_candidate(place)
    evaluate = f"{place.program} evaluate {candidate} --target BACKEND:MODEL"
    assert steps() == [f"evaluate_candidate {candidate} by your agent (no key needed), or {evaluate}"] * 2
    assert evaluate.removeprefix(place.program) in told(place, capfd, "show", candidate)["next_step"]
    evaluated = told(place, capfd, "evaluate", candidate, "--target", TARGET)
    promote = f"Evaluate with a real target, or insist: {place.program} promote {candidate} --simulated"
    assert [*steps(), told(place, capfd, "show", candidate)["next_step"], evaluated["next_step"]] == [promote] * 4
    promoted = told(place, capfd, "promote", candidate, "--simulated", "--yes")
    undo = f"It is live. To undo it: {place.program} rollback ledger-clerk"
    assert promoted["next_step"] == undo
    undone = told(place, capfd, "rollback", "ledger-clerk", "--yes")
    assert undone["next_step"] == f"{undo} {promoted['version']}"
    with Workspace(place.store_path, target=TARGET, optimizer=TARGET) as workspace:
        run = start_run(workspace, "ledger-clerk", Config(epochs=1))
    assert told(place, capfd, "runs")["next_step"].startswith(f"{place.program} replay ledger-clerk --resume")
    assert told(place, capfd, "show", run.id)["next_step"].startswith(f"{place.program} replay ledger-clerk --resume")


def test_a_skill_without_tasks_is_told_to_be_given_some(make_place, capfd: pytest.CaptureFixture[str]) -> None:
    place = make_place(n_tasks=0)
    step = f"{place.program} tasks add ledger-clerk FILE"
    [row] = told(place, capfd, "skills")["skills"]
    assert (row["next_step"], told(place, capfd, "show", "ledger-clerk")["next_step"]) == (step, step)
    dashed = place.skill_path.rename(place.skill_path.with_name("-dash"))
    told(place, capfd, "skills", "track", str(dashed))
    steps = {row["name"]: row["next_step"] for row in told(place, capfd, "skills")["skills"]}
    assert steps["-dash"] == f"{place.program} tasks add {dashed} FILE"


@pytest.mark.parametrize("verb", ["promote", "rollback"])
def test_what_is_refused_has_an_error_beside_its_result(cli: Cli, place: Place, verb: str) -> None:
    candidate = make_accepted(place)
    if verb == "rollback":
        assert cli("promote", candidate, "--simulated", "--yes", store=place.store_path).returncode == 0
        place.main.write_text("# Mine\n")
    named = candidate if verb == "promote" else "ledger-clerk"
    done = cli(verb, named, "--yes", "--json", store=place.store_path)
    result = json.loads(done.stdout)
    assert done.returncode == 1
    assert result["status"] == ("refused" if verb == "promote" else "stale")
    assert result["error"] == f"{result['status']}: {result['reason']}"
    assert done.stderr.startswith(f"error: {result['error']}")
    assert "promote_skill" not in result["next_step"]
