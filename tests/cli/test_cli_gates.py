from __future__ import annotations

import pytest
from console import BACKENDS, TARGET, Cli, parsed

from skillopt_mcp.operations.proposing import propose_edits
from skillopt_mcp.operations.recording import Recording, record_trajectory
from skillopt_mcp.operations.workspace import Workspace

RUN = ("--epochs", "1", "--batch", "10", "--max-pairs", "40")


def proposed(place, *contents: str) -> str:
    """Return the id of a candidate of these lines."""
    with Workspace(place.store_path) as workspace:
        edits = [{"op": "append", "content": content} for content in contents]
        made = propose_edits(workspace, str(place.skill_path), edits).candidate_id
    assert made
    return made


def test_calibrate_says_what_a_test_can_find(cli: Cli, make_place) -> None:
    place = make_place()
    arguments = ("calibrate", "ledger-clerk", "--target", TARGET, "--pairs", "12", "--gain", "0.3")
    told = cli(*arguments, store=place.store_path)
    assert told.returncode == 0, told.stderr
    assert "against itself, 12 pairs on " in told.stdout
    assert "Smallest gain that four of five tests accept within 200 pairs (alpha 0.0304): " in told.stdout
    assert "SIMULATION" in told.stdout
    found = parsed(cli(*arguments, "--json", store=place.store_path))
    assert (found["n_pairs"], found["max_pairs"]) == (12, 200)


def test_race_and_credit_name_each_arm_and_edit(cli: Cli, make_place) -> None:
    place = make_place()
    first, second = proposed(place, "- One.", "- Two."), proposed(place, "- Three.")
    raced = parsed(
        cli(
            "race",
            first,
            second,
            "--control",
            "none",
            "--laps",
            "8",
            "--target",
            TARGET,
            "--json",
            store=place.store_path,
        )
    )
    rows = raced["rows"]
    assert isinstance(rows, list)
    assert [row["arm"] for row in rows] == [first, second, "no skill"]
    told = cli("credit", first, "--pairs", "8", "--target", TARGET, store=place.store_path)
    assert told.returncode == 0, told.stderr
    assert "append SKILL.md: - One." in told.stdout
    alone = cli("credit", second, "--target", TARGET, store=place.store_path)
    assert (alone.returncode, alone.stdout) == (1, "")
    assert alone.stderr.startswith(f"error: candidate '{second}' has 1 applied edits of its own")


def test_a_skill_is_raced_against_its_one_shot_rewrite(cli: Cli, make_place) -> None:
    place = make_place()
    arguments = ("race", "ledger-clerk", "--control", "rewrite", "--laps", "8")
    with Workspace(place.store_path) as workspace:
        [task, *_] = workspace.store.tasks.list_tasks(workspace.skill(str(place.skill_path)).id)
        record_trajectory(workspace, "ledger-clerk", Recording(f"{task.prompt} And once more.", hard=False))
    told = cli(*arguments, *BACKENDS, store=place.store_path)
    assert told.returncode == 0, told.stderr
    assert "The one-shot rewrite is kept as c-" in told.stdout


def test_a_test_claims_tasks_like_these_where_that_is_asked_for(cli: Cli, make_place) -> None:
    place = make_place(n_tasks=90)
    candidate = proposed(place, "- One.")
    arguments = ("evaluate", candidate, "--target", TARGET)
    told = cli(*arguments, "--claim", "like_these", "--max-pairs", "10", store=place.store_path)
    assert told.returncode == 0, told.stderr
    assert "on tasks like these, if the 30 test tasks are a fair sample of them" in told.stdout
    other = cli("evaluate", proposed(place, "- Two."), "--target", TARGET, "--max-pairs", "8", store=place.store_path)
    assert "on these 30 held-out tasks" in other.stdout


def test_another_gate_is_asked_about_a_run_that_is_over(cli: Cli, make_place) -> None:
    place = make_place()
    run = parsed(cli("replay", "ledger-clerk", *BACKENDS, *RUN, "--json", store=place.store_path))
    found = parsed(cli("replay", "ledger-clerk", "--policy", "paired_se", "--json", store=place.store_path))
    assert (found["run_id"], found["policy"]) == (run["run_id"], "paired_se")
    told = cli("replay", str(run["run_id"]), "--policy", "strict", store=place.store_path)
    assert f"0 of {len(found['rows'])} verdicts of run {run['run_id']} differ." in told.stdout
    refused = cli("replay", "ledger-clerk", "--policy", "strict", "--epochs", "3", store=place.store_path)
    assert refused.returncode == 1
    assert "--policy looks at a run that is over" in refused.stderr


def test_a_run_that_cannot_succeed_is_told_before_it_begins(cli: Cli, make_place) -> None:
    place = make_place()
    told = cli("replay", "ledger-clerk", *BACKENDS, "--epochs", "1", "--max-pairs", "4", store=place.store_path)
    assert "warning: at the end, this test cannot accept anything" in told.stderr


def test_worn_tasks_are_rotated_at_a_terminal(cli: Cli, make_place) -> None:
    place = make_place()
    found = parsed(cli("tasks", "rotate", "ledger-clerk", "--json", store=place.store_path))
    assert (found["rotated"], found["most_looks"]) == ([], 0)
    told = cli("tasks", "rotate", "ledger-clerk", "--looks", "0", store=place.store_path)
    assert told.returncode == 1
    assert "looks '0' is not possible" in told.stderr


@pytest.mark.parametrize("command", [["calibrate", "ledger-clerk"], ["race", "c-000000000000"]])
def test_a_real_target_is_not_asked_without_a_yes(cli: Cli, make_place, command: list[str]) -> None:
    place = make_place()
    done = cli(*command, "--target", "openai:none", store=place.store_path)
    assert done.returncode == 1
