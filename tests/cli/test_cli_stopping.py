"""Stopping: a run that cannot go on says why, keeps what was answered, and names the command that continues."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

from console import BACKENDS, TIMEOUT_S, Cli, Place, parsed, run_forked

from skillopt_mcp.core.budgets import Caps
from skillopt_mcp.workspace.workspace import Workspace

SMALL = ("--epochs", "2", "--batch", "5")
LONGEST_KIB = 400


def test_a_full_disk_stops_a_run_which_can_be_resumed(make_place) -> None:
    place: Place = make_place()
    script = shlex.join([*place.command, "replay", "ledger-clerk", *BACKENDS, "--epochs", "3", "--json"])
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f {LONGEST_KIB}; {script}"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    stopped = json.loads(done.stdout)
    assert (done.returncode, stopped["status"]) == (1, "stopped")
    assert f"{LONGEST_KIB * 1024:,} bytes" in stopped["reason"]
    assert stopped["next_step"]["arguments"] == {"skill": "ledger-clerk", "resume": True}


def test_caps_are_kept_and_each_can_be_raised_by_the_command_that_is_named(cli: Cli, make_place) -> None:
    place: Place = make_place()
    first = cli("replay", "ledger-clerk", *BACKENDS, *SMALL, "--max-calls", "30", store=place.store_path)
    assert (first.returncode, first.stdout) == (1, "")
    assert f"replay ledger-clerk --resume --max-calls 60 --store {place.store_path}" in first.stderr
    # Another cap is added to those that the run has.
    second = cli("replay", "ledger-clerk", "--resume", "--max-usd", "1", "--json", store=place.store_path)
    stopped = json.loads(second.stdout)
    assert (second.returncode, stopped["status"], "30 calls" in stopped["reason"]) == (1, "stopped", True)
    with Workspace(place.store_path) as workspace:
        [run] = workspace.store.runs.list_runs(workspace.place.skill("ledger-clerk").id)
    assert run.caps == Caps(calls=30, usd=1.0)
    ended = parsed(cli("replay", "ledger-clerk", "--resume", "--max-calls", "9999", "--json", store=place.store_path))
    assert ended["status"] == "finished"


def test_a_resumed_run_is_written_to_the_folder_that_it_was_begun_with(cli: Cli, make_place, tmp_path) -> None:
    place: Place = make_place()
    capped = (*BACKENDS, *SMALL, "--max-calls", "30", "--out", "run")  # in the folder that the command runs in
    assert cli("replay", "ledger-clerk", *capped, store=place.store_path).returncode == 1
    run = tmp_path / "here" / "run"
    assert ((run / "best_skill.md").exists(), (run / "summary.json").exists()) == (True, False)
    resumed = ["--store", str(place.store_path), "replay", "ledger-clerk", "--resume", "--max-calls", "9999", "--json"]
    done = parsed(run_forked(resumed, tmp_path))
    assert (done["status"], (run / "summary.json").exists()) == ("finished", True)
    assert not (tmp_path / "run").exists()


def test_the_steps_that_are_announced_are_those_that_are_counted(cli: Cli, make_place) -> None:
    place: Place = make_place(n_tasks=30)
    done = cli("replay", "ledger-clerk", *BACKENDS, "--epochs", "3", "--batch", "5", store=place.store_path)
    assert done.returncode == 0, done.stderr
    announced = re.search(r"Steps: (\d+) \((\d+) with edits, epochs 3, ", done.stderr)
    assert announced
    counted = re.findall(r"^step (\d+)/(\d+) ", done.stderr, re.MULTILINE)
    assert counted == [(str(n), announced[1]) for n in range(1, int(announced[1]) + 1)]
    assert f"finished: {announced[1]} steps" in done.stdout
    assert int(announced[2]) < int(announced[1])
